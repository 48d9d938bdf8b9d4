"""The adapter for Acme's POST /v3/dialogue."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from acme_adapter import decode, encode, errors
from acme_adapter.stream import AcmeStreamDecoder
from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

_MODELS = ModelTable.of("acme_adapter")


class AcmeAdapter(Adapter):
    provider: ClassVar[str] = "acme"
    endpoint: ClassVar[Endpoint] = Endpoint(base_url="https://api.acme.example", key_variables=("ACME_API_KEY",))
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return _MODELS.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = prepare_request(self.target, messages, tools, options)
        return request.build("/v3/dialogue", encode.encode_body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        if response.status >= 400:
            raise self.error(response.status, response.body, response.headers)
        with wrap_malformed(self.provider):
            return decode.decode_message(wirejson.loads_object(response.body), ReplyBuilder(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return AcmeStreamDecoder(context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.decode_history(native, reader)
            return reader.messages, decode.decode_tools(native), decode.decode_options(native, self.target, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_reply_error(status, body, headers, self.model)
