"""The adapter for Ollama's /api/chat."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
from dragoman_adapters.ollama import decode, encode, errors
from dragoman_adapters.ollama.options import decode_options
from dragoman_adapters.ollama.stream import OllamaStreamDecoder

PATH = "/api/chat"

_MODELS = ModelTable.of("dragoman_adapters.ollama")


class OllamaAdapter(Adapter):
    """Chats with a model that an Ollama server runs; see https://docs.ollama.com/api/chat."""

    provider: ClassVar[str] = "ollama"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="http://127.0.0.1:11434",
        key_variables=("OLLAMA_API_KEY",),
        key_required=False,
        base_url_variable="OLLAMA_HOST",
    )
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return _MODELS.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        request, tools = prepare_request(self.target, messages, tools, options)
        return request.build(PATH, encode.encode_body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            native = decode.parse_reply(response.body) if response.status < 400 else {}
            if response.status >= 400 or "error" in native:
                raise self.error(response.status, response.body, response.headers)
            return decode.decode_message(native, ReplyBuilder(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return OllamaStreamDecoder(self.provider, context)

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
