"""Ids and times that are the same in every run, so that tests can compare whole objects."""

import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from typing import Any
from unittest.mock import patch

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import UlidFactory, format_ulid

START = datetime(2026, 1, 1, tzinfo=UTC)
"""The default start of the clock."""

_RANDOM_BITS = 80


@dataclass(slots=True)
class Clock:
    """A clock that advances by ``step`` on each read. ``tick`` advances it, and ``now`` may be set.

    Pass the instance as ``clock=`` of a session, a store or a router.
    """

    now: datetime = START
    step: timedelta = timedelta(milliseconds=1)

    def __call__(self) -> datetime:
        current = self.now
        self.now += self.step
        return current

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(slots=True)
class Deterministic:
    """``clock`` and ``new_id`` can be passed to sessions and contexts. Everything else uses them automatically."""

    clock: Clock
    _numbers: Iterator[int]

    def new_id(self) -> str:
        """Return a ULID with the clock's time and a counter, so that ids sort in order of creation."""
        milliseconds = (self.clock.now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        return format_ulid((milliseconds << _RANDOM_BITS) | next(self._numbers))


_CLOCKED_MODULES = (
    "canonical.ids", "canonical.message_fields", "canonical.extensions.slots",
    "policy.labels", "events.bus", "routing.router", "store.store",
)  # fmt: skip
"""Modules that read the current time unless they are given a clock."""
_ALWAYS_LOADED = 3
"""The first three are imported here. The others have more dependencies and count only if they are loaded."""

_active = threading.Lock()


@contextmanager
def deterministic(
    start: datetime = START, *, step: timedelta = timedelta(milliseconds=1)
) -> Generator[Deterministic, None, None]:
    """Make ids and ``created_at`` deterministic: the same program creates the same messages.

    Ids are ULIDs that count up. The clock starts at ``start`` and advances by ``step`` on each read. This applies to
    all threads, and to everything in this library without its own clock or ids. Waits between retries, measured
    latencies and prices, which depend on the date, do not change. Pass ``clock=`` to a store, a router or a bus that is
    imported later. Raises ConfigurationError if ``start`` has no time zone, or if the call is nested in another one.
    """
    if start.tzinfo is None:
        raise ConfigurationError("start needs a time zone, e.g. datetime(2026, 1, 1, tzinfo=timezone.utc)")
    if not _active.acquire(blocking=False):
        raise ConfigurationError("ids and time are deterministic already: deterministic() cannot be nested")
    source = Deterministic(Clock(start.astimezone(UTC), step), count(1))

    class Clocked(datetime):
        """Replaces ``datetime`` in the clocked modules. Only ``now`` differs."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return source.clock().astimezone(tz)

    with ExitStack() as replaced:
        replaced.callback(_active.release)
        # On the class, so that existing factories change too.
        replaced.enter_context(patch.object(UlidFactory, "__call__", lambda _: source.new_id()))
        for number, name in enumerate(_CLOCKED_MODULES):
            if number < _ALWAYS_LOADED or f"dragoman.{name}" in sys.modules:
                replaced.enter_context(patch.object(import_module(f"dragoman.{name}"), "datetime", Clocked))
        yield source
