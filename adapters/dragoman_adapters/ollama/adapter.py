"""The adapter for Ollama's /api/chat."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.requests.option_table import read_options
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.ollama import decode, encode, errors
from dragoman_adapters.ollama.options import CONVERSATION, decode_options

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader


class OllamaAdapter(WireAdapter):
    """Chats with a model that an Ollama server runs; see https://docs.ollama.com/api/chat."""

    provider: ClassVar[str] = "ollama"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="http://127.0.0.1:11434",
        key_variables=("OLLAMA_API_KEY",),
        key_required=False,
        base_url_variable="OLLAMA_HOST",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.ollama")
    client_wire: ClassVar[str] = "ollama"
    path: ClassVar[str] = "/api/chat"
    services_at: ClassVar[str] = "dragoman_adapters.ollama.services:OllamaServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.ollama.embeddings:OllamaEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.ollama.stream:OllamaStreamDecoder"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.ollama.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.ollama.encode_reply:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.ollama.encode_stream:OllamaStreamEncoder"

    encode_body = staticmethod(encode.encode_body)

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        native = wirejson.loads_object(response.body)
        if "error" in native:
            raise self.error(response.status, response.body, response.headers)
        return native

    decode_message = staticmethod(decode.decode_message)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        context = reader.context
        tools = reader.tools(native.get("tools"), decode.decode_tools, native, self.provider)
        options = read_options(
            native,
            (type(self), self.model),
            context,
            CONVERSATION,
            lambda: decode_options(native, self.target, context),
        )
        return tools, options

    decode_error = staticmethod(errors.decode_error)
