"""Limits on the requests and tokens that a program sends to its providers, in one process or over many."""

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Literal

from dragoman.adapter.errors import ConfigurationError, OverloadedError, ProviderError, RateLimitError
from dragoman.adapter.replies.rate_limit_headers import read_remaining
from dragoman.canonical.log import get_logger
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import Observe, Perform, SendOutcome
from dragoman.limits.limit import Adjustment, Bucket, ClaimResult, Limit, LocalCounters, Notice
from dragoman.limits.redis_counters import RedisCounters
from dragoman.limits.reservation import (
    LimitReachedError,
    LimitsUnavailableError,
    MaxUsage,
    MeasureUsage,
    Reservation,
    charged_use,
    was_sent,
)
from dragoman.transport.retry import Timing

logger = get_logger("dragoman.limits")

_MAX_PAUSE = 3600.0
"""Seconds. A longer pause that a provider asks for is cut to this."""
_ROUNDING_US = 1_000
"""Microseconds that do not count as a wait: times are rounded up, which must not delay a burst."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Permission for a request to start ``wait`` seconds after it was reserved. ``tokens`` are reserved for it.

    ``at`` is its start time, in microseconds of the counters' clock: the server's or this process's.
    """

    model: str
    """The model of the request, as ``provider:name``."""
    tokens: int
    wait: float
    at: int
    reserved: tuple[tuple[Bucket, int], ...] = ()
    """What was taken from each counter, which `Limits.settle` corrects."""


