"""Decodes the stream of Cohere's chat (docs.cohere.com/v2/docs/streaming). The terminal event is message-end."""

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import RequestContext
from dragoman.adapter.replies.accumulating_decoder import AccumulatingDecoder
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.framing import Frame
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.canonical.events import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import Message, MessageStatus
from dragoman_adapters.cohere import decode, errors
from dragoman_adapters.cohere.encode import Piece

DONE = b"[DONE]"


class _PieceAccumulator:
    """Accumulates a piece of the message: a content part, the plan or a call."""

    __slots__ = ("ended", "field", "fragments", "native")

    def __init__(self, field: str, native: dict[str, Any]) -> None:
        self.field = field
        self.native = native
        self.fragments: list[str] = []
        self.ended = False

    def piece(self) -> Piece:
        joined = "".join(self.fragments)
        if self.field == "tool_plan":
            return self.field, joined
        if self.field == "tool_calls":
            function = {**(self.native.get("function") or {}), "arguments": joined}
            return self.field, {**self.native, "function": function}
        kind = self.native.get("type")
        return self.field, {**self.native, kind: joined} if kind in ("text", "thinking") else self.native


class CohereStreamDecoder(AccumulatingDecoder):
    """Accumulates the reply object of the stream and emits an event for each change.

    The wire counts content parts and calls separately; here they share one index, by order of arrival.
    """

    def __init__(self, provider: str, context: RequestContext) -> None:
        super().__init__(provider, context)
        self._parts: list[_PieceAccumulator] = []
        self._positions: dict[tuple[str, Any], int] = {}
        self._citations: list[dict[str, Any]] = []

    def read(self, frame: Frame) -> Iterable[StreamEvent]:  # noqa: C901, PLR0912  # one case for each event
        if frame.data.strip() == DONE:
            return ()
        data = wirejson.loads_object(frame.data, what="a stream event")
        kind = data.get("type") or frame.event
        if kind == "error" or (not kind and "message" in data):
            raise errors.decode_error(data, ErrorContext(self.provider, self._model))
        if kind == "message-start":
            message = (data.get("delta") or {}).get("message") or {}
            return self.start({"id": data.get("id"), "role": message.get("role", "assistant")})
        if not self._native:
            raise ValueError(f"{kind} comes before the message starts")
        index = data.get("index")
        delta = data.get("delta") or {}
        message = delta.get("message") or {}
        match kind:
            case "content-delta":
                return self._content(index, message["content"])
            case "tool-call-delta":
                return self._arguments(index, message["tool_calls"])
            case "tool-plan-delta":
                return self._plan(message["tool_plan"])
            case "content-start":
                self._add("content", index, message["content"])
                return self._content(index, message["content"])
            case "tool-call-start":
                return self._call(index, message["tool_calls"])
            case "tool-call-end":
                position, part = self._open("tool_calls", index)
                part.ended = True
                call_id = self._reply.call_id(position, part.native.get("id"))
                return self.end_call(position, call_id, "".join(part.fragments))
            case "citation-start":
                self._citations.append(message["citations"])
                return ()
            case "content-end":
                self._open("content", index)[1].ended = True
                return ()
            case "citation-end":
                return ()
            case "message-end":
                if delta.get("error"):
                    raise errors.decode_error(delta, ErrorContext(self.provider, self._model))
                self._native |= {key: value for key, value in delta.items() if key != "message"}
                return self.complete(decode.decode_usage(self._native.get("usage")))
            case _:
                return self.skip_unknown(str(kind))

    def decode_message(self, native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus) -> Message:
        cut = [position for position, part in enumerate(self._parts) if part.field == "tool_calls" and not part.ended]
        pieces = [part.piece() for part in self._parts]
        return decode.decode_message(native, reply, status, pieces=pieces, cut=cut)

    def _add(self, field: str, index: Any, native: dict[str, Any]) -> int:
        if (field, index) in self._positions:
            raise ValueError(f"{field} {index} starts twice")
        position = self._positions[field, index] = len(self._parts)
        self._parts.append(_PieceAccumulator(field, native))
        return position

    def _open(self, field: str, index: Any) -> tuple[int, _PieceAccumulator]:
        """Return an open piece. Raises ValueError if it has ended: events are missing or repeated."""
        position = self._positions[field, index]
        if self._parts[position].ended:
            raise ValueError(f"{field} {index} continues after its end")
        return position, self._parts[position]

    def _content(self, index: Any, delta: dict[str, Any]) -> Iterator[StreamEvent]:
        position, part = self._open("content", index)
        for kind, event in (("text", TextDelta), ("thinking", ThinkingDelta)):
            if fragment := delta.get(kind):
                if part.native.get("type") != kind:
                    raise ValueError(f"{kind} in a part of another type")
                part.fragments.append(fragment)
                yield event(self._reply.message_id, position, fragment)

    def _plan(self, fragment: str) -> Iterator[StreamEvent]:
        if not fragment:
            return
        position = self._positions.get(("tool_plan", None))
        if position is None:
            position = self._add("tool_plan", None, {})
        self._parts[position].fragments.append(fragment)
        yield ThinkingDelta(self._reply.message_id, position, fragment)

    def _call(self, index: Any, native: dict[str, Any]) -> Iterator[StreamEvent]:
        position = self._add("tool_calls", index, native)
        call = self._reply.call_id(position, native.get("id"))
        yield ToolUseStart(self._reply.message_id, position, call, native["function"]["name"])
        yield from self._arguments(index, native)

    def _arguments(self, index: Any, native: dict[str, Any]) -> Iterator[StreamEvent]:
        position, part = self._open("tool_calls", index)
        if fragment := (native.get("function") or {}).get("arguments"):
            part.fragments.append(fragment)
            call = self._reply.call_id(position, part.native.get("id"))
            yield ToolUseInputDelta(self._reply.message_id, position, call, fragment)

    def accumulated_reply(self) -> dict[str, Any]:
        """Return the reply object so far, without its pieces."""
        native = {key: value for key, value in self._native.items() if key != "role"}
        message: dict[str, Any] = {"role": self._native["role"]}
        if any(part.field == "content" for part in self._parts):
            message["content"] = []  # a list, as in whole replies; the pieces hold its parts
        if self._citations:
            message["citations"] = self._citations
        return {**native, "message": message}
