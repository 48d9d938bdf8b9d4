"""Chunks to events for Bedrock's three forms, which all arrive as AWS event streams.

Converse names its events in the frames; the terminal one is metadata, which brings the counts. InvokeModel wraps the
model's own events in frames called chunk: Anthropic's, whose terminal event is message_stop, and Nova's, which are
those of Converse. Source: docs.aws.amazon.com/bedrock/latest/APIReference, ConverseStreamOutput and ResponseStream.
"""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.decoding import StreamDecoder
from dragoman.adapter.event_stream import EXCEPTION, EventStreamDecoder
from dragoman.adapter.failures import Origin
from dragoman.adapter.framing import Frame
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
from dragoman.canonical.message import Message, MessageStatus
from dragoman_anthropic.stream import MessagesDecoder
from dragoman_bedrock import decode, errors

Native = dict[str, Any]

_ANNOUNCED = ("toolUse", "toolResult", "image")
"""Kinds of blocks that have a start; the others show only in their deltas."""
_ACCOUNT = "amazon-bedrock-"
"""What Bedrock adds to a model's own events begins so."""


class BedrockDecoder(StreamDecoder):
    """Gathers the reply object that the stream describes, and emits an event for each change."""

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, EventStreamDecoder(context.frame_cap, context.body_cap))
        self._context = context
        self._reply = Reply(context, provider)
        self._messages: MessagesDecoder | None = None
        self._native: Native = {}
        self._blocks: list[_Block] = []
        self._places: dict[int, int] = {}

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        data = wirejson.loads_object(frame.data, what="a stream event")
        if frame.event.startswith(EXCEPTION):
            name = frame.event.removeprefix(EXCEPTION)
            raise errors.read(data, Origin(self.provider, self._context.model), name)
        if frame.event != "chunk":
            return self._event(frame.event, data)
        wrapped = base64.b64decode(data["bytes"], validate=True)
        chunk = wirejson.loads_object(wrapped, what="a stream event")
        if "type" in chunk:
            return self._anthropic(chunk, wrapped)
        name = next((name for name in chunk if not name.startswith(_ACCOUNT)), "")
        return self._event(name, chunk.get(name) or {})

    def partial(self, status: MessageStatus) -> Message | None:
        if self._messages is not None:
            return self._messages.partial(status)
        return decode.message(self._gathered(), self._reply, status) if self._native else None

    def _anthropic(self, chunk: Native, wrapped: bytes) -> Iterable[StreamEvent]:
        if self._messages is None:
            self._messages = MessagesDecoder(self.provider, self._context)
        if chunk["type"] == "ping":
            return self.keep_alive()
        if chunk["type"] == "message_start":  # its name of the model is none of Bedrock's
            said = {name: value for name, value in chunk["message"].items() if name != "model"}
            wrapped = wirejson.dumps({**chunk, "message": said})
        return self._messages.read(Frame("", wrapped))

    def _event(self, name: str, data: Native) -> Iterable[StreamEvent]:
        if name == "messageStart":
            return self._message_start(data)
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
                return self._metadata(data)
            case _:
                return self.unknown(name)

    def _message_start(self, data: Native) -> Iterator[StreamEvent]:
        if self._native:
            raise ValueError("a second message starts in one stream")
        self._native = {"output": {"message": {"role": data["role"]}}}
        yield MessageStart(self._reply.message_id, self._context.model)

    def _block(self, index: int) -> tuple[int, "_Block"]:
        """The block of that index; texts and thoughts begin without being announced."""
        if index not in self._places:
            self._places[index] = len(self._blocks)
            self._blocks.append(_Block())
        place = self._places[index]
        return place, self._blocks[place]

    def _start(self, index: int, start: Native) -> Iterator[StreamEvent]:
        if index in self._places:
            raise ValueError(f"content block {index} starts twice")
        place, block = self._block(index)
        block.start = start
        block.kind = next(iter(start), "")
        if (call := block.call) is not None:
            tool_use_id = self._reply.call_id(place, call["toolUseId"])
            yield ToolUseStart(self._reply.message_id, place, tool_use_id, call["name"])

    def _delta(self, index: int, delta: Native) -> Iterator[StreamEvent]:
        place, block = self._block(index)
        if block.ended:
            raise ValueError(f"content block {index} goes on after its end")
        for kind, value in delta.items():
            match kind:
                case "text":
                    block.turn_out("text")
                    block.texts.append(value)
                    if value:
                        yield TextDelta(self._reply.message_id, place, value)
                case "toolUse":
                    yield from self._input(place, block, value["input"])
                case "reasoningContent":
                    yield from self._thought(place, block, value)
                case "citation":
                    block.turn_out("text")
                    block.citations.append(value)
                case "toolResult":
                    block.turn_out("toolResult")
                    block.parts += value
                case "image":
                    block.turn_out("image")
                    block.image |= value
                case _:
                    self.unknown(kind)

    def _input(self, place: int, block: "_Block", fragment: str) -> Iterator[StreamEvent]:
        block.turn_out("toolUse")
        block.texts.append(fragment)
        if fragment and (call := block.call) is not None:
            tool_use_id = self._reply.call_id(place, call["toolUseId"])
            yield ToolUseInputDelta(self._reply.message_id, place, tool_use_id, fragment)

    def _thought(self, place: int, block: "_Block", delta: Native) -> Iterator[StreamEvent]:
        block.turn_out("reasoningContent")
        if "redactedContent" in delta:
            block.redacted.append(delta["redactedContent"])
        text, signature = delta.get("text") or "", delta.get("signature")
        if text:
            block.texts.append(text)
        if signature:
            block.signatures.append(signature)
        if text or signature:
            yield ThinkingDelta(self._reply.message_id, place, text, signature)

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        place, block = self._block(index)
        if block.ended:
            raise ValueError(f"content block {index} ends twice")
        block.ended = True
        if (call := block.call) is not None:
            given, malformed = wirejson.parse_arguments("".join(block.texts))
            if malformed is None:
                tool_use_id = self._reply.call_id(place, call["toolUseId"])
                yield ToolUseEnd(self._reply.message_id, place, tool_use_id, given)

    def _metadata(self, data: Native) -> Iterator[StreamEvent]:
        if "stopReason" not in self._native:
            raise ValueError("the counts arrived before the message stopped")
        self._native |= _without_padding(data)
        if (counted := decode.usage(self._native)) is not None:
            yield UsageUpdate(self._reply.message_id, counted)
        yield MessageComplete(decode.message(self._gathered(), self._reply))

    def _gathered(self) -> Native:
        """The reply object as far as it came."""
        said = {**self._native["output"]["message"], "content": [block.native() for block in self._blocks]}
        return {**self._native, "output": {"message": said}}


