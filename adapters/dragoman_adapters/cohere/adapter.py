"""The adapter for Cohere's /v2/chat."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.cohere import decode, encode
from dragoman_adapters.cohere.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.errors import ProviderError
    from dragoman.adapter.operations.embeddings import EmbeddingAdapter
    from dragoman.adapter.operations.service_api import ServiceApi
    from dragoman.adapter.replies.error_context import ErrorContext
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
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

    @property
    def services(self) -> "ServiceApi":
        from dragoman_adapters.cohere.services import CohereServiceApi  # imported late: few programs use them

        return CohereServiceApi(self.provider, self.model)

    @property
    def embeddings(self) -> "EmbeddingAdapter":
        from dragoman_adapters.cohere.embeddings import CohereEmbeddings  # imported late: few programs embed

        return CohereEmbeddings(self.provider, self.model, self.error)

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        return decode.decode_tools(native, self.provider), decode_options(native, self.target, reader.context)

    def decode_error(self, native: dict[str, Any], origin: "ErrorContext") -> "ProviderError":
        from dragoman_adapters.cohere.errors import decode_error  # imported late: few requests fail

        return decode_error(native, origin)

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        from dragoman_adapters.cohere.stream import CohereStreamDecoder  # imported late: only streams need it

        return CohereStreamDecoder(self.provider, context)
