"""Limits as a program declares them, and what a request takes of each.

A limit of L in a period T allows a burst of B, and then one more every T / (L - B + 1). So no span of length T, its end
excluded, ever contains more than L. A request larger than B needs idle time before it: it waits until the bucket was
free for the time that the excess takes.

This is the generic cell rate algorithm (GCRA): ``booked_until`` is its theoretical arrival time.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.replies.rate_limit_headers import Unit
from dragoman.canonical.forks import ProcessLock
from dragoman.effects import Perform, call

_MICROSECONDS = 1_000_000
_MAX_PATTERN = 1_024
_MAX_SECONDS = 366 * 86_400.0
_ENTRIES_BEFORE_CLEANUP = 10_000
"""With so many buckets, the expired ones are removed before another is added."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit of ``requests``, ``tokens``, or both, in ``seconds``.

    ``models`` is a glob such as ``anthropic:*`` over ``provider:model``. Each matching model has a counter of its own,
    unless the limit is ``shared`` by all of them. ``burst`` is the share that may be used at once: the larger it is,
    the slower is what follows. Tokens are those of the prompt and the reply; ``count_cached=False`` leaves out what the
    provider read from its cache, as some providers' own limits do.

    Raises ConfigurationError if it limits nothing, or if an amount is not above 0.
    """

    models: str = "*"
    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0
    shared: bool = False
    burst: float = 0.1
    count_cached: bool = True
    """Whether tokens that the provider read from its cache count."""

    def __post_init__(self) -> None:
        if self.requests is None and self.tokens is None:
            raise ConfigurationError("a limit needs a number of requests, of tokens, or of both")
        if len(self.models) > _MAX_PATTERN:
            raise ConfigurationError(f"the models of a limit are a pattern of at most {_MAX_PATTERN} characters")
        for amount in (self.requests, self.tokens):
            if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int) or amount < 1):
                raise ConfigurationError(f"a limit must be a whole number of at least 1, not {amount!r:.40}")
        if not 0 < self.seconds <= _MAX_SECONDS:
            raise ConfigurationError("the seconds of a limit must be more than 0, and at most a year")
        if not 0 < self.burst <= 1:
            raise ConfigurationError("burst is a share of the limit: more than 0, and at most 1")

    def matches(self, model: str) -> bool:
        """Return whether the limit counts requests to this model, given as ``provider:name``."""
        return fnmatchcase(model, self.models)

    def buckets(self, model: str) -> "Iterator[Bucket]":
        """Yield the buckets of that model."""
        scope = "*" if self.shared else model
        amounts: tuple[tuple[Unit, int | None], ...] = (("requests", self.requests), ("tokens", self.tokens))
        for unit, amount in amounts:
            if amount is not None:
                yield Bucket(self, unit, amount, f"{self.models}|{self.seconds:g}|{scope}|{unit}")


@dataclass(frozen=True, slots=True)
class Bucket:
    """One counter of a limit. ``key`` is the same in every process with the same limit. Times are microseconds."""

    limit: Limit
    unit: Unit
    amount: int
    key: str

    @property
    def period(self) -> int:
        return max(1, math.ceil(self.limit.seconds * _MICROSECONDS))

    @property
    def burst_count(self) -> int:
        """How many may be used at once."""
        return max(1, math.floor(self.amount * self.limit.burst))

    def time_for(self, count: int) -> int:
        """Return the time that ``count`` takes at the steady rate, rounded up; negative for a negative count."""
        return -((-count * self.period) // (self.amount - self.burst_count + 1))

    def claim(self, count: int) -> "Claim":
        return Claim(self.key, self.time_for(count), self.time_for(count - self.burst_count), self.period)

    def __str__(self) -> str:
        scope = self.limit.models if self.limit.shared else f"each of {self.limit.models}"
        return f"{self.amount:,} {self.unit} in {self.limit.seconds:g} s for {scope}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The share of one bucket that a request needs, in microseconds.

    ``cost``: the time that it books. ``gap``: the minimum time from the end of earlier bookings to its start; negative
    within the burst: it may start so long before their end. ``period``: how long the bucket is kept.
    """

    key: str
    cost: int
    gap: int
    period: int


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
    """The bucket is booked until ``booked_until``, None if only a pause is known; the last request starts at
    ``last_start``; no request starts before ``paused_until``. From ``expires_at`` on, the state can be dropped."""

    booked_until: int | None = None
    last_start: int = 0
    paused_until: int = 0
    expires_at: int = 0