class _Block:
    """A content block while it arrives; what it is shows only in what is said of it."""

    __slots__ = ("citations", "ended", "image", "kind", "parts", "redacted", "signatures", "start", "texts")

    def __init__(self) -> None:
        self.start: Native = {}
        self.kind = ""
        self.texts: list[str] = []
        self.signatures: list[str] = []
        self.redacted: list[str] = []
        self.citations: list[Native] = []
        self.parts: list[Native] = []
        self.image: Native = {}
        self.ended = False

    def turn_out(self, kind: str) -> None:
        """Raises ValueError where the block is already of another kind, or of one that has to be announced."""
        if kind != (self.kind or ("" if kind in _ANNOUNCED else kind)):
            raise ValueError(f"{kind} in a content block of another kind")
        self.kind = kind

    @property
    def call(self) -> Native | None:
        """The start of a call that is ours to answer."""
        call: Native | None = self.start.get("toolUse")
        return call if call is not None and decode.is_call(self.start) else None

    def native(self) -> Native:
        """The block as a whole reply has it; the input of a call that is cut or malformed stays a text."""
        text = "".join(self.texts)
        if self.kind == "toolUse":
            given, malformed = wirejson.parse_arguments(text)
            whole = self.ended and malformed is None
            return {"toolUse": {**self.start["toolUse"], "input": given if whole else text}}
        if self.kind == "toolResult":
            return {"toolResult": {**self.start["toolResult"], "content": self.parts}}
        if self.kind == "image":
            return {"image": {**self.start["image"], **self.image}}
        if self.kind == "reasoningContent":
            return {"reasoningContent": self._thought(text)}
        if self.citations:
            cited: Native = {"citations": self.citations}
            return {"citationsContent": {"content": [{"text": text}], **cited} if text else cited}
        return self.start or {"text": text}

    def _thought(self, text: str) -> Native:
        if self.redacted:
            return {"redactedContent": _joined(self.redacted)}
        signature = "".join(self.signatures)
        return {"reasoningText": {"text": text, **({"signature": signature} if signature else {})}}


def _joined(pieces: list[str]) -> str:
    """Base64 in pieces as one: each piece is whole by itself."""
    if len(pieces) == 1:
        return pieces[0]
    return base64.b64encode(b"".join(base64.b64decode(piece) for piece in pieces)).decode()


def _without_padding(data: Native) -> Native:
    """Bedrock pads its events to hide their length; the padding is called p."""
    return {name: value for name, value in data.items() if name != "p"}
