"""The adapter for Chat Completions: OpenAI's own, and the base of all other endpoints with this wire."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import EMULATED, NATIVE, AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat import decode, encode, errors
from dragoman_adapters.openai_chat import options as parameters
from dragoman_adapters.openai_chat.dialect import OPENAI, Dialect
from dragoman_adapters.openai_chat.stream import ChatStreamDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch_api import BatchApi

_MODELS = ModelTable.of("dragoman_adapters", "openai_platform/models.toml", "openai_chat/models.toml")


class ChatAdapter(Adapter):
    """See https://platform.openai.com/docs/api-reference/chat.

    Another endpoint is a subclass with its own ``provider``, ``endpoint``, ``dialect`` and ``models``.
    """

    provider: ClassVar[str] = "openai-chat"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
    )
    dialect: ClassVar[Dialect] = OPENAI
    models: ClassVar[ModelTable] = _MODELS
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        found = self.models.capabilities(self.model)
        if self.dialect.schema_format == "json_object" and found.supports_structured_output is NATIVE:
            overrides = {"supports_structured_output": EMULATED, "structured_output_by": "prompt"}
            return found.model_copy(update=overrides)
        return found

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = prepare_request(self.target, messages, tools, options)
        return request.build(self.dialect.path, encode.encode_body(request, tools, self.dialect))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = decode.parse_reply(response.body)
            if (failed := errors.find_embedded_error(native, self.dialect)) is not None:
                raise errors.decode_error(failed, ErrorContext(self.provider, self.model, headers=response.headers))
            return decode.decode_message(native, ReplyBuilder(context, self.provider), self.dialect)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ChatStreamDecoder(self.provider, context, self.dialect)

    @property
    def batch_api(self) -> "BatchApi | None":
        """Other endpoints with this wire have no batch API, or a different one."""
        from dragoman_adapters.openai_platform.batch import OpenAIBatchApi  # imported late: few programs submit batches

        return OpenAIBatchApi(self.provider, self.model, self.dialect.path) if type(self) is ChatAdapter else None

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.decode_history(native, reader, self.dialect)
            return (
                reader.messages,
                decode.decode_tools(native, self.provider),
                parameters.decode_options(native, self.target, context, self.dialect),
            )

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )
