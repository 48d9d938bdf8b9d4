"""Decides whether to retry a request, and how long to wait first. No I/O.

A retry can be a second paid generation, so there are few: three attempts in all by default, none beyond the caller's
time limit, none once any part of a reply was delivered, and none while the provider's retry quota is used up, as it is
when most calls fail.
"""

import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Self

from dragoman.adapter.errors import ProviderError, RateLimitError
from dragoman.adapter.wire import AttemptRecord
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.ids import utc_now
from dragoman.canonical.log import get_logger
from dragoman.effects import Broken, Failed

MIN_SECONDS = 0.001
"""A time limit of 0 would mean no waiting at all, and its error another reason."""


class TimeLeft(float):
    """A time limit in seconds that shrinks as time passes: a float for httpx, and the rest of the call for us.

    ``maximum`` limits one operation.
    """

    retry_state: "RetryState"
    maximum: float

    def __new__(cls, retry_state: "RetryState", maximum: float = math.inf) -> Self:
        limit = super().__new__(cls, max(min(retry_state.remaining, maximum), MIN_SECONDS))
        limit.retry_state, limit.maximum = retry_state, maximum
        return limit


def seconds_of(timeout: float | None) -> float | None:
    """Return the seconds of a time limit at this moment."""
    if not isinstance(timeout, TimeLeft):
        return timeout
    return max(min(timeout.retry_state.remaining, timeout.maximum), MIN_SECONDS)


_log = get_logger("dragoman.transport")

_MAX_PLAUSIBLE_WAIT = 86_400.0
"""Seconds. Longer waits are ignored: they come from broken clocks or hostile servers."""
_last_retry: ContextVar[float] = ContextVar("last_retry", default=math.inf)
"""The time of `time.monotonic` after which requests of this task are not retried."""


def retry_within(seconds: float) -> None:
    """Let each request of this task begin its retries within that time from now; math.inf ends the limit.

    It holds for all models and places that are asked for one answer. A wait that does not fit is not begun, and the
    error says how long it is: whoever waits for the answer may have less patience than the retry policy.
    """
    _last_retry.set(time.monotonic() + seconds)


