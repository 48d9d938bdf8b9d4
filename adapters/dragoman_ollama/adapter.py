"""The adapter for Ollama's /api/chat."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
from dragoman_ollama import decode, encode, errors
from dragoman_ollama.stream import ChatDecoder

PATH = "/api/chat"

_MODELS = ModelTable.of("dragoman_ollama")


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
        request, tools = begin(self, messages, tools, options)
        return request.wire(PATH, encode.body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            native = decode.reply_object(response.body) if response.status < 400 else {}
            if response.status >= 400 or "error" in native:
                raise self.error(response.status, response.body, response.headers)
            return decode.message(native, Reply(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ChatDecoder(self.provider, context)

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