class LocalCounters:
    """Thread-safe. ``clock`` counts seconds. Calls are effects, as those of counters in Redis are."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = ProcessLock()
        self._states: dict[str, BucketState] = {}

    def claim(self, claims: Sequence[Claim], max_wait_us: int) -> Perform:
        """Book all buckets, or none if the wait would exceed ``max_wait_us``. The outcome is a `ClaimResult`."""
        return call(self._claim, claims, max_wait_us)

    def settle(self, adjustments: Sequence[Adjustment], at: int) -> Perform:
        """Replace the claimed time by the used time, for a request that started at ``at``.

        If less was used, the bucket gets time back, but not the time between that start and the last start of any
        request: no request can start in the past.
        """
        return call(self._settle, adjustments, at)

    def apply_notices(self, notices: Sequence[Notice]) -> Perform:
        """Apply what providers report. This only ever delays requests."""
        return call(self._apply_notices, notices)

    def _claim(self, claims: Sequence[Claim], max_wait_us: int) -> ClaimResult:
        with self._lock:
            now = at = self._now()
            blocking = 0
            for index, claim in enumerate(claims):
                state = self._states.get(claim.key)
                if state is None:
                    continue
                earliest = state.paused_until
                if state.booked_until is not None:
                    earliest = max(earliest, state.booked_until + claim.gap)
                if earliest > at:
                    at, blocking = earliest, index
            if at - now > max_wait_us:
                return ClaimResult(False, at, at - now, blocking)
            for claim in claims:
                state = self._state(claim.key, now)
                start = at if state.booked_until is None else max(at, state.booked_until)
                state.booked_until = start + claim.cost
                state.last_start = max(state.last_start, at)
                self._extend_expiry(state, now, claim.period)
            return ClaimResult(True, at, at - now, blocking)

    def _settle(self, adjustments: Sequence[Adjustment], at: int) -> None:
        with self._lock:
            now = self._now()
            for claim, delta in adjustments:
                state = self._state(claim.key, now)
                booked = state.booked_until
                if booked is None:  # the state was dropped since the claim
                    booked = at + claim.cost
                if delta > 0:
                    state.booked_until = booked + delta
                else:
                    elapsed = max(0, state.last_start - at)
                    state.booked_until = booked - max(0, -delta - elapsed)
                self._extend_expiry(state, now, claim.period)

    def _apply_notices(self, notices: Sequence[Notice]) -> None:
        with self._lock:
            now = self._now()
            for key, taken, pause, period in notices:
                state = self._state(key, now)
                if taken is not None and (state.booked_until is None or state.booked_until < now + taken):
                    state.booked_until = now + taken
                if pause > 0:
                    state.paused_until = max(state.paused_until, now + pause)
                self._extend_expiry(state, now, period)

    def with_name(self, name: str) -> "LocalCounters":
        """Return other counters. A name separates counters on a server; in a process, each object has its own."""
        return LocalCounters(self._clock)

    def close(self) -> None:
        """Close nothing: there are no connections."""

    async def close_async(self) -> None:
        """Do what `close` does."""

    def _now(self) -> int:
        return int(self._clock() * _MICROSECONDS)

    def _state(self, key: str, now: int) -> BucketState:
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= _ENTRIES_BEFORE_CLEANUP:
                self._states = {key: state for key, state in self._states.items() if state.expires_at > now}
            found = self._states[key] = BucketState()
        return found

    @staticmethod
    def _extend_expiry(state: BucketState, now: int, period: int) -> None:
        """Extend the time for which a bucket is kept: one that was idle for a whole period can be dropped."""
        state.expires_at = max(state.booked_until or now, state.paused_until, now) + period
