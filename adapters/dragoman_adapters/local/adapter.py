"""The adapter for models that run in this process."""

from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.local import decode, encode, errors
from dragoman_adapters.local.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader


class LocalAdapter(WireAdapter):
    """Chats with a GGUF model in this process: ``local:smollm2-135m``, or ``local:`` and the path of a .gguf file."""

    provider: ClassVar[str] = "local"
    endpoint: ClassVar[Endpoint] = Endpoint(base_url="local:", key_required=False)
    transport: ClassVar[str] = "local"
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.local")
    path: ClassVar[str] = "/chat"
    decoder_at: ClassVar[str] = "dragoman_adapters.local.stream:LocalStreamDecoder"

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        return decode.decode_tools(native), decode_options(native, self.target, reader.context)

    decode_error = staticmethod(errors.decode_error)
