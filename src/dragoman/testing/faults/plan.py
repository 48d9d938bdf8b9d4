"""Fault plans: each is a small value for one fault in the bytes of a reply.

A plan takes a whole recorded body and yields the chunks that arrive instead. A broken connection is a
ConnectionResetError after them, a stall a TimeoutError. `FaultyTransport` converts both to the errors of the HTTP
library, and adapters end the stream with a typed error.
"""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, Protocol, get_args, runtime_checkable

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing.event_bytes import (
    BOM,
    Framing,
    detect_framing,
    event_payload,
    join_events,
    replace_payload,
    require_text,
    split_events,
    split_lines,
)

LineEnd = Literal["\r\n", "\r", "\n"]


@runtime_checkable
class Plan(Protocol):
    """A fault in a reply's bytes."""

    @property
    def harmless(self) -> bool:
        """Whether the protocol allows the change, so that the reply must be decoded unchanged."""
        ...

    def apply(self, body: bytes) -> Iterator[bytes]:
        """Yield the chunks that arrive. May raise ConnectionResetError or TimeoutError after them.

        Raises ConfigurationError if the plan does not fit the body.
        """
        ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The reply ends after ``at`` bytes: cleanly, as some proxies end it, or by a reset connection."""

    at: int
    reset: bool = False
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.at, len(body))
        yield from _non_empty(body[: self.at])
        if self.reset:
            raise ConnectionResetError(f"the connection was reset after {self.at} bytes, as planned")


@dataclass(frozen=True, slots=True)
class Stall:
    """No bytes arrive after ``at`` bytes until the reader times out. The wait itself is skipped."""

    after: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.after, len(body))
        yield from _non_empty(body[: self.after])
        raise TimeoutError(f"nothing came after {self.after} bytes, as planned")


@dataclass(frozen=True, slots=True)
class Rechunk:
    """The same bytes in other chunks: of these sizes, cyclically, or of seeded random sizes."""

    sizes: tuple[int, ...] = ()
    seed: int | None = None
    harmless = True

    def __post_init__(self) -> None:
        if (self.seed is None) is not bool(self.sizes) or any(size < 1 for size in self.sizes):
            raise ConfigurationError("chunks need either sizes of at least 1, or a seed")

    def apply(self, body: bytes) -> Iterator[bytes]:
        rng = random.Random(self.seed)
        # The seed also decides between tiny chunks and a few large ones.
        largest = rng.choice((2, 8, 32, 128, max(2, len(body))))
        in_turn = cycle(self.sizes)
        start = 0
        while start < len(body):
            size = next(in_turn) if self.seed is None else rng.randint(1, largest)
            yield body[start : start + size]
            start += size


@dataclass(frozen=True, slots=True)
class Corrupt:
    """The byte at ``at`` is replaced; the seed chooses its value."""

    at: int
    seed: int = 0
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.at, len(body) - 1)
        other = random.Random(f"{self.seed}/{self.at}").randrange(1, 256)
        yield body[: self.at] + bytes([body[self.at] ^ other]) + body[self.at + 1 :]


@dataclass(frozen=True, slots=True)
class DropEvent:
    """Drops one event, counted from 0."""

    n: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n)
        del events[self.n]
        yield from _non_empty(join_events(body, events))


@dataclass(frozen=True, slots=True)
class DuplicateEvent:
    """Duplicates one event, counted from 0."""

    n: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n)
        events.insert(self.n, events[self.n])
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class SwapEvents:
    """Swaps one event, counted from 0, with the next one."""

    n: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n + 1)
        events[self.n], events[self.n + 1] = events[self.n + 1], events[self.n]
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class InjectEvent:
    """Inserts bytes before one event, counted from 0, or at the end if ``n`` is the number of events."""

    n: int
    event: bytes
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n - 1 if self.n else None)
        events.insert(self.n, self.event)
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class LineEnds:
    """Replaces every line end."""

    end: LineEnd
    harmless = True

    def __post_init__(self) -> None:
        if self.end not in get_args(LineEnd):
            raise ConfigurationError(f"a line must end with CR LF, CR or LF, not {self.end!r}")

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "line ends")
        yield body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", self.end.encode())


@dataclass(frozen=True, slots=True)
class Bom:
    """Adds a byte order mark at the start, as some servers on Windows send it."""

    harmless = True

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "a byte order mark")
        yield BOM + body


@dataclass(frozen=True, slots=True)
class Comments:
    """Adds a line without content before every line: comments in server-sent events, blank lines in JSON."""

    harmless = True

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "comments")
        silent = b":\n" if detect_framing(body) is Framing.SSE else b"\n"
        yield b"".join(silent + line for line in split_lines(body))


@dataclass(frozen=True, slots=True)
class Chain:
    """Applies several plans in order. All but the last must keep the body complete."""

    plans: tuple[Plan, ...]

    @property
    def harmless(self) -> bool:
        return all(plan.harmless for plan in self.plans)

    def apply(self, body: bytes) -> Iterator[bytes]:
        if not self.plans:
            return _non_empty(body)
        *first, last = self.plans
        for plan in first:
            try:
                body = b"".join(plan.apply(body))
            except (ConnectionResetError, TimeoutError):
                raise ConfigurationError(f"{plan} ends the reply: it must be the last plan of a chain") from None
        return last.apply(body)


def _events_up_to(body: bytes, last: int | None) -> list[bytes]:
    """Return the body's events. Raises ConfigurationError if there is no event with that number."""
    events = split_events(body)
    if last is not None and not 0 <= last < len(events):
        raise ConfigurationError(f"the stream has {len(events)} events, counted from 0: there is no event {last}")
    return events