async def _sleep_async(seconds: float) -> None:
    import asyncio  # Sync programs do not need it.

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Timing:
    """Time and randomness of a transport; tests replace them. ``clock`` returns seconds."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], datetime] = utc_now
    """Returns the time of day in UTC, for dates in headers."""
    roll: Callable[[], float] = random.random
    """A number from 0 up to, not including, 1."""
    sleep: Callable[[float], None] = time.sleep
    """Blocks for so many seconds."""
    sleep_async: Callable[[float], Awaitable[None]] = _sleep_async
    """Waits for so many seconds, without blocking the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The number of retries and their waits. All times are seconds.

    A wait that the provider requests is kept up to ``max_retry_after``; a longer one ends the attempts.
    """

    max_retries: int = 2
    """Retries after the first attempt; 0 turns them off."""
    initial_wait: float = 1.0
    """The wait before the first retry. Each further wait is twice as long."""
    max_wait: float = 30.0
    """The longest wait that is not requested by the provider."""
    jitter: float = 0.25
    """The random share of a wait, in either direction."""
    max_retry_after: float = 60.0

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ValueError("max_retries must be at least 0")

    def backoff(self, retry: int, roll: float) -> float:
        """Return the wait before retry number ``retry``, from 1; ``roll`` is a random number from 0 to 1."""
        doublings = min(retry - 1, 32)
        factor = 1 + self.jitter * (2 * roll - 1)
        return min(self.max_wait, self.initial_wait * 2.0**doublings * factor)

    def wait(
        self, error: ProviderError, headers: Mapping[str, str], retry: int, *, now: datetime, roll: float
    ) -> float | None:
        """Return the seconds until that retry, or None for no retry.

        The error says whether it is temporary, unless the provider decides with x-should-retry. The wait is in the
        headers, or in the body that the error was read from.
        """
        is_retryable = {"true": True, "false": False}.get(headers.get("x-should-retry", ""), error.retryable)
        if retry > self.max_retries or not is_retryable:
            return None
        from dragoman.adapter.replies.error_context import retry_after  # imported late: few requests fail

        requested = retry_after(headers, now)
        if requested is None:
            requested = error.retry_after
        if requested is None or not 0 < requested <= _MAX_PLAUSIBLE_WAIT:
            return self.backoff(retry, roll)
        return requested if requested <= self.max_retry_after else None


class RetryQuota:
    """A token bucket: retries draw from it and successes refill it, so that an outage does not triple the load.

    The numbers are those of the AWS SDKs' standard mode. Thread-safe.
    """

    CAPACITY = 500
    TRANSIENT_COST = 14
    THROTTLED_COST = 5
    REFUND = 1

    def __init__(self, capacity: int = CAPACITY) -> None:
        self.capacity = capacity
        self.remaining = capacity
        self._lock = ProcessLock()

    def try_spend(self, error: ProviderError) -> bool:
        """Pay for one retry after that error; False, without paying, if too little is left."""
        cost = self.THROTTLED_COST if isinstance(error, RateLimitError) else self.TRANSIENT_COST
        with self._lock:
            if cost > self.remaining:
                return False
            self.remaining -= cost
            return True

    def refund(self) -> None:
        """Take back what one success earns."""
        with self._lock:
            self.remaining = min(self.capacity, self.remaining + self.REFUND)


@dataclass(slots=True)
class RetryState:
    """The attempts of one call, and the time it has left. ``timeout`` is seconds for all of them together."""

    policy: RetryPolicy
    quota: RetryQuota
    timing: Timing
    timeout: float = math.inf
    attempts: tuple[AttemptRecord, ...] = ()
    next_wait: float | None = None
    """Seconds until the next attempt, after a failure; None if there is none."""
    _arrived: bool = False
    """Whether the last attempt is recorded as a success."""
    _deadline: float = field(init=False)
    _last_retry: float = field(init=False)

    def __post_init__(self) -> None:
        now = self.timing.clock()
        self._deadline = now + self.timeout
        self._last_retry = now + _last_retry.get() - time.monotonic()

    @property
    def remaining(self) -> float:
        """Seconds until the time limit, negative after it, infinite without one. Of a reply that has begun to arrive,
        only the silence is limited."""
        return self.timeout if self._arrived else self._deadline - self.timing.clock()

    def record_success(self, status: int) -> None:
        """Record that a reply has arrived, or begun to."""
        if self.quota.remaining < self.quota.capacity:  # seldom
            self.quota.refund()
        self.attempts += (AttemptRecord(len(self.attempts) + 1, status, None),)
        self._arrived = True

    def record_failure(
        self, error: ProviderError, headers: Mapping[str, str], status: int | None = None
    ) -> float | None:
        """Return the seconds until the next attempt, or None if this was the last; the error then lists all attempts.
        ``status`` is that of the reply if the error has none."""
        wait = self.policy.wait(error, headers, len(self.attempts) + 1, now=self.timing.now(), roll=self.timing.roll())
        if wait is not None:
            at = self.timing.clock() + wait
            if at >= self._deadline or at > self._last_retry or not self.quota.try_spend(error):
                wait = None
        self._arrived = False
        status = status if error.status is None else error.status
        self.attempts += (AttemptRecord(len(self.attempts) + 1, status, error.error_class, wait or 0.0),)
        error.attempts, self.next_wait = self.attempts, wait
        if wait is not None:
            _log.info(
                "%s: attempt %d failed (%s, status %s), the next one in %.1f s",
                error.provider, len(self.attempts), error.error_class, error.status, wait,
            )  # fmt: skip
        return wait

    def wait_after(self, outcome: Failed | Broken) -> float | None:
        """Return the seconds until the next attempt; None if there is none. A reply that the caller saw has none."""
        error = outcome.error
        if isinstance(outcome, Broken) and not outcome.seen and isinstance(error, ProviderError):
            status = None
            if self._arrived:  # and is recorded as a success, although it is broken
                self.attempts, status = self.attempts[:-1], self.attempts[-1].status
            self.record_failure(error, {}, status)
        # A decision is for one failure: the next attempt may fail before it is sent, which nothing records.
        wait, self.next_wait = self.next_wait, None
        may_retry = isinstance(error, ProviderError) and not (isinstance(outcome, Broken) and outcome.seen)
        return wait if may_retry else None

    def record_break(self, error: ProviderError) -> None:
        """Record that a reply broke off after it had begun: its attempt failed, and there is no retry."""
        *before, last = self.attempts
        self.attempts = (*before, AttemptRecord(last.number, last.status, error.error_class))
        error.attempts = self.attempts
