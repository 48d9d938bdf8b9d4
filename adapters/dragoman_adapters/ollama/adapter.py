"""The adapter for Ollama's /api/chat."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.requests.option_table import read_options
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.ollama import decode, encode
from dragoman_adapters.ollama.options import CONVERSATION, decode_options

if TYPE_CHECKING:
    from dragoman.adapter.answers.reply_writer import ReplyWriter
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.embeddings import EmbeddingAdapter
    from dragoman.adapter.operations.service_api import ServiceApi
    from dragoman.adapter.replies.error_context import ErrorContext
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
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

    @property
    def services(self) -> "ServiceApi":
        from dragoman_adapters.ollama.services import OllamaServiceApi  # imported late: few programs use them

        return OllamaServiceApi(self.provider, self.model)

    @property
    def embeddings(self) -> "EmbeddingAdapter":
        from dragoman_adapters.ollama.embeddings import OllamaEmbeddings  # imported late: few programs embed

        return OllamaEmbeddings(self.provider, self.model, self.error)

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

    def decode_error(self, native: dict[str, Any], origin: "ErrorContext") -> ProviderError:
        from dragoman_adapters.ollama.errors import decode_error  # imported late: few requests fail

        return decode_error(native, origin)

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        from dragoman_adapters.ollama.stream import OllamaStreamDecoder  # imported late: only streams need it

        return OllamaStreamDecoder(self.provider, context)

    def encode_reply(self, message: Message, writer: "ReplyWriter") -> dict[str, Any]:
        from dragoman_adapters.ollama.encode_reply import encode_reply  # imported late: only servers write replies

        return encode_reply(message, writer)

    def encode_error(self, error: DragomanError, context: RequestContext) -> WireResponse:
        from dragoman_adapters.ollama.encode_reply import encode_error  # imported late: only servers write replies

        return encode_error(error, self.provider)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies
        from dragoman_adapters.ollama.encode_stream import OllamaStreamEncoder

        return OllamaStreamEncoder(ReplyWriter.for_stream(self.provider, self.model, context))
