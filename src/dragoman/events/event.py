"""The envelope of every event: time, session, turn, actor and cause.

Source: docs/reference/routing-and-events.md#event-envelope.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from dragoman.adapter.errors import EventError
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.words import READING, OpenEnum, read_word

RESERVED = ("message.", "text.", "thinking.", "tool.use_")
"""Prefixes of stream events in the client protocol; no event of the bus may use them. The messages hold what was
streamed, and there are too many stream events for the bus.
"""


class Actor(OpenEnum):
    """Who caused an event."""

    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"
    TOOL = "tool"
    WORKER = "worker"


class Sensitivity(OpenEnum):
    """How private an event is, from text or files of a user to data that may be aggregated over many users.

    A level of a newer version counts as private.
    """

    PRIVATE = "private"
    USER_CONTROLLED = "user_controlled"
    PSEUDONYMOUS = "pseudonymous"
    AGGREGATABLE = "aggregatable"

    def covers(self, other: "Sensitivity") -> bool:
        """Return True if the other sensitivity is not more private than this one."""
        return _ORDER.get(other, 0) >= _ORDER.get(self, 0)


_ORDER = {level: place for place, level in enumerate(Sensitivity)}


WordT = TypeVar("WordT", bound=StrEnum)
OpenT = TypeVar("OpenT", bound=OpenEnum)


def parse_word(kind: type[WordT], value: str, description: str) -> WordT:
    """Return a member of a closed list. Raises EventError, with the list, for any other word."""
    try:
        return kind(value)
    except ValueError:
        raise EventError(f"unknown {description} {value!r:.80}: use one of {', '.join(kind)}") from None


class Payload(FrozenModel):
    """The data of an event. A subclass declares its ``type``, a dotted name in lower case; its ``floor``, the highest
    sensitivity of such an event; and the ``actor`` who usually causes it.

    Raises EventError if the type of a subclass is reserved for streams.
    """

    type: ClassVar[str]
    floor: ClassVar[Sensitivity] = Sensitivity.PRIVATE
    actor: ClassVar[Actor] = Actor.SYSTEM

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        super().__pydantic_init_subclass__(**settings)
        domain, _, what = cls.type.partition(".")
        if not (domain and what and cls.type == cls.type.lower()):
            raise EventError(f"{cls.type!r:.80} is not a valid event type: write it as 'domain.what_happened'")
        if cls.type.startswith(RESERVED):
            raise EventError(f"{cls.type!r:.80} starts like the events of streams, which never go over the bus")


@dataclass(frozen=True, slots=True)
class UnknownPayload:
    """The payload of a type that this version does not know, as it was read."""

    type: str
    """The type of the event, as it was read."""
    fields: Mapping[str, Any]
    """The fields of the payload, as they were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a session, with its envelope. ``id`` is a ULID: the ids of one process are in
    chronological order. ``parent_event_id`` is the cause of the event.
    """

    id: str
    timestamp: datetime
    """When the event was emitted, in UTC."""
    session_id: str
    """The session that the event belongs to."""
    payload: Payload | UnknownPayload
    """What happened: a class of the catalogue or of the program."""
    actor: Actor
    """Who caused the event."""
    sensitivity: Sensitivity
    """How carefully the payload must be kept; an exporter may leave out what is private."""
    turn_id: str | None = None
    """The turn that the event belongs to; None between two turns."""
    parent_event_id: str | None = None

    @property
    def type(self) -> str:
        """The dotted name of what happened, such as ``llm.call_started``."""
        return self.payload.type

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON values: the time as ISO 8601 in UTC, money as text, unknown values as null."""
        payload = self.payload
        return {
            "id": self.id,
            "timestamp": self.timestamp.astimezone(UTC).isoformat(timespec="microseconds"),
            "session_id": self.session_id,
            "turn_id": self.turn_id,
            "parent_event_id": self.parent_event_id,
            "type": self.type,
            "actor": str(self.actor),
            "payload": dict(payload.fields) if isinstance(payload, UnknownPayload) else payload.model_dump(mode="json"),
            "sensitivity": str(self.sensitivity),
        }

    def to_json(self) -> str:
        """Return `as_dict` as one line of JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":"))


def read_event(line: str | bytes, types: Mapping[str, type[Payload]]) -> Event:
    """Read a line that `Event.to_json` of this or another version wrote.

    Unknown words for the actor and the sensitivity are kept. A type that is not in ``types``, or whose payload does not
    fit, becomes an `UnknownPayload`; unknown fields stay in the payload. Raises EventError if the line is not an event.
    """
    try:
        data = json.loads(line)
        kind, fields = data["type"], data["payload"]
        if not (isinstance(kind, str) and isinstance(fields, dict)):
            raise TypeError
        payload: Payload | UnknownPayload = UnknownPayload(kind, fields)
        if kind in types:
            with suppress(ValidationError):
                payload = types[kind].model_validate(fields, extra="allow", context=READING)
        return Event(
            id=str(data["id"]),
            timestamp=datetime.fromisoformat(data["timestamp"]),
            session_id=str(data["session_id"]),
            payload=payload,
            actor=_read_word(Actor, data["actor"]),
            sensitivity=_read_word(Sensitivity, data["sensitivity"]),
            turn_id=data.get("turn_id"),
            parent_event_id=data.get("parent_event_id"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise EventError("the line is not an event: a field is missing or wrong") from None


def _read_word(kind: type[OpenT], value: Any) -> OpenT:
    if not isinstance(value, str) or not value:
        raise TypeError
    return read_word(kind, value)
