"""Ids and time that are the same in every run: what is built in a test can be compared as a whole."""

import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import count
from types import ModuleType
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.ids import UlidFactory, format_ulid

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When time begins, unless it is told."""

_RANDOM_BITS = 80


@dataclass(slots=True)
class Clock:
    """A clock that moves on by ``step`` each time it is read. ``tick`` lets time pass, and ``now`` may be set.

    The instance itself is what ``clock=`` takes of a session, a store or a router.
    """

    now: datetime = START
    step: timedelta = timedelta(milliseconds=1)

    def __call__(self) -> datetime:
        moment = self.now
        self.now += self.step
        return moment

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass(slots=True)
class Deterministic:
    """``clock`` and ``new_id`` are what sessions and contexts take; everything else uses them by itself."""

    clock: Clock
    _numbers: Iterator[int]

    def new_id(self) -> str:
        """A ULID whose time is the clock's and whose rest counts up: the ids sort as they were made."""
        milliseconds = (self.clock.now - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        return format_ulid((milliseconds << _RANDOM_BITS) | next(self._numbers))


_CLOCKED_MODULES = (
    "canonical.message", "canonical.extensions.delegation", "adapter.contract", "session.conversation", "policy.labels",
    "events.bus", "routing.router", "store.store",
)  # fmt: skip
"""Where this library asks for the time of what it makes, unless it was given a clock."""
_ALWAYS_LOADED = 4
"""The first so many of them are loaded for this; of the others, which need more, those that are."""

_active = threading.Lock()


@contextmanager
def deterministic(
    start: datetime = START, *, step: timedelta = timedelta(milliseconds=1)
) -> Generator[Deterministic, None, None]:
    """Until the end of the ``with``, ids are ULIDs that count up and ``created_at`` is a clock's, which begins at
    ``start`` and moves on by ``step`` each time it is read: the same program makes the same messages.

    It holds in all threads, for everything of this library that was given neither a clock nor ids of its own. The
    waiting between retries, latencies that a transport measures, and prices, which depend on the day, stay what they
    are. A store, a router or a bus that is loaded only later takes ``clock=``. Raises ConfigurationError where
    ``start`` has no time zone, and where ids and time are deterministic already: it is not to be nested.
    """
    if start.tzinfo is None:
        raise ConfigurationError("start needs a time zone, e.g. datetime(2026, 1, 1, tzinfo=timezone.utc)")
    if not _active.acquire(blocking=False):
        raise ConfigurationError("ids and time are deterministic already: deterministic() is not to be nested")
    source = Deterministic(Clock(start.astimezone(UTC), step), count(1))

    class Clocked(datetime):
        """The class whose ``now`` the modules ask; all else of it is as ever."""

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return source.clock().astimezone(tz)

    original = UlidFactory.__call__
    clocked: list[ModuleType] = []
    try:
        clocked += _clocked_modules()
        _replace_id_factory(lambda _: source.new_id())
        for module in clocked:
            vars(module)["datetime"] = Clocked
        yield source
    finally:
        _replace_id_factory(original)
        for module in clocked:
            vars(module)["datetime"] = datetime
        _active.release()


def _replace_id_factory(mint: Callable[[UlidFactory], str]) -> None:
    """For whoever holds the factory already as well."""
    setattr(UlidFactory, "__call__", mint)  # noqa: B010 - a method cannot be assigned to for mypy


def _clocked_modules() -> Iterator[ModuleType]:
    for number, name in enumerate(_CLOCKED_MODULES):
        place = f"dragoman.{name}"
        if number < _ALWAYS_LOADED or place in sys.modules:
            yield import_module(place)
