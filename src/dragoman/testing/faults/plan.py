"""Fault plans: each is a small value for one fault in the bytes of a reply.

A plan takes a whole recorded body and yields the chunks that arrive instead. A broken connection is a
ConnectionResetError after them, a stall a TimeoutError. `FaultyTransport` converts both to the errors of the HTTP
library, and adapters end the stream with a typed error.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from dragoman.adapter.errors import ConfigurationError
from dragoman.testing.event_bytes import (
    BOM,
    Framing,
    detect_framing,
    join_events,
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
        sizes = self._random(len(body)) if self.seed is not None else self._in_turn()
        start = 0
        while start < len(body):
            size = next(sizes)
            yield body[start : start + size]
            start += size

    def _in_turn(self) -> Iterator[int]:
        while True:
            yield from self.sizes

    def _random(self, length: int) -> Iterator[int]:
        """The seed also decides between tiny chunks and a few large ones."""
        rng = random.Random(self.seed)
        largest = rng.choice((2, 8, 32, 128, max(2, length)))
        while True:
            yield rng.randint(1, largest)


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
        events = [*_events_up_to(body, self.n - 1 if self.n else None)]
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
