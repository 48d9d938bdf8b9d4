"""The adapters for generateContent: the Gemini API, and Vertex AI, which serves the same wire at another address."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext, load_part
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google import decode, decode_messages, encode
from dragoman_adapters.google.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.answers.stream_encoder import ReplyStreamEncoder
    from dragoman.adapter.operations.embeddings import EmbeddingAdapter
    from dragoman.adapter.replies.stream_decoder import StreamDecoder


class GoogleAdapter(WireAdapter):
    """Google's generateContent; see https://ai.google.dev/api/generate-content."""

    provider: ClassVar[str] = "google"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://generativelanguage.googleapis.com",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        key_header="x-goog-api-key",
        key_prefix="",
        base_url_variable="GOOGLE_GEMINI_BASE_URL",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.google")
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.google", keys=("gemini",))
    client_wire: ClassVar[str] = "generate_content"
    history_field: ClassVar[str] = "contents"
    instruction_fields: ClassVar[tuple[str, ...]] = ("systemInstruction", "system_instruction")
    telemetry_name: ClassVar[str] = "gcp.gemini"
    telemetry_operation: ClassVar[str] = "generate_content"
    error_field: ClassVar[str] = "error"
    services_at: ClassVar[str] = "dragoman_adapters.google.services:GoogleServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.google.embeddings:GoogleEmbeddings"
    decode_error_at: ClassVar[str] = "dragoman_adapters.google.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.google.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.google.encode_reply:encode_error"
    resources: ClassVar[Mapping[str, str]] = {
        "models/": "/v1beta/models/", "tunedModels/": "/v1beta/tunedModels/", "": "/v1beta/models/",
    }  # fmt: skip
    """The path before a model's name, by the kind of resource that the name starts with."""

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.capabilities_of(self.model)

    @classmethod
    def capabilities_of(cls, model: str) -> AdapterCapabilities:
        """Return the capabilities of any model of the provider."""
        return cls.models.capabilities(model.removeprefix("models/"))

    @classmethod
    def block_signature(cls, message: Message, index: int) -> str | None:
        signature = lookup_path(message.metadata.provider_raw or {}, f"blocks.{index}.set.thoughtSignature")
        return signature if isinstance(signature, str) else None

    @classmethod
    def signature_notes(cls, signatures: Mapping[int, str]) -> dict[str, Any] | None:
        notes = {str(index): {"set": {"thoughtSignature": signature}} for index, signature in signatures.items()}
        return {"by": cls.provider, "blocks": notes} if notes else None

    @property
    def embeddings(self) -> "EmbeddingAdapter":
        kind = load_part(self.embeddings_at)
        adapter: EmbeddingAdapter = kind(self.provider, self.model, self.error, self.model_path)
        return adapter

    def request_path(self, options: AdapterOptions) -> str:
        """Return the path of a request. Without ``alt=sse`` a stream comes as one JSON array."""
        return f"{self.model_path()}:" + ("streamGenerateContent?alt=sse" if options.stream else "generateContent")

    def model_path(self) -> str:
        """Return the path of the model. Raises RequestError for a model's name that does not fit into a path."""
        kind = next(filter(self.model.startswith, self.resources))
        return f"{self.resources[kind]}{self.name_in_path(self.model.removeprefix(kind))}"

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        return encode.encode_body(request, tools, self.capabilities_of)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        """Decode the assistant's message, also from a stream that came as one JSON array."""
        if response.status >= 400 or not response.body.lstrip().startswith(b"["):
            return super().from_wire_response(response, context)
        from dragoman.adapter.replies.stream_decoder import replay  # imported late: only streams need it

        last = replay(self.decoder(context), [response.body])[-1]
        if isinstance(last, MessageComplete):
            return last.message
        assert isinstance(last, ErrorEvent)
        raise last.error

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        return decode.decode_message(native, reply, self.capabilities.wire)

    decode_history = staticmethod(decode_messages.decode_history)
    decode_tools = staticmethod(decode_messages.decode_tools)
    decode_options = staticmethod(decode_options)

    def decoder(self, context: RequestContext) -> "StreamDecoder":
        from dragoman_adapters.google.stream import GoogleStreamDecoder  # imported late: only streams need it

        return GoogleStreamDecoder(self.provider, context, self.capabilities.wire)

    def reply_encoder(self, context: RequestContext) -> "ReplyStreamEncoder":
        from dragoman.adapter.answers.reply_writer import ReplyWriter  # imported late: only servers write replies
        from dragoman_adapters.google.encode_stream import GenerateContentStreamEncoder, JsonArrayStreamEncoder

        as_events = context.client_query.get("alt", "sse") == "sse"
        encoder = GenerateContentStreamEncoder if as_events else JsonArrayStreamEncoder
        return encoder(ReplyWriter.for_stream(self.provider, self.model, context))


class VertexAdapter(GoogleAdapter):
    """The same wire on Vertex AI.

    The base URL decides the project and the region. The default is that of express mode; a project's is
    ``https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION``. The key is a bearer token.
    Express mode takes an API key instead, as the header ``x-goog-api-key`` among the options.
    """

    provider: ClassVar[str] = "google-vertex"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://aiplatform.googleapis.com/v1",
        key_variables=("GOOGLE_VERTEX_TOKEN",),
        base_url_variable="GOOGLE_VERTEX_BASE_URL",
        credential_headers=("authorization", "x-goog-api-key"),
        credentials="google",
        cloud_base_url=("https://{VERTEX_HOST}/v1/projects/{GOOGLE_CLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION}"),
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.google", "models.toml", "vertex.toml")
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.google", keys=("vertex",))
    telemetry_name: ClassVar[str] = "gcp.vertex_ai"
    services_at: ClassVar[str] = "dragoman_adapters.google.services:VertexServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.google.embeddings:VertexEmbeddings"
    resources: ClassVar[Mapping[str, str]] = {
        "models/": "/publishers/google/models/", "endpoints/": "/endpoints/", "": "/publishers/google/models/",
    }  # fmt: skip
