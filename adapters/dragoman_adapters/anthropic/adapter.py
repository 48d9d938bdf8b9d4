"""The adapter for Anthropic's Messages API."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ModelTable
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic import decode, encode
from dragoman_adapters.anthropic.options import decode_options

_COMPACTION_BETA = "compact-2026-09-04"
"""The beta header of a compaction (platform.claude.com/docs/en/build-with-claude/compaction-on-demand)."""
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
"""The beta header of bound thinking (docs.claude.com/en/docs/build-with-claude/preserved-thinking)."""
_VERTEX_SAMPLING_VERSION = "vertex-2023-10-16"
"""The version of a body on Vertex AI that has sampling parameters. Other bodies have Anthropic's own newest."""


class AnthropicAdapter(WireAdapter):
    """Anthropic's Messages API; see https://docs.claude.com/en/api/messages."""

    provider: ClassVar[str] = "anthropic"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.anthropic.com",
        key_variables=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        base_url_variable="ANTHROPIC_BASE_URL",
        token_variables=("ANTHROPIC_AUTH_TOKEN",),
        credentials="anthropic",
    )
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.anthropic")
    client_wire: ClassVar[str] = "messages"
    path: ClassVar[str] = "/v1/messages"
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.anthropic")
    instruction_fields: ClassVar[tuple[str, ...]] = ("system",)
    marks_cache: ClassVar[bool] = True
    cites_documents: ClassVar[bool] = True
    batch_api_at: ClassVar[str] = "dragoman_adapters.anthropic.batch:AnthropicBatchApi"
    services_at: ClassVar[str] = "dragoman_adapters.anthropic.services:AnthropicServiceApi"
    decoder_at: ClassVar[str] = "dragoman_adapters.anthropic.stream:AnthropicStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.anthropic.errors:decode_error"
    encode_reply_at: ClassVar[str] = "dragoman_adapters.anthropic.encode_reply:encode_reply"
    encode_error_at: ClassVar[str] = "dragoman_adapters.anthropic.encode_reply:encode_error"
    reply_encoder_at: ClassVar[str] = "dragoman_adapters.anthropic.encode_stream:MessagesStreamEncoder"

    def compaction_options(self, options: AdapterOptions, instructions: str | None) -> AdapterOptions | None:
        compaction: dict[str, Any] = {"type": "summarize"}
        if instructions is not None:
            compaction["instructions"] = instructions
        extra, headers = options.extra.get(self.provider, {}), options.headers.get(self.provider, {})
        betas = [beta for beta in (headers.get("anthropic-beta"), _COMPACTION_BETA) if beta]
        # The two ways to compact exclude each other.
        extra = {**extra, encode.COMPACTION: compaction, "context_management": ...}
        return replace(
            options,
            extra={**options.extra, self.provider: extra},
            headers={**options.headers, self.provider: {**headers, "anthropic-beta": ",".join(betas)}},
        )

    encode_body = staticmethod(encode.encode_body)

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        headers = {"anthropic-version": encode.api_version(body)}
        betas = []
        if request.target.capabilities.thinking_policy.prefix_bound and request.has_void_thinking(body):
            # Otherwise the provider refuses the request instead of dropping thinking with a void signature.
            binding = {"prefix_mismatch_behavior": "drop_block"}
            body["thinking"] = {"type": "adaptive", **body.get("thinking", {}), "block_binding": binding}
            betas.append(_BINDING_BETA)
        if request.options.server_state is not None:
            from dragoman_adapters.anthropic import threads  # imported late: few requests have a thread

            betas += threads.shorten(request, body)
        return headers | request.merge_list_header("anthropic-beta", ",".join(betas)) if betas else headers

    def find_embedded_error(self, native: dict[str, Any]) -> dict[str, Any] | None:
        return native if native.get("type") == "error" else None

    decode_message = staticmethod(decode.decode_message)
    decode_counts = staticmethod(decode.decode_counts)
    decode_history = staticmethod(decode.decode_history)
    decode_tools = staticmethod(decode.decode_tools)
    decode_options = staticmethod(decode_options)


class _CloudAdapter(AnthropicAdapter):
    """The same wire in the clouds of others: batches, files and lists of models are Anthropic's own alone."""

    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters.anthropic", "models.toml", "clouds.toml")
    client_wire: ClassVar[str] = ""
    batch_api_at: ClassVar[str] = ""
    services_at: ClassVar[str] = "dragoman_adapters.anthropic.services:CloudServiceApi"


class AnthropicVertexAdapter(_CloudAdapter):
    """Claude on Vertex AI: the path holds the model, and the body the version."""

    provider: ClassVar[str] = "anthropic-vertex"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://{VERTEX_HOST}/v1/projects/{GOOGLE_CLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION}",
        key_variables=("GOOGLE_VERTEX_TOKEN",),
        credentials="google",
    )
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of(
        "dragoman_adapters.anthropic", "server_tools_clouds.toml", ("vertex",)
    )
    telemetry_name: ClassVar[str] = "gcp.vertex_ai"
    services_at: ClassVar[str] = "dragoman_adapters.anthropic.services:VertexServiceApi"

    def request_path(self, options: AdapterOptions) -> str:
        operation = "streamRawPredict" if options.stream else "rawPredict"
        return f"/publishers/anthropic/models/{self.name_in_path(self.model)}:{operation}"

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        body = super().encode_body(request, tools)
        del body["model"]
        latest = encode.api_version(body) == encode.LATEST_VERSION
        return {"anthropic_version": encode.LATEST_VERSION if latest else _VERTEX_SAMPLING_VERSION, **body}

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        headers = dict(super().request_headers(request, body))
        del headers["anthropic-version"]
        return headers


class AnthropicBedrockAdapter(_CloudAdapter):
    """Claude on Bedrock's endpoint for the Messages API; the adapter of Bedrock has Converse and InvokeModel."""

    provider: ClassVar[str] = "anthropic-bedrock"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://bedrock-mantle.{AWS_REGION}.api.aws/anthropic",
        key_variables=("AWS_BEARER_TOKEN_BEDROCK",),
        base_url_variable="ANTHROPIC_BEDROCK_MANTLE_BASE_URL",
        credentials="aws",
        scope="bedrock-mantle",
    )
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of(
        "dragoman_adapters.anthropic", "server_tools_clouds.toml", ("bedrock",)
    )
    telemetry_name: ClassVar[str] = "aws.bedrock"

    @property
    def capabilities(self) -> AdapterCapabilities:
        """A model is anthropic.claude-..., with a region before it or a version after it."""
        return self.models.capabilities(self.model.rpartition("anthropic.")[2])


class AnthropicFoundryAdapter(_CloudAdapter):
    """Claude in Microsoft Foundry. The model is the name of a deployment."""

    provider: ClassVar[str] = "anthropic-foundry"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://{ANTHROPIC_FOUNDRY_RESOURCE}.services.ai.azure.com/anthropic",
        key_variables=("ANTHROPIC_FOUNDRY_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        base_url_variable="ANTHROPIC_FOUNDRY_BASE_URL",
        credentials="azure",
    )
    telemetry_name: ClassVar[str] = "azure.ai.inference"
