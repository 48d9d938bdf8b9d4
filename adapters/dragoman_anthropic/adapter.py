"""The adapter for Anthropic's Messages API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.assembly import Reply
from dragoman.adapter.beginning import begin
from dragoman.adapter.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.decoding import StreamDecoder, reading
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.failures import Origin, error_object
from dragoman.adapter.incoming import HistoryReader, request_object
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_anthropic import decode, encode, errors
from dragoman_anthropic.stream import MessagesDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch import BatchWire

PATH = "/v1/messages"

_MODELS = ModelTable.of("dragoman_anthropic")


class AnthropicAdapter(Adapter):
    """Messages in, Messages out; see https://docs.claude.com/en/api/messages."""

    provider: ClassVar[str] = "anthropic"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        base_url_variable="ANTHROPIC_BASE_URL",
    )
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return _MODELS.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = begin(self, messages, tools, options)
        body = encode.body(request, tools)
        headers = {"anthropic-version": encode.version(body)}
        if request.voids_thinking(body):
            encode.let_drop(body)
            headers |= request.listed_header("anthropic-beta", encode.BINDING_BETA)
        return request.wire(PATH, body, headers)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            return decode.message(decode.reply_object(response.body), Reply(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return MessagesDecoder(self.provider, context)

    @property
    def batches(self) -> "BatchWire":
        from dragoman_anthropic.batch import MessageBatches  # few programs submit any

        return MessageBatches(self.provider, self.model)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = request_object(body)
        with reading(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.history(native, reader)
            tools = decode.tools(native, self.provider)
            return reader.messages, tools, decode.options(native, self, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.read(error_object(body), Origin(self.provider, self.model, status, headers, body))
