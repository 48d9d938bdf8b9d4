"""The adapter for Anthropic's Messages API."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext, WireAdapter
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests.known_options import read_options
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.request_reader import HistoryReader
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import Usage
from dragoman_adapters.anthropic import decode, encode, errors
from dragoman_adapters.anthropic.options import CONVERSATION, decode_options
from dragoman_adapters.anthropic.stream import AnthropicStreamDecoder

if TYPE_CHECKING:
    from dragoman.adapter.answers.reply_writer import ReplyWriter
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.batch_api import BatchApi
    from dragoman.adapter.operations.service_api import ServiceApi


class AnthropicAdapter(WireAdapter):
    """Anthropic's Messages API; see https://docs.claude.com/en/api/messages."""

    provider: ClassVar[str] = "anthropic"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        base_url_variable="ANTHROPIC_BASE_URL",
        token_variables=("ANTHROPIC_AUTH_TOKEN",),
        credentials="anthropic",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.anthropic")
    client_wire: ClassVar[str] = "messages"
    path: ClassVar[str] = "/v1/messages"
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.anthropic")
    instruction_fields: ClassVar[tuple[str, ...]] = ("system",)
    marks_cache: ClassVar[bool] = True
    cites_documents: ClassVar[bool] = True

    @property
    def batch_api(self) -> "BatchApi":
        from dragoman_adapters.anthropic.batch import AnthropicBatchApi  # imported late: few programs submit batches

        return AnthropicBatchApi(self.provider, self.model)

    @property
    def services(self) -> "ServiceApi":
        from dragoman_adapters.anthropic.services import AnthropicServiceApi  # imported late: few programs use them

        return AnthropicServiceApi(self.provider, self.model)

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        return encode.encode_body(request, tools)

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        headers = {"anthropic-version": encode.api_version(body)}
        if request.has_void_thinking(body):
            encode.allow_thinking_drop(body)
            headers |= request.merge_list_header("anthropic-beta", encode.BINDING_BETA)
        return headers

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        native = super().parse_reply(response)
        if native.get("type") == "error":
            raise errors.decode_error(native, ErrorContext(self.provider, self.model, headers=response.headers))
        return native

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return decode.decode_message(native, reply)

    def read_usage(self, response: WireResponse, context: RequestContext) -> Usage | None:
        return self.read_counts(response, context, decode.decode_counts)

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        tools, context = decode.decode_tools(native, self.provider), reader.context
        options = read_options(
            native,
            (type(self), self.model),
            context,
            CONVERSATION,
            lambda: decode_options(native, self.target, context),
        )
        return tools, options

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        return errors.decode_error(native, origin)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return AnthropicStreamDecoder(self.provider, context)

    def encode_reply(self, message: Message, writer: "ReplyWriter") -> dict[str, Any]:
        return _reply_encoding()(message, writer)

    def encode_error(self, error: DragomanError, context: RequestContext) -> WireResponse:
        from dragoman_adapters.anthropic.encode_reply import encode_error  # imported late: only servers write replies

        return encode_error(error, context, self.provider)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies
        from dragoman_adapters.anthropic.encode_stream import MessagesStreamEncoder

        return MessagesStreamEncoder(ReplyWriter.for_stream(self.provider, self.model, context))


@cache
def _reply_encoding() -> "Callable[[Message, ReplyWriter], dict[str, Any]]":
    # Imported late: only servers write replies. A statement that imports takes a microsecond each time.
    from dragoman_adapters.anthropic.encode_reply import encode_reply

    return encode_reply
