"""The counters of one process, by the generic cell rate algorithm: a bucket stores the time until which it is booked.

Each request gets its start time immediately and that slot is booked. Requests start in order of arrival, without
polling or starvation. `claim.lua`, `settle.lua` and `notice.lua` do the same in Redis.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakSet

from dragoman.canonical.forks import ProcessLock
from dragoman.limits.limit import Claim

_MAX_ENTRIES = 10_000


class ClaimResult(NamedTuple):
    """``at``: when the request may start, in microseconds of the counters' clock. ``wait``: microseconds from now until
    then. ``blocking``: the index of the claim that made it wait. If not ``granted``, nothing is booked."""

    granted: bool
    at: int
    wait: int
    blocking: int


class Adjustment(NamedTuple):
    """``delta``: what a request used of a bucket, minus what it had claimed, in microseconds."""

    claim: Claim
    delta: int


class Notice(NamedTuple):
    """What a provider reports about a bucket, in microseconds from now: it is booked for at least ``taken``, and no
    request starts for ``pause``."""

    key: str
    taken: int | None
    pause: int
    period: int


@dataclass(slots=True)
class BucketState:
    """The bucket is booked until ``booked_until``; the last request starts at ``last_start``; no request starts before
    ``paused_until``."""

    booked_until: int | None = None
    last_start: int = 0
    paused_until: int = 0
    expires_at: int = 0


class LocalCounters:
    """Thread-safe. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = ProcessLock()
        self._states: dict[str, BucketState] = {}
        _all.add(self)

    def claim(self, claims: Sequence[Claim], max_wait_us: int) -> ClaimResult:
        """Book all buckets, or none if the wait would exceed ``max_wait_us``."""
        with self._lock:
            now = at = self._now()
            blocking = 0
            for index, claim in enumerate(claims):
                state = self._states.get(claim.key)
                if state is None:
                    continue
                earliest = max(
                    state.paused_until, at if state.booked_until is None else state.booked_until + claim.slack
                )
                if earliest > at:
                    at, blocking = earliest, index
            if at - now > max_wait_us:
                return ClaimResult(False, at, at - now, blocking)
            for claim in claims:
                state = self._state(claim.key, now)
                state.booked_until = (at if state.booked_until is None else max(at, state.booked_until)) + claim.cost
                state.last_start = max(state.last_start, at)
                self._extend_expiry(state, now, claim.period)
            return ClaimResult(True, at, at - now, blocking)

    def settle(self, adjustments: Sequence[Adjustment], at: int) -> None:
        """Replace the claimed time by the used time, for a request that started at ``at``.

        If less was used, the bucket gets time back, but not the time between that start and the last start of any
        request: no request can start in the past.
        """
        with self._lock:
            now = self._now()
            for claim, delta in adjustments:
                state = self._state(claim.key, now)
                booked = at + claim.cost if state.booked_until is None else state.booked_until
                state.booked_until = (
                    booked + delta if delta > 0 else booked - max(0, -delta - max(0, state.last_start - at))
                )
                self._extend_expiry(state, now, claim.period)

    def apply_notices(self, notices: Sequence[Notice]) -> None:
        """Apply what providers report. This only ever delays requests."""
        with self._lock:
            now = self._now()
            for key, booked, pause, period in notices:
                state = self._state(key, now)
                if booked is not None:
                    state.booked_until = (
                        now + booked if state.booked_until is None else max(state.booked_until, now + booked)
                    )
                if pause > 0:
                    state.paused_until = max(state.paused_until, now + pause)
                self._extend_expiry(state, now, period)

    def _now(self) -> int:
        return int(self._clock() * 1_000_000)

    def _state(self, key: str, now: int) -> BucketState:
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= _MAX_ENTRIES:
                self._states = {key: state for key, state in self._states.items() if state.expires_at > now}
            found = self._states[key] = BucketState()
        return found

    @staticmethod
    def _extend_expiry(state: BucketState, now: int, period: int) -> None:
        """Extend the time for which a bucket is kept: one that was idle for a whole period can be dropped."""
        state.expires_at = max(state.booked_until or now, state.paused_until, now) + period

    def after_fork(self) -> None:
        """Replace the lock in a child process: another thread of the parent may have held it."""
        self._lock = ProcessLock()


_all: WeakSet[LocalCounters] = WeakSet()


def _after_fork() -> None:
    for counters in list(_all):
        counters.after_fork()


if hasattr(os, "register_at_fork"):  # not on Windows, which never forks
    os.register_at_fork(after_in_child=_after_fork)
