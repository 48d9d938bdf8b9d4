"""The adapters for generateContent: the Gemini API, and Vertex AI, which serves the same wire elsewhere."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError, RequestError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder, replay, wrap_malformed
from dragoman.adapter.requests.prepare import prepare_request
from dragoman.adapter.requests.request_reader import HistoryReader, parse_request
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google import decode, decode_messages, encode, errors
from dragoman_adapters.google.options import MERGED_FIELDS, decode_options
from dragoman_adapters.google.stream import GoogleStreamDecoder

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")
"""What a model's name may hold. No slash, dot segment, query, fragment or escape gets into a path with it."""


class GoogleAdapter(Adapter):
    """Contents in, candidates out; see https://ai.google.dev/api/generate-content."""

    provider: ClassVar[str] = "google"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        key_header="x-goog-api-key",
        key_prefix="",
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.google")
    listed_models: ClassVar[tuple[str, ...]] = models.listed
    resource: ClassVar[str] = "/v1beta/models/"
    """What stands in front of a model's name in a path."""
    resources: ClassVar[Mapping[str, str]] = {"models/": "/v1beta/models/", "tunedModels/": "/v1beta/tunedModels/"}
    """The same for names that say themselves what they name."""

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.capabilities_of(self.model)

    @classmethod
    def capabilities_of(cls, model: str) -> AdapterCapabilities:
        """What any of the provider's models can do."""
        return cls.models.capabilities(model.removeprefix("models/"))

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        """Raises RequestError for a model's name that no path can hold."""
        path = self.path(stream=options.stream)
        request, tools = prepare_request(self.target, messages, tools, options)
        return request.build(path, encode.encode_body(request, tools, self.capabilities_of), merged=MERGED_FIELDS)

    def path(self, *, stream: bool) -> str:
        """Where the model generates. Without ``alt=sse`` a stream would come as one JSON array."""
        name, resource = self.model, self.resource
        for prefix, resource_path in self.resources.items():
            if name.startswith(prefix):
                name, resource = name.removeprefix(prefix), resource_path
        if not _NAME.fullmatch(name) or ".." in name:
            raise RequestError(
                f"{self.model!r:.80} is no name of a model of {self.provider}: it does not fit into a path"
            )
        return f"{resource}{name}:" + ("streamGenerateContent?alt=sse" if stream else "generateContent")

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        """As always; a stream that came as one JSON array is read as what it is."""
        with wrap_malformed(self.provider):
            if response.status >= 400:
                raise self.error(response.status, response.body, response.headers)
            if response.body.lstrip().startswith(b"["):
                return self._decode_json_stream(response, context)
            native = decode.parse_reply(response.body)
            if "error" in native:
                raise self.error(response.status, response.body, response.headers)
            return decode.decode_message(native, ReplyBuilder(context, self.provider), self.capabilities.wire)

    def _decode_json_stream(self, response: WireResponse, context: RequestContext) -> Message:
        last = replay(self.decoder(context), [response.body])[-1]
        if isinstance(last, MessageComplete):
            return last.message
        assert isinstance(last, ErrorEvent)
        raise last.error

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return GoogleStreamDecoder(self.provider, context, self.capabilities.wire)

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        """As always. Neither the model nor whether to stream stands in the body: the options do not stream."""
        native = parse_request(body)
        with wrap_malformed(self.provider, request=True):
            reader = HistoryReader(self.provider, self.model, context)
            covered = decode_messages.decode_history(native, reader)
            tools = decode_messages.decode_tools(native, self.provider)
            if tools:
                covered.append("tools")
            return reader.messages, tools, decode_options(native, self.target, context, covered)

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return errors.decode_error(
            parse_error_body(body), ErrorContext(self.provider, self.model, status, headers, body)
        )


class VertexAdapter(GoogleAdapter):
    """The same wire on Vertex AI.

    The base URL decides whose quota and which place it is: as it stands, it is express mode's; a project's is
    ``https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION``. The key is a bearer token.
    Express mode takes an API key instead, which goes among the options' headers as ``x-goog-api-key``; so none is
    required.
    """

    provider: ClassVar[str] = "google-vertex"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://aiplatform.googleapis.com/v1",
        key_variables=("GOOGLE_VERTEX_TOKEN",),
        key_required=False,
        base_url_variable="GOOGLE_VERTEX_BASE_URL",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.google", "models.toml", "vertex.toml")
    resource: ClassVar[str] = "/publishers/google/models/"
    resources: ClassVar[Mapping[str, str]] = {"models/": "/publishers/google/models/", "endpoints/": "/endpoints/"}
