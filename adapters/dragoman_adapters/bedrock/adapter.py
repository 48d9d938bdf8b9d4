"""The adapter for Amazon Bedrock's runtime."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote

from dragoman.adapter.contract import AdapterOptions, Endpoint
from dragoman.adapter.facts.capabilities import MAX_KNOWN_MODELS, AdapterCapabilities, ModelTable
from dragoman.adapter.package_data import read_toml
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import ServerToolTable
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic import decode as anthropic_decode
from dragoman_adapters.anthropic import encode as anthropic_encode
from dragoman_adapters.anthropic import options as anthropic_options
from dragoman_adapters.bedrock import decode, encode
from dragoman_adapters.bedrock.body_formats import BodyFormat, detect_format, drop_other_formats, request_path
from dragoman_adapters.bedrock.endpoint import ENDPOINT, TELEMETRY_NAME
from dragoman_adapters.bedrock.options import decode_options

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

_EVENT_STREAM = "application/vnd.amazon.eventstream"
_ANTHROPIC_VERSION = "bedrock-2023-05-31"
"""See docs.aws.amazon.com/bedrock/latest/userguide, "Anthropic Claude Messages API"."""

_DATA = read_toml("dragoman_adapters.bedrock", "models.toml")
_MODELS = ModelTable(_DATA)
_ANTHROPIC_MODELS = ModelTable.of("dragoman_adapters.anthropic")

# Finds Anthropic's name in us.anthropic.claude-sonnet-4-5-20250929-v1:0, perhaps behind
# "arn:aws:bedrock:...:inference-profile/".
_CLAUDE_ID = re.compile(r"(?:.*[./])?anthropic\.(claude-.+?)(?:-v\d+)?(?::[\dk]+)*")


class BedrockAdapter(WireAdapter):
    """Converse with any model, or InvokeModel with Claude and Nova; `body_formats` chooses one.

    The model is a model id, an inference profile or an ARN. See
    https://docs.aws.amazon.com/bedrock/latest/APIReference.
    """

    provider: ClassVar[str] = "bedrock"
    endpoint: ClassVar[Endpoint] = ENDPOINT
    models: ClassVar[ModelTable] = _MODELS
    server_tools: ClassVar[ServerToolTable] = ServerToolTable.of("dragoman_adapters.bedrock")
    instruction_fields: ClassVar[tuple[str, ...]] = ("system",)
    marks_cache: ClassVar[bool] = True
    cites_documents: ClassVar[bool] = True
    telemetry_name: ClassVar[str] = TELEMETRY_NAME
    services_at: ClassVar[str] = "dragoman_adapters.bedrock.services:BedrockServiceApi"
    embeddings_at: ClassVar[str] = "dragoman_adapters.bedrock.embeddings:BedrockEmbeddings"
    decoder_at: ClassVar[str] = "dragoman_adapters.bedrock.stream:BedrockStreamDecoder"
    decode_error_at: ClassVar[str] = "dragoman_adapters.bedrock.errors:decode_reply_error"

    @property
    def capabilities(self) -> AdapterCapabilities:
        return _find_capabilities(self.model)

    def request_path(self, options: AdapterOptions) -> str:
        form = detect_format(options.extra.get(self.provider, {}))
        return request_path(self.model, form, stream=options.stream)

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        extra = request.options.extra.get(self.provider, {})
        form = detect_format(extra)
        drop_other_formats(request, form)
        body = (_encode_messages_body if form is BodyFormat.MESSAGES else encode.encode_body)(request, tools)
        if body.get("system") and not extra.get("system"):  # an empty one of the caller would replace it
            request.drop_extra("system")
        return body

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        return {"accept": _EVENT_STREAM} if request.options.stream else {}

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder) -> Message:
        if native.get("type") == "message":
            # Its model name is Anthropic's, unknown to Bedrock, so the requested one counts.
            return anthropic_decode.decode_message({**native, "model": None}, reply)
        return decode.decode_message(native, reply)

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        if detect_format(native) is BodyFormat.MESSAGES:
            covered = [*anthropic_decode.decode_history(native, reader), *(("tools",) if native.get("tools") else ())]
            tools = anthropic_decode.decode_tools(native, self.provider)
            return tools, anthropic_options.decode_options(native, self.target, reader.context, covered)
        decode.decode_history(native, reader)
        return decode.decode_tools(native, self.provider), decode_options(native, self.target, reader.context)


def __getattr__(name: str) -> type[WireAdapter]:
    if name != "BedrockInvokeAdapter":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Imported late: few programs need it.
    from dragoman_adapters.bedrock.invoke_chat import BedrockInvokeAdapter

    return BedrockInvokeAdapter


@lru_cache(MAX_KNOWN_MODELS)
def _find_capabilities(model: str) -> AdapterCapabilities:
    """Return the declarations of a model id, inference profile or ARN."""
    name = unquote(model)
    match = _CLAUDE_ID.fullmatch(name)
    if match is None:
        return _MODELS.capabilities(name)
    facts = _ANTHROPIC_MODELS.capabilities(match[1]).model_dump(
        mode="json", exclude_unset=True, exclude={"deprecated", "retires_on"}
    )
    return ModelTable({"default": facts, "model": _DATA["model"]}).capabilities(name)


def _encode_messages_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body of Messages. The path holds the model and says whether to stream. A marker of the cache for
    the whole request goes to its last block: Bedrock takes markers on blocks alone."""
    encoded: dict[str, Any] = {"anthropic_version": _ANTHROPIC_VERSION, **anthropic_encode.encode_body(request, tools)}
    del encoded["model"]
    encoded.pop("stream", None)
    if (marker := encoded.pop("cache_control", None)) and encoded["messages"].new_items:
        last = encoded["messages"].new_items[-1]
        blocks = last["content"]
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        last["content"] = [*blocks[:-1], {**blocks[-1], "cache_control": marker}]
    return encoded
