"""The adapter of the scripted provider. It projects and decodes like every adapter, over its own wire.

Its embeddings give the same vector for the same text, in every process.
"""

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import TypeAdapter

from dragoman.adapter import wirejson
from dragoman.adapter.contract import AdapterOptions, Endpoint, NamedTool, RequestContext
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RateLimitError, ServerError
from dragoman.adapter.facts.capabilities import NATIVE, AdapterCapabilities, ThinkingPolicy
from dragoman.adapter.operations.embeddings import (
    EmbeddingAdapter,
    EmbeddingInput,
    EmbeddingOptions,
    EmbeddingTable,
    NativeEmbeddings,
)
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, NdjsonDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.requests import option_table, structured_output
from dragoman.adapter.requests.option_table import OptionTable
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.request_reader import HistoryReader, extra_fields
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.adapter.wire_adapter import WireAdapter
from dragoman.canonical.blocks import ContentBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.events import (
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import Channel, Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage

EMBEDDINGS_PATH = "/embed"
DIMENSIONS = 16
"""The length of a vector if a request asks for no other."""
_MAX_DIMENSIONS = 4096


class ScriptedEmbeddings(EmbeddingAdapter):
    models: ClassVar[EmbeddingTable] = EmbeddingTable(
        {
            "default": {
                "dimensions": DIMENSIONS,
                "dimension_range": [1, _MAX_DIMENSIONS],
                "max_inputs": 100,
                "purposes": {"query": "query", "document": "document"},
                "normalized": "always",
            }
        }
    )

    def encode(self, inputs: Sequence[EmbeddingInput], options: EmbeddingOptions) -> tuple[str, dict[str, Any]]:
        dimensions = options.dimensions or DIMENSIONS
        return EMBEDDINGS_PATH, {"texts": list(inputs), "dimensions": dimensions, "purpose": self.purpose_word(options)}

    def decode(self, native: dict[str, Any], response: WireResponse) -> NativeEmbeddings:
        return NativeEmbeddings(native.get("vectors"), self.read_usage(native.get("usage"), "input_tokens"))


def answer_embeddings(request: WireRequest) -> bytes:
    """Return the reply: a vector of length 1 for each text, and a token for each word."""
    body = wirejson.loads_object(request.body)
    texts = body["texts"]
    tokens = sum(max(1, len(text.split())) for text in texts)
    vectors = []
    for text in texts:
        data = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(body["dimensions"])
        numbers = [byte - 127.5 for byte in data]
        length = math.hypot(*numbers)
        vectors.append([number / length for number in numbers])
    return wirejson.dumps({"vectors": vectors, "usage": {"input_tokens": tokens}})


TRANSPORT = "scripted"

ALL_CAPABILITIES = AdapterCapabilities(
    supports_thinking=NATIVE,
    supports_structured_output=NATIVE,
    supports_prompt_caching=NATIVE,
    supports_developer_role=NATIVE,
    supports_prefill=NATIVE,
    supports_images=NATIVE,
    supports_audio=NATIVE,
    supports_video=NATIVE,
    supports_documents=NATIVE,
    supports_tool_result_media=NATIVE,
    channels=tuple(Channel),
    media_roles=("user", "assistant", "developer"),
    max_context_tokens=1_000_000,
    max_output_tokens=100_000,
    thinking_policy=ThinkingPolicy(reads_from=("*",), accepts_unsigned=True),
)
"""A model that supports everything, so that projection loses nothing."""

_BUILT_ELSEWHERE = {"tool_choice", "output_schema", "strict_prefix", "stream", "headers", "extra", "context"}
"""Options that are not one field of the body."""
_NAMES = tuple(name for name in AdapterOptions.__dataclass_fields__ if name not in _BUILT_ELSEWHERE)
_OPTIONS = OptionTable({**{name: name for name in _NAMES}, "stop_sequences": "stop"})
_BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_CODES: dict[str, type[ProviderError]] = {"rate_limit": RateLimitError, "server_error": ServerError}
_ABNORMAL_STOPS = {MessageStatus.CANCELLED: StopReason.CANCELLED, MessageStatus.ERROR: StopReason.ERROR}


class ScriptedAdapter(WireAdapter):
    """Each `ScriptedProvider` has its own subclass, with its name and its capabilities."""

    provider: ClassVar[str] = "scripted"
    endpoint: ClassVar[Endpoint] = Endpoint("http://127.0.0.1", key_required=False)
    transport: ClassVar[str] = TRANSPORT
    path: ClassVar[str] = "/play"
    abilities: ClassVar[AdapterCapabilities] = ALL_CAPABILITIES
    """What its model declares that it can do."""

    @property
    def capabilities(self) -> AdapterCapabilities:
        return self.abilities

    @property
    def embeddings(self) -> ScriptedEmbeddings:
        return ScriptedEmbeddings(self.provider, self.model, self.error)

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model}
        body["messages"] = request.encode_history(request.turns, lambda turns: [_turn(request, turn) for turn in turns])
        run_by_provider = [tool for tool in tools if tool.RUN_BY_PROVIDER]
        functions = [tool for tool in tools if not tool.RUN_BY_PROVIDER]
        usable = request.fit_tools(functions)
        if run_by_provider:
            body["server_tools"] = [{"name": tool.name} for tool in run_by_provider]
        if usable:
            body["tools"] = [tool.model_dump(mode="json", exclude={"provider_raw"}) for tool in usable]
        if choice := option_table.tool_choice(request, tools=bool(usable), reasoning=False):
            body["tool_choice"] = {"name": choice.name} if isinstance(choice, NamedTool) else choice
        return body | _parameters(request)

    def decode_message(
        self, native: Mapping[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
    ) -> Message:
        """Decode a whole reply, or the one that a stream has accumulated, in which a call may be ``open``."""
        content: list[ContentBlock] = []
        for index, part in enumerate(native["content"]):
            if part["type"] == "text":
                content.append(TextBlock(text=part["text"]))
            elif part["type"] == "thinking":
                content.append(ThinkingBlock(text=part["text"]))
            else:
                parsed, raw = wirejson.parse_arguments(part["arguments"])
                if part.get("open"):
                    parsed, raw = {}, part["arguments"]
                call_id = reply.call_id(index, part["id"])
                content.append(ToolUseBlock(id=call_id, name=part["name"], input=parsed, raw_input=raw))
        stop = _ABNORMAL_STOPS.get(status) or StopReason(native["stop"])
        usage = _usage(native)
        return reply.build(content, model=native["model"], stop_reason=stop, usage=usage, raw={}, status=status)

    def decode_request(
        self, native: dict[str, Any], reader: HistoryReader
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        for item in native["messages"]:
            blocks: list[ContentBlock] = []
            for each in item["content"]:
                block = _BLOCK.validate_python(each)
                if isinstance(block, ToolUseBlock):
                    block = block.model_copy(update={"id": reader.call_id(block.id)})
                elif isinstance(block, ToolResultBlock):
                    block = block.model_copy(update={"tool_use_id": reader.result_id(block.tool_use_id)})
                blocks.append(block)
            channel = Channel(item["channel"]) if "channel" in item else None
            reader.add(Role(item["role"]), blocks, channel=channel)
        natives = [*native.get("server_tools", []), *native.get("tools", [])]
        tools = [ToolDefinition.model_validate(native_tool) for native_tool in natives]
        choice = native.get("tool_choice")
        read = AdapterOptions(
            **_OPTIONS.decode(native),
            tool_choice=NamedTool(choice["name"]) if isinstance(choice, dict) else choice,
            output_schema=native.get("output_schema"),
            stream=native["stream"],
            context=reader.context,
        )
        written = _parameters(RequestBuilder(self.target, read, reader.context, (), []))
        extra = extra_fields(native, written, ("model", "messages", "tools", "server_tools", "tool_choice"))
        return tools, replace(read, extra={self.provider: extra} if extra else {})

    def decode_error(self, native: dict[str, Any], origin: ErrorContext) -> ProviderError:
        error_field = native.get("error")
        error = error_field if isinstance(error_field, dict) else {}
        code = error.get("type")
        failure = origin.failure(message=error.get("message"), code=code)
        return failure.error(_CODES.get(str(code)) or (None if origin.status else ServerError))

    def decoder(self, context: RequestContext) -> StreamDecoder:
        return _Decoder(self, context)


def _parameters(request: RequestBuilder) -> dict[str, Any]:
    body: dict[str, Any] = {}
    _OPTIONS.encode(request, body)
    if structured_output.should_send_schema(request, tools=False):
        body["output_schema"] = request.fit_output_schema()
    return body | {"stream": request.options.stream}


def _turn(request: RequestBuilder, turn: Turn) -> dict[str, Any]:
    content = []
    for block in turn.blocks:
        written = block.model_dump(mode="json")
        if isinstance(block, ToolUseBlock):
            written["id"] = request.tool_id(block.id)
        elif isinstance(block, ToolResultBlock):
            written["tool_use_id"] = request.tool_id(block.tool_use_id)
        content.append(written)
    channel = {} if turn.message.channel is None else {"channel": turn.message.channel}
    return {"role": turn.role, "content": content, **channel}


def _usage(native: Mapping[str, Any]) -> TokenUsage | None:
    if (count := UsageReader.of(native.get("usage"))) is None:
        return None
    fresh, cached, output = count("input"), count("cached"), count("output")
    return TokenUsage(
        input_tokens=fresh, cached_input_tokens=cached, output_tokens=output, unread=count.unread, raw=native["usage"]
    )


class _Decoder(StreamDecoder):
    def __init__(self, adapter: ScriptedAdapter, context: RequestContext) -> None:
        super().__init__(adapter.provider, NdjsonDecoder(context.frame_cap, context.body_cap))
        self._adapter = adapter
        self._reply = ReplyBuilder(context, adapter.provider)
        self._native: dict[str, Any] = {}

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        event = wirejson.loads_object(frame.data, what="a line")
        message_id, kind = self._reply.message_id, event["type"]
        if kind == "error":
            raise self._adapter.decode_error(event, ErrorContext(self.provider, self._adapter.model))
        if (kind == "start") is bool(self._native):
            raise MalformedReplyError("a reply starts once, with its first line")
        match kind:
            case "start":
                self._native = {"model": event["model"], "content": []}
                yield MessageStart(message_id, event["model"])
            case "text" | "thinking":
                index = event["index"]
                self._part_at(index, kind, {"type": kind, "text": ""})["text"] += event["text"]
                delta = TextDelta if kind == "text" else ThinkingDelta
                yield delta(message_id, index, event["text"])
            case "tool_use":
                index, fresh = event["index"], {**event, "arguments": "", "open": True}
                if self._part_at(index, kind, fresh) is not fresh:
                    raise MalformedReplyError(f"part {index} begins twice")
                yield ToolUseStart(message_id, index, self._reply.call_id(index, event["id"]), event["name"])
            case "arguments" | "tool_use_end":
                yield from self._continue_call(event)
            case "end":
                self._native |= {"stop": event["stop"], "usage": event.get("usage")}
                if (counted := _usage(self._native)) is not None:
                    yield UsageUpdate(message_id, counted)
                yield MessageComplete(self._adapter.decode_message(self._native, self._reply))
            case other:
                yield from self.skip_unknown(other)

    def partial(self, status: MessageStatus) -> Message | None:
        return self._adapter.decode_message(self._native, self._reply, status) if self._native else None

    def _continue_call(self, event: Mapping[str, Any]) -> Iterable[StreamEvent]:
        index = event["index"]
        part = self._part_at(index, "tool_use")
        if "open" not in part:
            raise MalformedReplyError(f"the call at {index} has ended")
        call = self._reply.call_id(index, part["id"])
        if event["type"] == "arguments":
            part["arguments"] += event["text"]
            yield ToolUseInputDelta(self._reply.message_id, index, call, event["text"])
            return
        del part["open"]
        parsed, malformed = wirejson.parse_arguments(part["arguments"])
        if malformed is None:
            yield ToolUseEnd(self._reply.message_id, index, call, parsed)

    def _part_at(self, index: int, kind: str, new: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the part at an index. A new part starts directly after the last."""
        parts: list[dict[str, Any]] = self._native["content"]
        if new is not None and index == len(parts):
            parts.append(new)
        if not (0 <= index < len(parts) and parts[index]["type"] == kind):
            raise MalformedReplyError(f"there is no {kind} at {index}")
        return parts[index]
