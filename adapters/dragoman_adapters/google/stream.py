"""Decodes the stream of streamGenerateContent (docs/reference/wires/google.md): server-sent events, or one JSON array.

Each chunk is a small reply. The last content has a finish reason, but counts may follow it, so only the end of the
bytes and of the array ends the stream.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import FrameTooLargeError
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame, JsonArrayDecoder, SseDecoder
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.adapter.replies.stream_decoder import StreamDecoder
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
from dragoman_adapters.google import decode, errors
from dragoman_adapters.google.accumulator import PartChange, ReplyAccumulator

_BOM = b"\xef\xbb\xbf"
_DONE = b"[DONE]"


class ReplyFrameDecoder:
    """Splits server-sent events, or a JSON array if the first byte that is not blank begins a JSON value."""

    def __init__(self, frame_cap: int, body_cap: int) -> None:
        self._frame_cap = frame_cap
        self._body_cap = body_cap
        self._head = bytearray()
        self._chosen: SseDecoder | JsonArrayDecoder | None = None

    @property
    def closed(self) -> bool:
        """False while an array has not ended."""
        return not isinstance(self._chosen, JsonArrayDecoder) or self._chosen.closed

    def feed(self, chunk: bytes) -> list[Frame]:
        if self._chosen is not None:
            return self._chosen.feed(chunk)
        self._head += chunk
        if len(self._head) > self._frame_cap:
            raise FrameTooLargeError(f"the reply begins with over {self._frame_cap} blanks")
        head = bytes(self._head) if chunk.strip() else b""
        content = b"" if _BOM.startswith(head) else head.removeprefix(_BOM).lstrip()
        return self._choose(json=content[:1] in (b"[", b"{")).feed(head) if content else []

    def finish(self) -> list[Frame]:
        return self._chosen.finish() if self._chosen is not None else []

    def _choose(self, *, json: bool) -> SseDecoder | JsonArrayDecoder:
        self._chosen = (JsonArrayDecoder if json else SseDecoder)(self._frame_cap, self._body_cap)
        return self._chosen


class GoogleStreamDecoder(StreamDecoder):
    """Accumulates the reply object of the stream and emits an event for each change."""

    def __init__(self, provider: str, context: RequestContext, facts: Mapping[str, Any]) -> None:
        self._frames = ReplyFrameDecoder(context.frame_cap, context.body_cap)
        super().__init__(provider, self._frames)
        self._reply = ReplyBuilder(context, provider)
        self._model = context.model
        self._facts = facts
        self._accumulator = ReplyAccumulator()
        self._started = False

    def read(self, frame: Frame) -> Iterator[StreamEvent]:
        if frame.data == _DONE:  # some proxies end every stream with OpenAI's marker
            return
        chunk = wirejson.loads_object(frame.data, what="a stream chunk")
        if "error" in chunk:
            raise errors.decode_error(chunk, ErrorContext(self.provider, self._model))
        changes = self._accumulator.add(chunk)
        if not self._started:
            self._started = True
            served = chunk.get("modelVersion") or chunk.get("model_version")
            yield MessageStart(self._reply.message_id, served or self._model)
        for change in changes:
            yield from self._change(change)

    def end(self) -> Iterable[StreamEvent]:
        """Complete the reply if it has a finish reason and nothing is open; the wire has no other end marker."""
        if not (self._accumulator.finished and self._frames.closed):
            return super().end()
        return self._complete()

    def partial(self, status: MessageStatus) -> Message | None:
        if not self._started:
            return None
        return decode.decode_message(self._accumulator.reply(broken=True), self._reply, self._facts, status)

    def _complete(self) -> Iterator[StreamEvent]:
        message = decode.decode_message(self._accumulator.reply(), self._reply, self._facts)
        if message.usage is not None:
            yield UsageUpdate(self._reply.message_id, message.usage)
        yield MessageComplete(message)

    def _change(self, change: PartChange) -> Iterator[StreamEvent]:
        part, message_id = change.part, self._reply.message_id
        if "functionCall" in part or "function_call" in part:
            yield from self._call(change)
        elif part.get("thought"):
            signature = part.get("thoughtSignature") or part.get("thought_signature") or None
            if isinstance(part.get("text", ""), str) and ("text" in part or signature):
                yield ThinkingDelta(message_id, change.index, part.get("text", ""), signature)
        elif part.get("text"):
            yield TextDelta(message_id, change.index, part["text"])

    def _call(self, change: PartChange) -> Iterator[StreamEvent]:
        """Yield the events of a call. Arguments that arrive value by value are not JSON fragments: they are sent when
        complete.
        """
        accumulator = self._accumulator.candidates[0].parts[change.index]
        call = accumulator.part.get("functionCall") or accumulator.part.get("function_call") or {}
        if not isinstance(call.get("name"), str):
            return
        message_id, index = self._reply.message_id, change.index
        tool_use_id = self._reply.call_id(index, call.get("id"))
        if change.first:
            signature = change.part.get("thoughtSignature") or change.part.get("thought_signature") or None
            yield ToolUseStart(message_id, index, tool_use_id, call["name"], signature)
        if accumulator.arguments is not None:
            return
        arguments = call.get("args") or {}
        text = arguments if isinstance(arguments, str) else wirejson.dumps_text(arguments)
        parsed, malformed = wirejson.parse_arguments(text)
        yield ToolUseInputDelta(message_id, index, tool_use_id, text)
        if malformed is None:
            accumulator.end_sent = True
            yield ToolUseEnd(message_id, index, tool_use_id, parsed)
