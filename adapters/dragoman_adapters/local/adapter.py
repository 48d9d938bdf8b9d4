"""The adapter for models that run in this process."""

from typing import ClassVar

from dragoman.adapter.contract import Endpoint
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman_adapters.local import decode, encode
from dragoman_adapters.local.options import decode_options


class LocalAdapter(WireAdapter):
    """Chats with a GGUF model in this process: ``local:smollm2-135m``, or ``local:`` and the path of a .gguf file."""

    provider: ClassVar[str] = "local"
    endpoint: ClassVar[Endpoint] = Endpoint(base_url="local:", key_required=False)
    transport: ClassVar[str] = "local"
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.local")
    path: ClassVar[str] = "/chat"
    decoder_at: ClassVar[str] = "dragoman_adapters.local.stream:LocalStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.local.errors:decode_error"

    encode_body = staticmethod(encode.encode_body)

    decode_message = staticmethod(decode.decode_message)

    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)