def _check_offset(place: int, last: int) -> None:
    """Raise ConfigurationError for a plan without effect: its test would show nothing."""
    if not 0 <= place <= last:
        raise ConfigurationError(f"the body has no byte {place}: they are counted from 0 to {last}")


def _non_empty(chunk: bytes) -> Iterator[bytes]:
    if chunk:
        yield chunk


_PLACEHOLDER = "\x00"
"""A placeholder in a JSON value for text that no encoder would write."""

_MAX_TRIES = 5
"""How often a mutation without effect is drawn again. The limit matters for an empty body."""

_ODD_VALUES = (
    "null", "true", "-1", "0", "1", "1024", "999999999", "9223372036854775808", "1e999", "-0.0", "NaN", "Infinity",
    "0.5", '""', '"x"', '"\\ud800"', '"\\u0000"', '"\\u2028"', '"7"', "[]", "{}", "[[]]", "[{}]", '{"a": {}}', "[null]",
    '{"type": "text"}', "[" * 300 + "]" * 300, '{"a":' * 150 + "1" + "}" * 150, "9" * 5000, '"' + "y" * 5000 + '"',
)  # fmt: skip
"""Values that are unusual, out of range, invalid JSON, or of the wrong type."""


@dataclass(frozen=True, slots=True)
class Mutate:
    """One to three seeded changes: bytes, fields, values or events are altered, dropped, duplicated or moved."""

    seed: int
    harmless = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        rng = random.Random(self.seed)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            before = body
            for _ in range(_MAX_TRIES):
                body = (_change_json if rng.random() < 0.6 else _change_bytes)(body, rng)
                if body != before:
                    break
        yield body


def _change_bytes(body: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(body) + 1) for _ in range(2))
    end = min(end, start + rng.choice((1, 2, 8, 64, len(body))))
    match rng.randrange(6):
        case 0:
            return body[:start] + rng.randbytes(rng.randint(1, 8)) + body[end:]
        case 1:
            return body[:start] + body[end:]
        case 2:
            return body[:end] + body[start:end] + body[end:]
        case 3:
            return body[:start] + rng.choice((b"\n", b"\r", b"\n\n", b"\0", b'"', b"}", b"{", b"\xff")) + body[start:]
        case 4:
            return body[end:] + body[start:end] + body[:start]
        case _:
            return body[:end]


def _change_json(body: bytes, rng: random.Random) -> bytes:
    events = split_events(body)
    if not events:
        return body
    place = rng.randrange(len(events))
    event, other = events[place], rng.choice(events)
    match rng.randrange(8):
        case 0:
            events[place] = b""
        case 1:
            events.insert(place, other)
        case 2:
            events[place] = other
        case _:
            events[place] = _change_value(event, event_payload(other), rng)
    return b"".join(events)


def _change_value(event: bytes, other: bytes, rng: random.Random) -> bytes:
    """Return the event with one value, at any depth, dropped, replaced, duplicated or taken from another event."""
    try:
        value, other_value = json.loads(event_payload(event)), json.loads(other)
    except (ValueError, RecursionError):
        return event
    places = list(_value_places(value))
    if not places:
        return event
    holder, key = rng.choice(places)
    odd = rng.choice(_ODD_VALUES)
    match rng.randrange(5):
        case 0:
            del holder[key]
        case 1:
            donors = list(_value_places(other_value))
            donor, donor_key = rng.choice(donors) if donors else (holder, key)
            holder[key] = donor[donor_key]
        case 2 if isinstance(holder, dict):
            holder[str(key).upper()] = holder.pop(key)
        case 3 if isinstance(holder, list):
            holder.append(holder[key])
        case _:
            holder[key] = _PLACEHOLDER
    written = json.dumps(value, ensure_ascii=False)
    return replace_payload(event, written.replace(json.dumps(_PLACEHOLDER), odd).encode("utf-8", "surrogatepass"))


def _value_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of every value inside a JSON value."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, inner in pairs:
        yield value, key
        yield from _value_places(inner)
