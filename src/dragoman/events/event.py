"""The envelope of every event (specification D11): who, when, in which session and turn, because of what."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, ClassVar, TypeVar

from pydantic import ValidationError

from dragoman.adapter.errors import EventError
from dragoman.canonical.blocks import READING, FrozenModel

RESERVED = ("message.", "text.", "thinking.", "tool.use_")
"""What the events of a stream begin with, in the protocol that clients speak: no event of the bus does. What streams
is in the messages anyway, and there is too much of it."""


class Actor(StrEnum):
    USER = "user"
    AGENT = "agent"
    SYSTEM = "system"
    TOOL = "tool"
    WORKER = "worker"


class Sensitivity(StrEnum):
    """From what may hold a user's words or files to what may be added up over many users."""

    PRIVATE = "private"
    USER_CONTROLLED = "user_controlled"
    PSEUDONYMOUS = "pseudonymous"
    AGGREGATABLE = "aggregatable"

    def covers(self, other: "Sensitivity") -> bool:
        """Whether the other one is no more private than this one."""
        return _ORDER[other] >= _ORDER[self]


_ORDER = {level: place for place, level in enumerate(Sensitivity)}


WordT = TypeVar("WordT", bound=StrEnum)


def parse_word(kind: type[WordT], given: str, what: str) -> WordT:
    """One of a closed list. Raises EventError, with the list, where it is none."""
    try:
        return kind(given)
    except ValueError:
        raise EventError(f"{given!r:.80} is no {what}: there are {', '.join(kind)}") from None


class Payload(FrozenModel):
    """What an event tells. A class of it declares its ``type``, a dotted name in lower case; its ``floor``, the most
    private that such an event is; and the ``actor`` who usually causes it.

    Raises EventError where a class is declared under a name that belongs to streams.
    """

    type: ClassVar[str]
    floor: ClassVar[Sensitivity] = Sensitivity.PRIVATE
    actor: ClassVar[Actor] = Actor.SYSTEM

    @classmethod
    def __pydantic_init_subclass__(cls, **settings: Any) -> None:
        super().__pydantic_init_subclass__(**settings)
        domain, _, what = cls.type.partition(".")
        if not (domain and what and cls.type == cls.type.lower()):
            raise EventError(f"{cls.type!r:.80} is no type of event: write it as 'domain.what_happened'")
        if cls.type.startswith(RESERVED):
            raise EventError(f"{cls.type!r:.80} begins as the events of streams do, which never go over the bus")


@dataclass(frozen=True, slots=True)
class UnknownPayload:
    """The payload of a type that this version has no word for, as it was read."""

    type: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """``id`` is a ULID: ids of one process are in the order of what happened. ``parent_event_id`` is what caused it."""

    id: str
    timestamp: datetime
    session_id: str
    payload: Payload | UnknownPayload
    actor: Actor
    sensitivity: Sensitivity
    turn_id: str | None = None
    parent_event_id: str | None = None

    @property
    def type(self) -> str:
        return self.payload.type

    def as_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it: the time as ISO 8601 in UTC, money as a text, unknown as null."""
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
        """`as_dict` as one line."""
        return json.dumps(self.as_dict(), ensure_ascii=False, separators=(",", ":"))


def read_event(line: str | bytes, types: Mapping[str, type[Payload]]) -> Event:
    """The event of a line that `Event.to_json` wrote, in this version or another.

    A type that is not among ``types``, or whose payload does not fit, is kept as `Unknown`; fields that this version
    does not know stay in the payload. Raises EventError where the line is no event.
    """
    try:
        data = json.loads(line)
        kind, fields = data["type"], data["payload"]
        if not (isinstance(kind, str) and isinstance(fields, dict)):
            raise TypeError
        return Event(
            id=str(data["id"]),
            timestamp=datetime.fromisoformat(data["timestamp"]),
            session_id=str(data["session_id"]),
            payload=_payload(kind, fields, types),
            actor=Actor(data["actor"]),
            sensitivity=Sensitivity(data["sensitivity"]),
            turn_id=data.get("turn_id"),
            parent_event_id=data.get("parent_event_id"),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise EventError("the line is no event: it lacks a field, or holds something else") from None


def _payload(kind: str, fields: dict[str, Any], types: Mapping[str, type[Payload]]) -> Payload | UnknownPayload:
    known = types.get(kind)
    if known is None:
        return UnknownPayload(kind, fields)
    try:
        return known.model_validate(fields, extra="allow", context=READING)
    except ValidationError:
        return UnknownPayload(kind, fields)
