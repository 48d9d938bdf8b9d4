"""The adapter for Anthropic's Messages API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic import decode, encode, errors
from dragoman_adapters.anthropic.options import decode_options
from dragoman_adapters.anthropic.stream import AnthropicStreamDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch_api import BatchApi

PATH = "/v1/messages"

_MODELS = ModelTable.of("dragoman_adapters.anthropic")


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
        request, tools = prepare_request(self.target, messages, tools, options)
        body = encode.encode_body(request, tools)
        headers = {"anthropic-version": encode.api_version(body)}
        if request.has_void_thinking(body):
            encode.allow_thinking_drop(body)
            headers |= request.merge_list_header("anthropic-beta", encode.BINDING_BETA)
        return request.build(PATH, body, headers)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            return decode.decode_message(decode.parse_reply(response.body), ReplyBuilder(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return AnthropicStreamDecoder(self.provider, context)

    @property
    def batch_api(self) -> "BatchApi":
        from dragoman_adapters.anthropic.batch import AnthropicBatchApi  # imported late: few programs submit batches

        return AnthropicBatchApi(self.provider, self.model)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.decode_history(native, reader)
            tools = decode.decode_tools(native, self.provider)
            return reader.messages, tools, decode_options(native, self.target, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )
