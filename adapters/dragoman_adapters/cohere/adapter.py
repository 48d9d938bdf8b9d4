"""The adapter for Cohere's /v2/chat."""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman_adapters.cohere import decode, encode
from dragoman_adapters.cohere.options import decode_options


class CohereAdapter(WireAdapter):
    """Cohere's chat API, version 2; see https://docs.cohere.com/reference/chat."""

    provider: ClassVar[str] = "cohere"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.cohere.com",
        key_variables=("CO_API_KEY", "COHERE_API_KEY"),
        base_url_variable="CO_API_URL",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.cohere")
    path: ClassVar[str] = "/v2/chat"
    services_at: ClassVar[str] = "dragoman_adapters.cohere.services:CohereServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.cohere.embeddings:CohereEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.cohere.stream:CohereStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.cohere.errors:decode_error"

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)
