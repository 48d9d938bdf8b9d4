"""The adapter for Ollama's /api/chat."""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman_adapters.ollama import decode, encode
from dragoman_adapters.ollama.options import decode_options


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
    error_field: ClassVar[str] = "error"
    services_at: ClassVar[str] = "dragoman_adapters.ollama.services:OllamaServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.ollama.embeddings:OllamaEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.ollama.stream:OllamaStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.ollama.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.ollama.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.ollama.encode_reply:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.ollama.encode_stream:OllamaStreamEncoder"

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)
