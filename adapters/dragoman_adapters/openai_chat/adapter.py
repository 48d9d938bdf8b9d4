"""The adapter for Chat Completions: OpenAI's own, and the base of all other endpoints with this wire."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import EMULATED, NATIVE, AdapterCapabilities, ModelTable
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts
from dragoman.adapter.requests.request_builder import RequestBuilder, Target
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat import decode, encode, errors
from dragoman_adapters.openai_chat.cache_marks import FIELD
from dragoman_adapters.openai_chat.dialect import OPENAI, Dialect
from dragoman_adapters.openai_chat.options import decode_options
from dragoman_adapters.openai_platform import ENDPOINT

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader


class ChatAdapter(WireAdapter):
    """Chat Completions; see https://platform.openai.com/docs/api-reference/chat.

    Another endpoint is a subclass with its own ``provider``, ``endpoint``, ``dialect`` and ``models``.
    """

    provider: ClassVar[str] = "openai-chat"
    telemetry_name: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = ENDPOINT
    dialect: ClassVar[Dialect] = OPENAI
    client_wire: ClassVar[str] = "chat"
    batch_api_at: ClassVar[str] = "dragoman_adapters.openai_platform.batch:find_batch_api"
    services_at: ClassVar[str] = "dragoman_adapters.openai_platform.services:find_services"
    embeddings_at: ClassVar[str] = "dragoman_adapters.openai_platform.embeddings:OpenAIEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.openai_chat.stream:ChatStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.openai_chat.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.openai_chat.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.openai_platform.encode_errors:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.openai_chat.encode_stream:ChatStreamEncoder"
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.openai_chat")
    models: ClassVar[ModelTable] = ModelTable.of(
        "dragoman_adapters",
        "openai_platform/models.toml",
        "openai_platform/retirements.toml",
        "openai_chat/models.toml",
    )

    @property
    def capabilities(self) -> AdapterCapabilities:
        found = super().capabilities
        if self.dialect.schema_format == "json_object" and found.supports_structured_output is NATIVE:
            overrides = {"supports_structured_output": EMULATED, "structured_output_by": "prompt"}
            return found.model_copy(update=overrides)
        return found

    def _marks_cache(self, capabilities: AdapterCapabilities) -> bool:
        return FIELD in capabilities.wire

    def request_path(self, options: AdapterOptions) -> str:
        return self.dialect.path

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        return encode.encode_body(request, tools, self.dialect)

    def find_embedded_error(self, native: dict[str, Any]) -> dict[str, Any] | None:
        return errors.find_embedded_error(native, self.dialect)

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return decode.decode_message(native, reply, self.dialect)

    def decode_counts(self, native: dict[str, Any]) -> ReplyCounts:
        return decode.decode_counts(native, self.dialect)

    def decode_history(self, native: dict[str, Any], reader: "HistoryReader") -> list[str]:
        return decode.decode_history(native, reader, self.dialect)

    decode_tools = staticmethod(decode.decode_tools)

    def decode_options(
        self, native: dict[str, Any], target: Target, context: RequestContext, covered: Sequence[str]
    ) -> AdapterOptions:
        return decode_options(native, target, context, covered, self.dialect)
