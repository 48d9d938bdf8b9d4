"""InvokeModel with the body of Chat Completions (docs/reference/wires/bedrock.md#endpoints).

It is for models that Converse does not serve: imported ones of Qwen 2.5 and gpt-oss. The body is Chat Completions'
without the model and the switch of a stream, which are in the path; a stream wraps its chunks in Bedrock's frames.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from dragoman.adapter.contract import AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.replies.aws_event_stream import AwsEventStreamDecoder
from dragoman.adapter.replies.framing import Frame
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.server_tools.table import EMPTY_TABLE, ServerToolTable
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.bedrock.body_formats import BodyFormat, request_path
from dragoman_adapters.bedrock.endpoint import ENDPOINT, TELEMETRY_NAME
from dragoman_adapters.bedrock.stream import read_event, unwrap_chunk
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_chat.stream import ChatStreamDecoder

_METRICS = "amazon-bedrock-invocationMetrics"
"""The field of the last chunk with Bedrock's own counts."""


class BedrockInvokeAdapter(ChatAdapter):
    """A model id, an inference profile or an ARN of a model that takes the body of Chat Completions."""

    provider: ClassVar[str] = "bedrock-invoke"
    endpoint: ClassVar[Endpoint] = ENDPOINT
    telemetry_name: ClassVar[str] = TELEMETRY_NAME
    dialect: ClassVar[Dialect] = Dialect(
        max_tokens="max_tokens", free_arguments=False, stream_usage=False, done_marker=False
    )
    client_wire: ClassVar[str] = ""
    models: ClassVar[ModelTable] = ModelTable.of("dragoman_adapters", "compatible/models.toml", "bedrock/invoke.toml")
    server_tools: ClassVar[ServerToolTable] = EMPTY_TABLE
    services_at: ClassVar[str] = "dragoman_adapters.bedrock.services:BedrockServiceApi"
    embeddings_at: ClassVar[str] = ""
    decode_error_at: ClassVar[str] = "dragoman_adapters.bedrock.errors:decode_reply_error"
    decoder_at: ClassVar[str] = "dragoman_adapters.bedrock.invoke_chat:InvokeStreamDecoder"
    encode_error_at: ClassVar[str] = ""
    encode_reply_at: ClassVar[str] = ""
    reply_encoder_at: ClassVar[str] = ""

    def request_path(self, options: AdapterOptions) -> str:
        return request_path(self.model, BodyFormat.MESSAGES, stream=options.stream)

    def request_headers(self, request: RequestBuilder, body: dict[str, Any]) -> Mapping[str, str]:
        return {"accept": "application/vnd.amazon.eventstream"} if request.options.stream else {}

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        encoded = super().encode_body(request, tools)
        return {name: value for name, value in encoded.items() if name not in ("model", "stream")}


class InvokeStreamDecoder(ChatStreamDecoder):
    """Takes the chunks of Chat Completions out of Bedrock's frames."""

    text_frame = None

    def __init__(self, provider: str, context: RequestContext, dialect: Dialect) -> None:
        super().__init__(provider, context, dialect)
        self._framing = AwsEventStreamDecoder(context.frame_cap, context.body_cap)

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        _, chunk = unwrap_chunk(read_event(frame, self.provider, self._model))
        if (metrics := chunk.pop(_METRICS, None)) and not chunk.get("usage"):
            counts = {"prompt_tokens": metrics["inputTokenCount"], "completion_tokens": metrics["outputTokenCount"]}
            chunk["usage"] = counts
        return self._chunk(chunk)
