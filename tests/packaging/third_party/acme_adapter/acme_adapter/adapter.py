"""The adapter for Acme's POST /v3/dialogue."""

from collections.abc import Sequence
from typing import Any, ClassVar

from acme_adapter import decode, encode, errors
from acme_adapter.options import decode_options
from acme_adapter.stream import AcmeStreamDecoder
from dragoman.adapters import (
    AdapterOptions,
    Endpoint,
    ErrorContext,
    HistoryReader,
    ModelTable,
    ReplyBuilder,
    RequestBuilder,
    RequestContext,
    StreamDecoder,
    ToolDefinition,
    WireAdapter,
)
from dragoman.errors import ProviderError
from dragoman.messages import Message


class AcmeAdapter(WireAdapter):
    provider: ClassVar[str] = "acme"
    endpoint: ClassVar[Endpoint] = Endpoint(base_url="https://api.acme.example", key_variables=("ACME_API_KEY",))
    models: ClassVar[ModelTable] = ModelTable.of("acme_adapter")
    path: ClassVar[str] = "/v3/dialogue"

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        return encode.encode_body(request, tools)

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return decode.decode_message(native, reply)

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        decode.decode_history(native, reader)
        return decode.decode_tools(native), decode_options(native, self.target, reader.context)

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        return errors.decode_error(native, origin)

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return AcmeStreamDecoder(context)
