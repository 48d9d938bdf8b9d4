"""Fault plans: what can happen to the bytes of a reply on their way, each as a small value.

A plan is applied to a whole recorded body and gives the chunks that arrive in its place. A connection that breaks is
a ConnectionResetError at their end, silence a TimeoutError: `FaultyTransport` turns both into those of the HTTP
library, and adapters end the stream with a typed error.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args, runtime_checkable

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
    """What happens to a reply's bytes."""

    @property
    def harmless(self) -> bool:
        """Whether the protocol allows what the plan does: then the reply must come out unchanged."""
        ...

    def apply(self, body: bytes) -> Iterator[bytes]:
        """The chunks that arrive; may raise ConnectionResetError or TimeoutError behind them.

        Raises ConfigurationError where the plan does not fit the body.
        """
        ...


@dataclass(frozen=True, slots=True)
class Cut:
    """The reply ends after ``at`` bytes: cleanly, as proxies end what they lost, or by a reset connection."""

    at: int
    reset: bool = False
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.at, len(body))
        yield from _non_empty(body[: self.at])
        if self.reset:
            raise ConnectionResetError(f"the connection was reset after {self.at} bytes, as planned")


@dataclass(frozen=True, slots=True)
class Stall:
    """Nothing more comes after that many bytes, until the reader's patience is over. The waiting itself is left out."""

    after: int
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.after, len(body))
        yield from _non_empty(body[: self.after])
        raise TimeoutError(f"nothing came after {self.after} bytes, as planned")


@dataclass(frozen=True, slots=True)
class Rechunk:
    """The same bytes in other chunks: of these sizes in turn, again and again; or of random ones, by a seed."""

    sizes: tuple[int, ...] = ()
    seed: int | None = None
    harmless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if (self.seed is None) is not bool(self.sizes) or any(size < 1 for size in self.sizes):
            raise ConfigurationError("chunks have either sizes over 0 or a seed")

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
        """From crumbs to a few large chunks: the seed decides that too."""
        picker = random.Random(self.seed)
        largest = picker.choice((2, 8, 32, 128, max(2, length)))
        while True:
            yield picker.randint(1, largest)


@dataclass(frozen=True, slots=True)
class Corrupt:
    """The byte at ``at`` is another one, by the seed."""

    at: int
    seed: int = 0
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        _check_offset(self.at, len(body) - 1)
        other = random.Random(f"{self.seed}/{self.at}").randrange(1, 256)
        yield body[: self.at] + bytes([body[self.at] ^ other]) + body[self.at + 1 :]


@dataclass(frozen=True, slots=True)
class DropEvent:
    """One event, counted from 0, never arrives."""

    n: int
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n)
        del events[self.n]
        yield from _non_empty(join_events(body, events))


@dataclass(frozen=True, slots=True)
class DuplicateEvent:
    """One event, counted from 0, arrives twice."""

    n: int
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n)
        events.insert(self.n, events[self.n])
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class SwapEvents:
    """One event, counted from 0, and the next one arrive in the wrong order."""

    n: int
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = _events_up_to(body, self.n + 1)
        events[self.n], events[self.n + 1] = events[self.n + 1], events[self.n]
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class InjectEvent:
    """Bytes of your own stand before one event, counted from 0; before the end, where ``n`` is their number."""

    n: int
    event: bytes
    harmless: ClassVar[bool] = False

    def apply(self, body: bytes) -> Iterator[bytes]:
        events = [*_events_up_to(body, self.n - 1 if self.n else None)]
        events.insert(self.n, self.event)
        yield join_events(body, events)


@dataclass(frozen=True, slots=True)
class LineEnds:
    """Every line ends so."""

    end: LineEnd
    harmless: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.end not in get_args(LineEnd):
            raise ConfigurationError(f"a line ends with CR LF, CR or LF, not {self.end!r}")

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "line ends")
        yield body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", self.end.encode())


@dataclass(frozen=True, slots=True)
class Bom:
    """A byte order mark stands at the start, as some servers on Windows send it."""

    harmless: ClassVar[bool] = True

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "a byte order mark")
        yield BOM + body


@dataclass(frozen=True, slots=True)
class Comments:
    """Lines that say nothing stand before every line: comments in server-sent events, blank ones in JSON."""

    harmless: ClassVar[bool] = True

    def apply(self, body: bytes) -> Iterator[bytes]:
        require_text(body, "comments")
        silent = b":\n" if detect_framing(body) is Framing.SSE else b"\n"
        yield b"".join(silent + line for line in split_lines(body))


@dataclass(frozen=True, slots=True)
class Chain:
    """Several plans, one after the other: each but the last must be of those that break nothing off."""

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
                raise ConfigurationError(f"{plan} breaks the reply off: it can only be the last of a chain") from None
        return last.apply(body)


def _events_up_to(body: bytes, last: int | None) -> list[bytes]:
    """The body's events. Raises ConfigurationError where there is none of that number."""
    events = split_events(body)
    if last is not None and not 0 <= last < len(events):
        raise ConfigurationError(f"the stream has {len(events)} events, counted from 0: there is no event {last}")
    return events


def _check_offset(place: int, last: int) -> None:
    """A plan that does nothing would make a test that says nothing. Raises ConfigurationError."""
    if not 0 <= place <= last:
        raise ConfigurationError(f"the body has no byte {place}: they are counted from 0 to {last}")


def _non_empty(chunk: bytes) -> Iterator[bytes]:
    if chunk:
        yield chunk
