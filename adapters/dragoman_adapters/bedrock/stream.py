"""Decodes the stream of Bedrock's three formats, which are all AWS event streams.

Converse names its events in the frames; the terminal one is metadata, with the counts. InvokeModel wraps the model's
own events in frames named chunk: those of Anthropic, whose terminal event is message_stop, and those of Nova, which are
the same as Converse's. Source: docs.aws.amazon.com/bedrock/latest/APIReference, ConverseStreamOutput and
ResponseStream.
"""

import base64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.aws_event_stream import EXCEPTION_PREFIX, AwsEventStreamDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame
from dragoman.canonical.events import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import Message, MessageStatus
from dragoman_adapters.anthropic.stream import AnthropicStreamDecoder
from dragoman_adapters.bedrock import decode, errors

Native = dict[str, Any]

_STARTED_KINDS = ("toolUse", "toolResult", "image")
"""Kinds of blocks that have a start; the others show only in their deltas."""


@dataclass(slots=True, eq=False)
class BlockAccumulator:
    """Accumulates a content block, whose type shows only in its deltas."""

    start: Native = field(default_factory=dict)
    kind: str = ""
    texts: list[str] = field(default_factory=list)
    signatures: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    citations: list[Native] = field(default_factory=list)
    parts: list[Native] = field(default_factory=list)
    image: Native = field(default_factory=dict)
    ended: bool = False

    def require_kind(self, kind: str) -> None:
        """Raise ValueError if the block is of another kind, or if blocks of this kind need a start event."""
        if kind != (self.kind or ("" if kind in _STARTED_KINDS else kind)):
            raise ValueError(f"{kind} in a content block of another kind")
        self.kind = kind

    @property
    def call(self) -> Native | None:
        """Return the start event of a call that the caller answers."""
        call: Native | None = self.start.get("toolUse")
        return call if call is not None and decode.is_call(self.start) else None

    def native(self) -> Native:
        """Return the block as in a whole reply; truncated or malformed input of a call stays text."""
        text = "".join(self.texts)
        if self.kind == "toolUse":
            arguments, malformed = wirejson.parse_arguments(text)
            is_complete = self.ended and malformed is None
            return {"toolUse": {**self.start["toolUse"], "input": arguments if is_complete else text}}
        if self.kind == "toolResult":
            return {"toolResult": {**self.start["toolResult"], "content": self.parts}}
        if self.kind == "image":
            return {"image": {**self.start["image"], **self.image}}
        if self.kind == "reasoningContent":
            if self.redacted:
                # Each piece is complete base64.
                data = self.redacted[0]
                if len(self.redacted) > 1:
                    data = base64.b64encode(b"".join(map(base64.b64decode, self.redacted))).decode()
                return {"reasoningContent": {"redactedContent": data}}
            signed = {"signature": "".join(self.signatures)} if any(self.signatures) else {}
            return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
        if self.citations:
            cited: Native = {"citations": self.citations}
            return {"citationsContent": {"content": [{"text": text}], **cited} if text else cited}
        return self.start or {"text": text}


_BEDROCK_PREFIX = "amazon-bedrock-"
"""The prefix of fields that Bedrock adds to a model's own events."""


def read_event(frame: Frame, provider: str, model: str) -> Native:
    """Return the object of a frame. Raises the error of an exception."""
    data = wirejson.loads_object(frame.data, what="a stream event")
    if frame.event.startswith(EXCEPTION_PREFIX):
        name = frame.event.removeprefix(EXCEPTION_PREFIX)
        raise errors.decode_error(data, ErrorContext(provider, model), name)
    return data


def unwrap_chunk(data: Native) -> tuple[bytes, Native]:
    """Return the event of the model that a chunk of InvokeModel wraps, also as bytes."""
    wrapped = base64.b64decode(data["bytes"], validate=True)
    return wrapped, wirejson.loads_object(wrapped, what="a stream event")


class BedrockStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the stream and emits an event for each change."""

    framing = AwsEventStreamDecoder

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._context = context
        self._messages: AnthropicStreamDecoder | None = None
        self._blocks: list[BlockAccumulator] = []
        self._positions: dict[int, int] = {}

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        data = read_event(frame, self.provider, self._model)
        if frame.event != "chunk":
            return self._event(frame.event, data)
        wrapped, chunk = unwrap_chunk(data)
        if "type" in chunk:
            return self._anthropic(chunk, wrapped)
        name = next((name for name in chunk if not name.startswith(_BEDROCK_PREFIX)), "")
        return self._event(name, chunk.get(name) or {})

    def partial(self, status: MessageStatus) -> Message | None:
        if self._messages is not None:
            return self._messages.partial(status)
        return super().partial(status)

    decode_message = staticmethod(decode.decode_message)

    def _anthropic(self, chunk: Native, wrapped: bytes) -> Iterable[StreamEvent]:
        if self._messages is None:
            self._messages = AnthropicStreamDecoder(self.provider, self._context)
        if chunk["type"] == "ping":
            return self.skip_keep_alive()
        if chunk["type"] == "message_start":  # its model name is unknown to Bedrock
            message = {name: value for name, value in chunk["message"].items() if name != "model"}
            wrapped = wirejson.dumps({**chunk, "message": message})
        return self._messages.read(Frame("", wrapped))

    def _event(self, name: str, data: Native) -> Iterable[StreamEvent]:
        if name == "messageStart":
            return self.start({"output": {"message": {"role": data["role"]}}})
        if not self._native:
            raise ValueError(f"{name} comes before the message starts")
        match name:
            case "contentBlockDelta":
                return self._delta(data["contentBlockIndex"], data["delta"])
            case "contentBlockStart":
                return self._start(data["contentBlockIndex"], data["start"])
            case "contentBlockStop":
                return self._stop(data["contentBlockIndex"])
            case "messageStop":
                self._native |= _without_padding(data)
                return ()
            case "metadata":
                if "stopReason" not in self._native:
                    raise ValueError("the counts arrived before the message stopped")
                self._native |= _without_padding(data)
                return self.complete(decode.decode_usage(self._native))
            case _:
                return self.skip_unknown(name)

    def _block(self, index: int) -> tuple[int, BlockAccumulator]:
        """Return the block of that index; texts and thinking begin without a start event."""
        if index not in self._positions:
            self._positions[index] = len(self._blocks)
            self._blocks.append(BlockAccumulator())
        position = self._positions[index]
        return position, self._blocks[position]

    def _start(self, index: int, start: Native) -> Iterator[StreamEvent]:
        if index in self._positions:
            raise ValueError(f"content block {index} starts twice")
        position, block = self._block(index)
        block.start = start
        block.kind = next(iter(start), "")
        if (call := block.call) is not None:
            tool_use_id = self._reply.call_id(position, call["toolUseId"])
            yield ToolUseStart(self._reply.message_id, position, tool_use_id, call["name"])

    def _delta(self, index: int, delta: Native) -> Iterator[StreamEvent]:
        position, block = self._block(index)
        if block.ended:
            raise ValueError(f"content block {index} continues after its end")
        for kind, value in delta.items():
            match kind:
                case "text":
                    block.require_kind("text")
                    block.texts.append(value)
                    if value:
                        yield TextDelta(self._reply.message_id, position, value)
                case "toolUse":
                    yield from self._input(position, block, value["input"])
                case "reasoningContent":
                    yield from self._add_thinking(position, block, value)
                case "citation":
                    block.require_kind("text")
                    block.citations.append(value)
                case "toolResult":
                    block.require_kind("toolResult")
                    block.parts += value
                case "image":
                    block.require_kind("image")
                    block.image |= value
                case _:
                    self.skip_unknown(kind)

    def _input(self, position: int, block: BlockAccumulator, fragment: str) -> Iterator[StreamEvent]:
        block.require_kind("toolUse")
        block.texts.append(fragment)
        if fragment and (call := block.call) is not None:
            tool_use_id = self._reply.call_id(position, call["toolUseId"])
            yield ToolUseInputDelta(self._reply.message_id, position, tool_use_id, fragment)

    def _add_thinking(self, position: int, block: BlockAccumulator, delta: Native) -> Iterator[StreamEvent]:
        block.require_kind("reasoningContent")
        if "redactedContent" in delta:
            block.redacted.append(delta["redactedContent"])
        text, signature = delta.get("text") or "", delta.get("signature")
        if text:
            block.texts.append(text)
        if signature:
            block.signatures.append(signature)
        if text or signature:
            yield ThinkingDelta(self._reply.message_id, position, text, signature)

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        position, block = self._block(index)
        if block.ended:
            raise ValueError(f"content block {index} ends twice")
        block.ended = True
        if block.redacted:
            data = block.native()["reasoningContent"]["redactedContent"]
            yield ThinkingDelta(self._reply.message_id, position, "", redacted=data)
        if (call := block.call) is not None:
            tool_use_id = self._reply.call_id(position, call["toolUseId"])
            yield from self.end_call(position, tool_use_id, "".join(block.texts))

    def accumulated_reply(self) -> Native:
        message = {**self._native["output"]["message"], "content": [block.native() for block in self._blocks]}
        return {**self._native, "output": {"message": message}}


def _without_padding(data: Native) -> Native:
    """Return an event without its padding ``p``, with which Bedrock hides the event's length."""
    return {name: value for name, value in data.items() if name != "p"}
