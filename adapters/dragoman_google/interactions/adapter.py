"""The adapter for the Interactions API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
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
from dragoman_google.adapter import GoogleAdapter
from dragoman_google.interactions import decode, encode, errors
from dragoman_google.interactions.stream import InteractionDecoder

PATH = "/v1beta/interactions"


class InteractionsAdapter(Adapter):
    """Steps in, steps out; see https://ai.google.dev/gemini-api/docs/interactions.

    A conversation that Google keeps goes on with ``previous_interaction_id`` among the options' own fields.
    """

    provider: ClassVar[str] = "google-interactions"
    endpoint: ClassVar[Endpoint] = GoogleAdapter.endpoint
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_google", "models.toml", "interactions.toml")
    listed_models: ClassVar[tuple[str, ...]] = models.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        stored = encode.goes_on_from_store(options.extra.get(self.provider, {}))
        request, tools = begin(self, messages, tools, options, server_state=stored, whole=True)
        path = f"{PATH}?alt=sse" if options.stream else PATH
        return request.wire(path, encode.body(request, tools), merged=encode.MERGED)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with reading(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = wirejson.loads_object(response.body)
            if native.get("error"):
                raise self.error(response.status, response.body, response.headers)
            if "status" not in native and "steps" not in native:
                raise ValueError("this is no interaction: it has neither steps nor a status")
            return decode.message(native, Reply(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return InteractionDecoder(self.provider, context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = request_object(body)
        with reading(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            conversation = decode.history(native, reader)
            tools = decode.tools(native, self.provider)
            if tools:
                conversation.append("tools")
            return reader.messages, tools, decode.options(native, self, context, conversation)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.read(error_object(body), Origin(self.provider, self.model, status, headers, body))
