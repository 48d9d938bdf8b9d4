"""The adapter for OpenAI's Responses API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.assembly import Reply
from dragoman.adapter.beginning import begin
from dragoman.adapter.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.decoding import StreamDecoder, reading
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.failures import Origin, error_object
from dragoman.adapter.incoming import HistoryReader, request_object
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai import errors
from dragoman_openai.responses import decode, encode
from dragoman_openai.responses.stream import ResponsesDecoder

if TYPE_CHECKING:
    from dragoman.adapter.batch import BatchWire

PATH = "/responses"

_MODELS = ModelTable.of("dragoman_openai", "models.toml", "responses/models.toml")


class ResponsesAdapter(Adapter):
    """Items in, items out; see https://platform.openai.com/docs/api-reference/responses.

    Another endpoint is a subclass with its own ``provider``, ``endpoint`` and ``models``.
    """

    provider: ClassVar[str] = "openai"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.openai.com/v1",
        key_variables=("OPENAI_API_KEY",),
        base_url_variable="OPENAI_BASE_URL",
    )
    models: ClassVar[ModelTable] = _MODELS
    listed_models: ClassVar[tuple[str, ...]] = _MODELS.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        stored = encode.goes_on_from_store(messages, options.extra.get(self.provider, {}))
        request, tools = begin(self, messages, tools, options, server_state=stored)
        return request.wire(PATH, encode.body(request, tools))

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = decode.reply_object(response.body)
            if failure := decode.failure(native):
                raise errors.read(failure, Origin(self.provider, self.model, headers=response.headers))
            return decode.message(native, Reply(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return ResponsesDecoder(self.provider, context)

    @property
    def batches(self) -> "BatchWire | None":
        """Endpoints that merely speak this wire have no batches, or others."""
        from dragoman_openai.batch import OpenAIBatches  # few programs submit any

        return OpenAIBatches(self.provider, self.model, PATH) if type(self) is ResponsesAdapter else None

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = request_object(body)
        with reading(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            decode.history(native, reader)
            tools = decode.tools(native, self.provider)
            return reader.messages, tools, decode.options(native, self, context)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.read(error_object(body), Origin(self.provider, self.model, status, headers, body))
