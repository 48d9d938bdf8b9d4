"""The adapter for the Interactions API."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google.adapter import GoogleAdapter
from dragoman_adapters.google_interactions import decode, encode, errors
from dragoman_adapters.google_interactions.options import decode_options
from dragoman_adapters.google_interactions.stream import InteractionsStreamDecoder

PATH = "/v1beta/interactions"


class InteractionsAdapter(Adapter):
    """Steps in, steps out; see https://ai.google.dev/gemini-api/docs/interactions.

    A conversation that Google keeps goes on with ``previous_interaction_id`` among the options' own fields.
    """

    provider: ClassVar[str] = "google-interactions"
    endpoint: ClassVar[Endpoint] = GoogleAdapter.endpoint
    models: ClassVar[ModelTable] = ModelTable.of(
        "dragoman_adapters", "google/models.toml", "google_interactions/models.toml"
    )
    listed_models: ClassVar[tuple[str, ...]] = models.listed

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.models.capabilities(self.model)

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        server_state = encode.has_stored_history(options.extra.get(self.provider, {}))
        request, tools = prepare_request(self.target, messages, tools, options, server_state=server_state, whole=True)
        path = f"{PATH}?alt=sse" if options.stream else PATH
        return request.build(path, encode.encode_body(request, tools), merged=encode.MERGED_FIELDS)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            native = wirejson.loads_object(response.body)
            if native.get("error"):
                raise self.error(response.status, response.body, response.headers)
            if "status" not in native and "steps" not in native:
                raise ValueError("this is no interaction: it has neither steps nor a status")
            return decode.decode_message(native, ReplyBuilder(context, self.provider))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return InteractionsStreamDecoder(self.provider, context)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            covered = decode.decode_history(native, reader)
            tools = decode.decode_tools(native, self.provider)
            if tools:
                covered.append("tools")
            return reader.messages, tools, decode_options(native, self.target, context, covered)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )
