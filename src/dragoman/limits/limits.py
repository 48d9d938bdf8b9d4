"""Limits on the requests and tokens that a program sends to its providers, in one process or over many."""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial

from dragoman.adapter.errors import ConfigurationError, OverloadedError, ProviderError, RateLimitError
from dragoman.adapter.replies.rate_limit_headers import read_remaining
from dragoman.canonical.log import get_logger
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import Observe, Perform, SendOutcome, Work, drive, drive_async, perform_all
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
        return drive(self._reserve(model, input_tokens, output_tokens))

    async def reserve_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `reserve` does, without blocking the event loop."""
        return await drive_async(self._reserve(model, input_tokens, output_tokens))

    def acquire(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `reserve` does, then wait until the request may start. If the wait is interrupted, the grant is
        released."""
        return drive(self._acquire(model, input_tokens, output_tokens))

    async def acquire_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Do what `acquire` does, without blocking the event loop."""
        return await drive_async(self._acquire(model, input_tokens, output_tokens))

    def settle(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        """Replace what was reserved by what was used: the tokens of a reply (None for no reply), and the number of
        requests. Call it once for each grant.

        Return whether it was counted. The request was sent, and its reply matters more than its count: if the counters
        cannot be reached, that is only logged.
        """
        return drive(self._settle(grant, usage, requests))

    async def settle_async(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> bool:
        """Do what `settle` does, without blocking the event loop."""
        return await drive_async(self._settle(grant, usage, requests))

    def release(self, grant: Grant) -> None:
        """Release the grant of a request that was never sent."""
        self.settle(grant, None, requests=0)

    async def release_async(self, grant: Grant) -> None:
        """Do what `release` does, without blocking the event loop."""
        await self.settle_async(grant, None, requests=0)

    def observe(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> None:
        """Apply what a provider reports: the remaining amount in the headers of a reply, or a rate-limit error with the
        time to wait. This only ever delays requests. If the counters cannot be reached, that is only logged."""
        drive(self._observe(model, headers_or_error))

    async def observe_async(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> None:
        """Do what `observe` does, without blocking the event loop."""
        await drive_async(self._observe(model, headers_or_error))

    def close(self) -> None:
        """Close the connections of sync calls; a later call opens new ones."""
        self._counters.close()

    async def close_async(self) -> None:
        """Close the connections of sync calls and of this event loop."""
        await self._counters.close_async()

    def _reserve(self, model: str, input_tokens: int, output_tokens: int) -> Work[Grant]:
        reserved: list[tuple[Bucket, int]] = []
        for bucket in self._buckets(model):
            if bucket.unit == "tokens" and input_tokens > bucket.amount:
                raise LimitReachedError(
                    f"the limit is {bucket}, and the request alone has about {input_tokens:,}, so it never fits",
                    provider=model.partition(":")[0],
                    model=model,
                )
            count = 1 if bucket.unit == "requests" else min(input_tokens + output_tokens, bucket.amount)
            reserved.append((bucket, count))
        if not reserved:
            return Grant(model, 0, 0.0, 0)
        max_wait_us = int(min(self.max_wait, 1e9) * 1_000_000) + _ROUNDING_US
        claims = [bucket.claim(count) for bucket, count in reserved]
        result: ClaimResult = yield self._counters.claim(claims, max_wait_us)
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

    def _acquire(self, model: str, input_tokens: int, output_tokens: int) -> Work[Grant]:
        reserve = partial(self.reserve, model, input_tokens, output_tokens)
        grant: Grant = yield Perform(reserve, partial(self.reserve_async, model, input_tokens, output_tokens))
        if grant.wait > 0:
            sleep, sleep_async = self._timing.sleep, self._timing.sleep_async
            try:
                yield Perform(partial(sleep, grant.wait), partial(sleep_async, grant.wait))
            except BaseException:
                yield Perform(partial(self.release, grant), partial(self.release_async, grant))
                raise
        return grant

    def _settle(self, grant: Grant, usage: TokenUsage | None, requests: int) -> Work[bool]:
        adjustments = []
        for bucket, count in grant.reserved:
            used = requests
            if bucket.unit == "tokens":
                used = 0 if usage is None else usage.total_tokens
                used -= 0 if usage is None or bucket.limit.count_cached else usage.cached_input_tokens
            if used != count:
                adjustments.append(Adjustment(bucket.claim(count), bucket.time_for(used - count)))
        return _count(self._counters.settle(adjustments, grant.at) if adjustments else None)

    def _observe(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> Work[bool]:
        notices = self._read_notices(model, headers_or_error)
        return _count(self._counters.apply_notices(notices) if notices else None)

    def _buckets(self, model: str) -> Iterable[Bucket]:
        return (bucket for limit in self.limits if limit.matches(model) for bucket in limit.buckets(model))

    def _read_notices(self, model: str, headers_or_error: Mapping[str, str] | ProviderError) -> list[Notice]:
        if isinstance(headers_or_error, ProviderError):
            return self._rate_limit_notices(model, headers_or_error)
        available = read_remaining(headers_or_error)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst_count - available[bucket.unit]), 0, bucket.period)
            for bucket in self._buckets(model)
            if available.get(bucket.unit, bucket.burst_count) < bucket.burst_count
        ]

    def _rate_limit_notices(self, model: str, error: ProviderError) -> list[Notice]:
        if not isinstance(error, RateLimitError) or isinstance(error, LimitReachedError):
            return []
        retry_after = error.retry_after
        if isinstance(error, OverloadedError) and retry_after is None:  # it does not concern this program's own limit
            return []
        pause = int(min(retry_after or 0.0, _MAX_PAUSE) * 1_000_000)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst_count), pause, bucket.period)
            for bucket in self._buckets(model)
        ]


def _count(change: Perform | None) -> Work[bool]:
    """Change the counters, and return whether that was possible."""
    try:
        if change is not None:
            yield change
    except LimitsUnavailableError as error:
        logger.warning("the limits could not count a request: %s", error)
        return False
    return True


@dataclass(frozen=True, slots=True)
class LimitGovernor:
    """``model`` is the one that is asked, as ``provider:name``."""

    limits: Limits
    model: str

    def reserve(self, measure: MeasureUsage) -> Perform:
        """Return the effect that waits for the limits. Raises LimitReachedError and LimitsUnavailableError."""
        return perform_all(self._acquire(measure()))

    def _acquire(self, use: MaxUsage) -> "Work[LimitReservation]":
        limits, tokens = self.limits, use.input.total_tokens
        asked = self.model, tokens, limits.expected_output(use)
        grant: Grant = yield Perform(partial(limits.acquire, *asked), partial(limits.acquire_async, *asked))
        return LimitReservation(self, tokens, grant)


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
