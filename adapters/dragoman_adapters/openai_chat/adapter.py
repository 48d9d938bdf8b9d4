"""The adapter for Chat Completions: OpenAI's own, and the base of all other endpoints with this wire."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import EMULATED, NATIVE, AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts
from dragoman.adapter.requests.option_table import read_options
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat import decode, encode, errors
from dragoman_adapters.openai_chat.cache_marks import FIELD
from dragoman_adapters.openai_chat.dialect import OPENAI, Dialect
from dragoman_adapters.openai_chat.options import CONVERSATION, decode_options

if TYPE_CHECKING:
    from dragoman.adapter.answers.reply_writer import ReplyWriter
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.batch_api import BatchApi
    from dragoman.adapter.operations.service_api import ServiceApi
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
    from dragoman.adapter.requests.request_reader import HistoryReader


class ChatAdapter(WireAdapter):
    """Chat Completions; see https://platform.openai.com/docs/api-reference/chat.

    Another endpoint is a subclass with its own ``provider``, ``endpoint``, ``dialect`` and ``models``.
    """

    provider: ClassVar[str] = "openai-chat"
    telemetry_name: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
        priced_hosts=".api.openai.com",
    )
    dialect: ClassVar[Dialect] = OPENAI
    client_wire: ClassVar[str] = "chat"
    embeddings_at: ClassVar[str] = "dragoman_adapters.openai_platform.embeddings:OpenAIEmbeddings"
    decode_error_at: ClassVar[str] = "dragoman_adapters.openai_chat.errors:decode_error"
    encode_error_at: ClassVar[str] = "dragoman_adapters.openai_platform.encode_errors:encode_error"
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

    @property
    def batch_api(self) -> "BatchApi | None":
        """Return OpenAI's batch API; None for other endpoints with this wire, which have none, or a different one."""
        from dragoman_adapters.openai_platform.batch import OpenAIBatchApi  # imported late: few programs submit batches

        return OpenAIBatchApi(self.provider, self.model, self.dialect.path) if type(self) is ChatAdapter else None

    @property
    def services(self) -> "ServiceApi":
        """Return OpenAI's services; other endpoints with this wire list their models."""
        from dragoman_adapters.openai_platform import services  # imported late: few programs use them

        kind = services.OpenAIFilesApi if type(self) is ChatAdapter else services.CompatibleServiceApi
        return kind(self.provider, self.model)

    def request_path(self, options: AdapterOptions) -> str:
        return self.dialect.path

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        return encode.encode_body(request, tools, self.dialect)

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        native = wirejson.loads_object(response.body)
        if (failed := errors.find_embedded_error(native, self.dialect)) is not None:
            raise errors.decode_error(failed, ErrorContext(self.provider, self.model, headers=response.headers))
        return native

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return decode.decode_message(native, reply, self.dialect)

    def decode_counts(self, native: dict[str, Any]) -> ReplyCounts:
        return decode.decode_counts(native, self.dialect)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader, self.dialect)
        context = reader.context
        if native.get("functions"):
            tools = decode.decode_tools(native, self.provider)
        else:
            tools = reader.tools(native.get("tools"), decode.decode_tools, native, self.provider)
        options = read_options(
            native,
            (type(self), self.model),
            context,
            CONVERSATION,
            lambda: decode_options(native, self.target, context, self.dialect),
        )
        return tools, options

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        from dragoman_adapters.openai_chat.stream import ChatStreamDecoder  # imported late: only streams need it

        return ChatStreamDecoder(self.provider, context, self.dialect)

    def encode_reply(self, message: Message, writer: "ReplyWriter") -> dict[str, Any]:
        from dragoman_adapters.openai_chat.encode_reply import encode_reply  # imported late: only servers write replies

        return encode_reply(message, writer, self.dialect)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies
        from dragoman_adapters.openai_chat.encode_stream import ChatStreamEncoder

        return ChatStreamEncoder(ReplyWriter.for_stream(self.provider, self.model, context), self.dialect)