class Limits:
    """Several limits, each a `Limit`, with their counters. Share one object among all sessions, threads and event
    loops.

    Without a ``url`` the counters are in this process. With ``redis://…`` or ``valkey://…`` (extra
    ``dragoman[redis]``), all processes with the same server and the same ``name`` share them, by the server's clock.
    ``max_wait`` is the longest wait of a request, in seconds. ``reply_tokens`` is the expected size of a reply
    if its request sets no ``max_output_tokens``; None means the most that the model writes.
    """

    def __init__(
        self,
        limits: Iterable[Limit] | Limit,
        *,
        url: str | None = None,
        name: str = "dragoman",
        max_wait: float = 60.0,
        reply_tokens: int | None = None,
        timing: Timing | None = None,
    ) -> None:
        if not max_wait >= 0:
            raise ConfigurationError("max_wait must be a number of seconds, at least 0")
        self.limits = (limits,) if isinstance(limits, Limit) else tuple(limits)
        """The limits, in the order in which they were given."""
        self.max_wait = max_wait
        self.reply_tokens = reply_tokens
        self._timing = timing or Timing()
        self._counters = LocalCounters(self._timing.clock) if url is None else RedisCounters(url, name)

    def with_limits(self, limits: Iterable[Limit] | Limit, *, name: str) -> "Limits":
        """Return other limits with counters of their own under that name. They wait as long as these, and use the same
        connections, which closing these closes: for a program with limits for each of its users.
        """
        other = copy(self)
        other.limits = (limits,) if isinstance(limits, Limit) else tuple(limits)
        other._counters = self._counters.with_name(name)
        return other

    @property
    def is_local(self) -> bool:
        """Whether the counters are in this process, so that no call here waits for a network."""
        return isinstance(self._counters, LocalCounters)

    def expected_output(self, use: MaxUsage) -> int:
        """Return the expected tokens of a reply, alternatives included."""
        return use.expected_output(self.reply_tokens)

    def reserve(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Reserve what a request needs of every matching limit, or nothing; do not wait.

        If a limit is smaller than input and output together, all of it is reserved; the rest of the reply is counted by
        `settle`. Raises LimitReachedError if the request would wait longer than ``max_wait``, or if its input alone is
        larger than a limit. Raises LimitsUnavailableError.
        """
        reserved = self._required_amounts(model, input_tokens, output_tokens)
        if not reserved:
            return Grant(model, 0, 0.0, 0)
        claims = [bucket.claim(count) for bucket, count in reserved]
        return self._to_grant(model, reserved, self._counters.claim(claims, self._max_wait_us))

    async def reserve_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `reserve` does, without blocking the event loop."""
        reserved = self._required_amounts(model, input_tokens, output_tokens)
        if not reserved:
            return Grant(model, 0, 0.0, 0)
        claims = [bucket.claim(count) for bucket, count in reserved]
        return self._to_grant(model, reserved, await self._counters.claim_async(claims, self._max_wait_us))

    def acquire(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `reserve` does, then wait until the request may start. If the wait is interrupted, the grant is
        released."""
        grant = self.reserve(model, input_tokens, output_tokens)
        if grant.wait > 0:
            try:
                self._timing.sleep(grant.wait)
            except BaseException:
                self.release(grant)
                raise
        return grant

    async def acquire_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `acquire` does, without blocking the event loop."""
        grant = await self.reserve_async(model, input_tokens, output_tokens)
        if grant.wait > 0:
            try:
                await self._timing.sleep_async(grant.wait)
            except BaseException:
                await self.release_async(grant)
                raise
        return grant

    def settle(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        """Replace what was reserved by what was used: the tokens of a reply (None for no reply), and the number of
        requests. Call it once for each grant.

        Return whether it was counted. The request was sent, and its reply matters more than its count: if the counters
        cannot be reached, that is only logged.
        """
        try:
            if adjustments := _adjustments(grant, usage, requests):
                self._counters.settle(adjustments, grant.at)
        except LimitsUnavailableError as error:
            return _log_uncounted(error)
        return True

    async def settle_async(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        """Do what `settle` does, without blocking the event loop."""
        try:
            if adjustments := _adjustments(grant, usage, requests):
                await self._counters.settle_async(adjustments, grant.at)
        except LimitsUnavailableError as error:
            return _log_uncounted(error)
        return True

    def release(self, grant: Grant) -> None:
        """Release the grant of a request that was never sent."""
        self.settle(grant, None, requests=0)

    async def release_async(self, grant: Grant) -> None:
        """Do what `release` does, without blocking the event loop."""
        await self.settle_async(grant, None, requests=0)

    def observe(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> None:
        """Apply what a provider reports: the remaining amount in the headers of a reply, or a rate-limit error with the
        time to wait. This only ever delays requests. If the counters cannot be reached, that is only logged."""
        if notices := self._read_notices(model, headers_or_error):
            try:
                self._counters.apply_notices(notices)
            except LimitsUnavailableError as error:
                _log_uncounted(error)

    async def observe_async(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> None:
        """Do what `observe` does, without blocking the event loop."""
        if notices := self._read_notices(model, headers_or_error):
            try:
                await self._counters.apply_notices_async(notices)
            except LimitsUnavailableError as error:
                _log_uncounted(error)

    def close(self) -> None:
        """Close the connections of sync calls; a later call opens new ones."""
        self._counters.close()

    async def close_async(self) -> None:
        """Close the connections of sync calls and of this event loop."""
        await self._counters.close_async()

    @property
    def _max_wait_us(self) -> int:
        return int(min(self.max_wait, 1e9) * 1_000_000) + _ROUNDING_US

    def _required_amounts(self, model: str, input_tokens: int, output_tokens: int) -> tuple[tuple[Bucket, int], ...]:
        reserved = []
        for bucket in self._buckets(model):
            if bucket.unit == "tokens" and input_tokens > bucket.amount:
                raise LimitReachedError(
                    f"the limit is {bucket}, and the request alone has about {input_tokens:,}, so it never fits",
                    provider=model.partition(":")[0],
                    model=model,
                )
            reserved.append(
                (bucket, 1 if bucket.unit == "requests" else min(input_tokens + output_tokens, bucket.amount))
            )
        return tuple(reserved)

    def _buckets(self, model: str) -> Iterable[Bucket]:
        return (bucket for limit in self.limits if limit.matches(model) for bucket in limit.buckets(model))

    def _to_grant(self, model: str, reserved: Sequence[tuple[Bucket, int]], result: ClaimResult) -> Grant:
        wait = result.wait / 1_000_000 if result.wait > _ROUNDING_US else 0.0
        if not result.granted:
            raise LimitReachedError(
                f"the limit of {reserved[result.blocking][0]} is reached, and nothing was sent: come back later, or let"
                " requests wait for longer (max_wait)",
                provider=model.partition(":")[0],
                model=model,
                retry_after=wait,
            )
        tokens = max((count for bucket, count in reserved if bucket.unit == "tokens"), default=0)
        return Grant(model, tokens, wait, result.at, tuple(reserved))

    def _read_notices(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> list[Notice]:
        if isinstance(headers_or_error, ProviderError):
            return self._rate_limit_notices(model, headers_or_error)
        available = read_remaining(headers_or_error)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst - available[bucket.unit]), 0, bucket.period)
            for bucket in self._buckets(model)
            if available.get(bucket.unit, bucket.burst) < bucket.burst
        ]

    def _rate_limit_notices(self, model: str, error: ProviderError) -> list[Notice]:
        if not isinstance(error, RateLimitError) or isinstance(error, LimitReachedError):
            return []
        retry_after = error.retry_after
        if isinstance(error, OverloadedError) and retry_after is None:  # it does not concern this program's own limit
            return []
        pause = int(min(retry_after or 0.0, _MAX_PAUSE) * 1_000_000)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst), pause, bucket.period) for bucket in self._buckets(model)
        ]


def _log_uncounted(error: LimitsUnavailableError) -> Literal[False]:
    logger.warning("the limits could not count a request: %s", error)
    return False


def _adjustments(grant: Grant, usage: TokenUsage | None, requests: int) -> list[Adjustment]:
    adjustments = []
    for bucket, count in grant.reserved:
        used = requests
        if bucket.unit == "tokens":
            used = 0 if usage is None else usage.total_tokens
            used -= 0 if usage is None or bucket.limit.count_cached else usage.cached_input_tokens
        if used != count:
            adjustments.append(Adjustment(bucket.claim(count), bucket.time_for(used - count)))
    return adjustments


@dataclass(frozen=True, slots=True)
class LimitGovernor:
    """``model`` is the one that is asked, as ``provider:name``."""

    limits: Limits
    model: str

    def reserve(self, measure: MeasureUsage) -> Perform:
        """Return the effect that waits for the limits. Raises LimitReachedError and LimitsUnavailableError."""
        use = measure()
        return Perform(partial(self._acquire, use), partial(self._acquire_async, use))

    def _acquire(self, use: MaxUsage) -> "LimitReservation":
        tokens, output = use.input.total_tokens, self.limits.expected_output(use)
        return LimitReservation(self, tokens, self.limits.acquire(self.model, tokens, output))

    async def _acquire_async(self, use: MaxUsage) -> "LimitReservation":
        tokens, output = use.input.total_tokens, self.limits.expected_output(use)
        return LimitReservation(self, tokens, await self.limits.acquire_async(self.model, tokens, output))


class LimitReservation(Reservation):
    """The place of one request among all, with the tokens that it may use."""

    def __init__(self, governor: LimitGovernor, input_tokens: int, grant: Grant) -> None:
        limits, model = governor.limits, governor.model
        self._limits, self._input_tokens, self._grant = limits, input_tokens, grant
        self.observe: Observe = lambda reported: Perform(
            partial(limits.observe, model, reported), partial(limits.observe_async, model, reported)
        )

    def settle(self, outcome: SendOutcome) -> Perform:
        used = charged_use(outcome, lambda: TokenUsage(input_tokens=self._input_tokens))
        requests = int(was_sent(outcome))
        return Perform(
            partial(self._limits.settle, self._grant, used, requests=requests),
            partial(self._limits.settle_async, self._grant, used, requests=requests),
        )
