"""The counts of one process, by the generic cell rate algorithm: one moment a bucket, up to which it is taken.

A request is told at once when it may start, and that moment is taken from then on: so requests start in the order in
which they asked, nobody polls, and nobody starves. `claim.lua` and its neighbours do the same in Redis.
"""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakSet

from dragoman.limits.limit import Claim

_MOST_REMEMBERED = 10_000


class Answer(NamedTuple):
    """``at``: when the request may start, in microseconds of the counts' clock. ``wait``: how long that is from now.
    ``decisive``: which claim made it wait. Nothing is taken where it is not ``granted``."""

    granted: bool
    at: int
    wait: int
    decisive: int


class Change(NamedTuple):
    """What a request really took of a bucket: so much more than it had claimed, or less."""

    claim: Claim
    more: int


class Notice(NamedTuple):
    """What a provider says of a bucket: it is taken for at least that long from now; nothing starts for that long."""

    key: str
    taken: int | None
    pause: int
    period: int


@dataclass(slots=True)
class Count:
    """``taken`` is the moment up to which the bucket is taken; ``last`` when the last request starts; until ``shut``
    nothing starts."""

    taken: int | None = None
    last: int = 0
    shut: int = 0
    forgotten: int = 0


class Counts:
    """Threads may share one. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts: dict[str, Count] = {}
        _all.add(self)

    def claim(self, claims: Sequence[Claim], most_wait: int) -> Answer:
        """Takes from all buckets, or from none where the wait would be longer."""
        with self._lock:
            now = at = self._now()
            decisive = 0
            for place, claim in enumerate(claims):
                count = self._counts.get(claim.key)
                if count is None:
                    continue
                due = max(count.shut, at if count.taken is None else count.taken + claim.slack)
                if due > at:
                    at, decisive = due, place
            if at - now > most_wait:
                return Answer(False, at, at - now, decisive)
            for claim in claims:
                count = self._count(claim.key, now)
                count.taken = (at if count.taken is None else max(at, count.taken)) + claim.cost
                count.last = max(count.last, at)
                self._remember(count, now, claim.period)
            return Answer(True, at, at - now, decisive)

    def settle(self, changes: Sequence[Change], at: int) -> None:
        """Puts what was taken in the place of what was claimed for a request that started ``at`` that moment.

        What is given back is cut by the time between that start and the last one: a gap that this may have left
        cannot be used any more.
        """
        with self._lock:
            now = self._now()
            for claim, more in changes:
                count = self._count(claim.key, now)
                taken = at + claim.cost if count.taken is None else count.taken
                count.taken = taken + more if more > 0 else taken - max(0, -more - max(0, count.last - at))
                self._remember(count, now, claim.period)

    def notice(self, notices: Sequence[Notice]) -> None:
        """Never makes room, only takes it."""
        with self._lock:
            now = self._now()
            for key, taken, pause, period in notices:
                count = self._count(key, now)
                if taken is not None:
                    count.taken = now + taken if count.taken is None else max(count.taken, now + taken)
                if pause > 0:
                    count.shut = max(count.shut, now + pause)
                self._remember(count, now, period)

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    def _count(self, key: str, now: int) -> Count:
        found = self._counts.get(key)
        if found is None:
            if len(self._counts) >= _MOST_REMEMBERED:
                self._counts = {key: count for key, count in self._counts.items() if count.forgotten > now}
            found = self._counts[key] = Count()
        return found

    @staticmethod
    def _remember(count: Count, now: int, period: int) -> None:
        """After a whole period in which nothing was taken, a bucket is as good as new."""
        count.forgotten = max(count.taken or now, count.shut, now) + period

    def after_fork(self) -> None:
        """For a child process: another thread of its parent may have held the lock."""
        self._lock = threading.Lock()


_all: WeakSet[Counts] = WeakSet()


def _after_fork() -> None:
    for counts in list(_all):
        counts.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which never forks
    os.register_at_fork(after_in_child=_after_fork)
