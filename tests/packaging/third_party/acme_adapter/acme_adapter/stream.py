"""Chunks to events: server-sent events, of which ``closed`` is the last."""

from collections.abc import Iterable, Iterator
from typing import Any

from acme_adapter import decode, errors
from dragoman.adapters import (
    ErrorContext,
    Frame,
    ReplyBuilder,
    RequestContext,
    SseDecoder,
    StreamDecoder,
    loads_object,
    parse_arguments,
)
from dragoman.errors import MalformedReplyError
from dragoman.events import (
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
from dragoman.messages import Message, MessageStatus

_DELTAS = {"words": TextDelta, "musing": ThinkingDelta}


class AcmeStreamDecoder(StreamDecoder):
    """Accumulates the reply object from the events."""

    def __init__(self, context: RequestContext) -> None:
        super().__init__("acme", SseDecoder(context.frame_cap, context.body_cap))
        self._reply = ReplyBuilder(context, "acme")
        self._native: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def read(self, frame: Frame) -> Iterable[StreamEvent]:
        event = loads_object(frame.data, what="an event")
        match frame.event:
            case "opened":
                return self._open(event)
            case "words" | "musing" as kind:
                return self._text_event(kind, event)
            case "ask" | "ask-more" | "ask-end" as kind:
                return self._call_event(kind, event)
            case "closed":
                return self._close(event)
            case "fault":
                raise errors.decode_error({"fault": event}, ErrorContext("acme", self._native.get("engine")))
            case kind:
                return self.skip_unknown(kind)

    def partial(self, status: MessageStatus) -> Message | None:
        return decode.decode_message(self._accumulated_reply(), self._reply, status) if self._native else None

    def _open(self, event: dict[str, Any]) -> Iterator[StreamEvent]:
        self._require(not self._native, "the reply is opened twice")
        self._native = {"id": event["id"], "engine": event["engine"]}
        yield MessageStart(self._reply.message_id, event["engine"])

    def _text_event(self, kind: str, event: dict[str, Any]) -> Iterator[StreamEvent]:
        position, words = event["part"], event["words"]
        part = self._part(position, {"kind": kind, "words": ""})
        self._require(part["kind"] == kind, f"part {position} is {part['kind']}, not {kind}")
        part["words"] += words
        delta = _DELTAS[kind]
        yield delta(self._reply.message_id, position, words)

    def _call_event(self, kind: str, event: dict[str, Any]) -> Iterator[StreamEvent]:
        position, message_id = event["part"], self._reply.message_id
        if kind == "ask":
            self._require(position >= len(self._parts), f"part {position} begins twice")
            opened = {"kind": "ask", "ref": event["ref"], "name": event["name"], "with": "", "open": True}
            self._part(position, opened)
            yield ToolUseStart(message_id, position, self._reply.call_id(position, event["ref"]), event["name"])
            return
        part = self._part(position)
        self._require("open" in part, f"part {position} is not a call that is open")
        call = self._reply.call_id(position, part["ref"])
        if kind == "ask-more":
            part["with"] += event["with"]
            yield ToolUseInputDelta(message_id, position, call, event["with"])
            return
        del part["open"]
        parsed, malformed = parse_arguments(part["with"])
        if malformed is None:
            yield ToolUseEnd(message_id, position, call, parsed)

    def _close(self, event: dict[str, Any]) -> Iterator[StreamEvent]:
        self._require(bool(self._native), "the reply was not opened")
        self._native |= event
        if (usage := decode.decode_usage(event.get("meter"))) is not None:
            yield UsageUpdate(self._reply.message_id, usage)
        yield MessageComplete(decode.decode_message(self._accumulated_reply(), self._reply))

    def _part(self, position: int, new: dict[str, Any] | None = None) -> dict[str, Any]:
        """The part at a position. A new one has to follow directly after the last."""
        self._require(bool(self._native), "the reply was not opened")
        if new is not None and position == len(self._parts):
            self._parts.append(new)
        self._require(0 <= position < len(self._parts), f"there is no part {position}")
        return self._parts[position]

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            raise MalformedReplyError(otherwise)

    def _accumulated_reply(self) -> dict[str, Any]:
        return {"ended": None, **self._native, "turn": {"by": "engine", "parts": self._parts}}
