"""The adapter for models that run in this process."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.local import decode, encode
from dragoman_adapters.local.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.errors import ProviderError
    from dragoman.adapter.replies.error_context import ErrorContext
    from dragoman.adapter.replies.stream_decoder import StreamDecoder
    from dragoman.adapter.requests.request_reader import HistoryReader


class LocalAdapter(WireAdapter):
    """Chats with a GGUF model in this process: ``local:smollm2-135m``, or ``local:`` and the path of a .gguf file."""

    provider: ClassVar[str] = "local"
    endpoint: ClassVar[Endpoint] = Endpoint(base_url="local:", key_required=False)
    transport: ClassVar[str] = "local"
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.local")
    path: ClassVar[str] = "/chat"

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        return decode.decode_tools(native), decode_options(native, self.target, reader.context)

    def decode_error(self, native: dict[str, Any], origin: "ErrorContext") -> "ProviderError":
        from dragoman_adapters.local.errors import decode_error  # imported late: few requests fail

        return decode_error(native, origin)

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        from dragoman_adapters.local.stream import LocalStreamDecoder  # imported late: only streams need it

        return LocalStreamDecoder(self.provider, context)
