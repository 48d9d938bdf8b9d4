"""The adapter for Cohere's /v2/chat."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.cohere import decode, encode, errors
from dragoman_adapters.cohere.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader


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

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        return decode.decode_tools(native, self.provider), decode_options(native, self.target, reader.context)

    decode_error = staticmethod(errors.decode_error)
