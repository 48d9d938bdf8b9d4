"""Limits: how much a program asks of its providers, in one process or over many."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dragoman.adapter.errors import ConfigurationError, OverloadedError, ProviderError, RateLimitError
from dragoman.canonical.usage import TokenUsage
from dragoman.limits.counts import Answer, Change, Counts, Notice
from dragoman.limits.errors import LimitReachedError
from dragoman.limits.limit import Bucket, Limit
from dragoman.limits.redis_counts import RedisCounts
from dragoman.limits.told import remaining
from dragoman.transport.retry import Timing

_LONGEST_PAUSE = 3600.0
"""Seconds. Who asks for more is believed this far."""
_NOTHING = 1_000
"""Microseconds that are no wait: times are rounded up, and a burst must not stumble over that."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A request may start, ``wait`` seconds from when it asked. ``tokens`` are what is held for it.

    ``at`` is when, in microseconds of the counts' clock: seconds of the server, or of this process.
    """

    model: str
    tokens: int
    wait: float
    at: int
    held: tuple[tuple[Bucket, int], ...] = ()


class Limits:
    """Some `Limit`\\ s, and how much of them is used. Hand one to all sessions: threads and event loops may share it.

    Without a ``url`` the counts are this process's own; ``redis://…`` or ``valkey://…`` (extra ``dragoman[redis]``) has
    all processes that name the same server, and the same ``name``, share them, by the server's clock. ``max_wait`` is
    how many seconds a request waits at most. ``reply_tokens`` is what a reply is taken for where its request sets no
    ``max_output_tokens``; None: the most that the model writes.
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
            raise ConfigurationError("max_wait is a number of seconds from 0 on")
        self.limits = (limits,) if isinstance(limits, Limit) else tuple(limits)
        self.max_wait = max_wait
        self.reply_tokens = reply_tokens
        self._timing = timing or Timing()
        self._own = Counts(self._timing.clock) if url is None else None
        self._shared = None if url is None else RedisCounts(url, name)

    @property
    def local(self) -> bool:
        """Whether the counts are this process's own, so that no call here waits for a network."""
        return self._own is not None

    def reserve(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """Takes what a request needs of every limit that fits it, or nothing at all, and does not wait itself.

        Where a limit is smaller than input and output together, the whole of it is taken; what the reply comes to
        beyond that is counted when it is there. Raises LimitReachedError where the request would wait for longer than
        ``max_wait``, or its input alone is larger than a limit; LimitsUnavailableError.
        """
        held = self._needs(model, input_tokens, output_tokens)
        if not held:
            return Grant(model, 0, 0.0, 0)
        claims, most = [bucket.claim(count) for bucket, count in held], self._most_wait
        answer = self._own.claim(claims, most) if self._own is not None else self._redis.claim(claims, most)
        return self._granted(model, held, answer)

    async def reserve_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """As `reserve`, without stopping the event loop."""
        if self._own is not None:
            return self.reserve(model, input_tokens, output_tokens)
        held = self._needs(model, input_tokens, output_tokens)
        if not held:
            return Grant(model, 0, 0.0, 0)
        claims = [bucket.claim(count) for bucket, count in held]
        return self._granted(model, held, await self._redis.claim_async(claims, self._most_wait))

    def acquire(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """As `reserve`, and waits until the request may start. What is held is given back where the wait is broken
        off."""
        grant = self.reserve(model, input_tokens, output_tokens)
        if grant.wait > 0:
            try:
                self._timing.sleep(grant.wait)
            except BaseException:
                self.give_back(grant)
                raise
        return grant

    async def acquire_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
        """As `acquire`, without stopping the event loop."""
        grant = await self.reserve_async(model, input_tokens, output_tokens)
        if grant.wait > 0:
            try:
                await self._timing.sleep_async(grant.wait)
            except BaseException:
                await self.give_back_async(grant)
                raise
        return grant

    def settle(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> None:
        """Puts what was used in the place of what was held: the tokens of a reply (None: of none), and how many
        requests it took. Once for each grant."""
        self._settle(_changes(grant, usage, requests), grant.at)

    async def settle_async(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> None:
        """As `settle`, without stopping the event loop."""
        await self._settle_async(_changes(grant, usage, requests), grant.at)

    def give_back(self, grant: Grant) -> None:
        """For a request that was never sent."""
        self.settle(grant, None, requests=0)

    async def give_back_async(self, grant: Grant) -> None:
        """As `give_back`, without stopping the event loop."""
        await self.settle_async(grant, None, requests=0)

    def heed(self, model: str, told: Mapping[str, str] | ProviderError) -> None:
        """Takes note of what a provider says: of the headers of a reply, how much is left; of an error, that there is
        nothing left now, and when to come back. It never makes room, only takes it."""
        if notices := self._notices(model, told):
            if self._own is not None:
                self._own.notice(notices)
            else:
                self._redis.notice(notices)

    async def heed_async(self, model: str, told: Mapping[str, str] | ProviderError) -> None:
        """As `heed`, without stopping the event loop."""
        if self._own is not None:
            self.heed(model, told)
        elif notices := self._notices(model, told):
            await self._redis.notice_async(notices)

    def close(self) -> None:
        """Closes the connections of sync calls; a later call opens new ones."""
        if self._shared is not None:
            self._shared.close()

    async def close_async(self) -> None:
        """Closes the connections of this event loop, too."""
        if self._shared is not None:
            await self._shared.close_async()

    @property
    def _redis(self) -> RedisCounts:
        assert self._shared is not None
        return self._shared

    @property
    def _most_wait(self) -> int:
        return int(min(self.max_wait, 1e9) * 1_000_000) + _NOTHING

    def _needs(self, model: str, input_tokens: int, output_tokens: int) -> tuple[tuple[Bucket, int], ...]:
        held = []
        for bucket in self._buckets(model):
            if bucket.unit == "tokens" and input_tokens > bucket.amount:
                raise LimitReachedError(
                    f"the limit is {bucket}, and the request alone has about {input_tokens:,}: it never fits",
                    provider=model.partition(":")[0],
                    model=model,
                )
            held.append((bucket, 1 if bucket.unit == "requests" else min(input_tokens + output_tokens, bucket.amount)))
        return tuple(held)

    def _buckets(self, model: str) -> Iterable[Bucket]:
        return (bucket for limit in self.limits if limit.fits(model) for bucket in limit.buckets(model))

    def _granted(self, model: str, held: Sequence[tuple[Bucket, int]], answer: Answer) -> Grant:
        wait = answer.wait / 1_000_000 if answer.wait > _NOTHING else 0.0
        if not answer.granted:
            raise LimitReachedError(
                f"the limit of {held[answer.decisive][0]} is reached, and nothing was sent: come back later, or let"
                " requests wait for longer (max_wait)",
                provider=model.partition(":")[0],
                model=model,
                retry_after=wait,
            )
        tokens = max((count for bucket, count in held if bucket.unit == "tokens"), default=0)
        return Grant(model, tokens, wait, answer.at, tuple(held))

    def _settle(self, changes: Sequence[Change], at: int) -> None:
        if changes and self._own is not None:
            self._own.settle(changes, at)
        elif changes:
            self._redis.settle(changes, at)

    async def _settle_async(self, changes: Sequence[Change], at: int) -> None:
        if self._own is not None:
            self._settle(changes, at)
        elif changes:
            await self._redis.settle_async(changes, at)

    def _notices(self, model: str, told: Mapping[str, str] | ProviderError) -> list[Notice]:
        if isinstance(told, ProviderError):
            return self._refused(model, told)
        left = remaining(told)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst - left[bucket.unit]), 0, bucket.period)
            for bucket in self._buckets(model)
            if left.get(bucket.unit, bucket.burst) < bucket.burst
        ]

    def _refused(self, model: str, error: ProviderError) -> list[Notice]:
        if not isinstance(error, RateLimitError) or isinstance(error, LimitReachedError):
            return []
        asked = error.retry_after
        if isinstance(error, OverloadedError) and asked is None:  # it says nothing of this program's share
            return []
        pause = int(min(asked or 0.0, _LONGEST_PAUSE) * 1_000_000)
        return [
            Notice(bucket.key, bucket.time_for(bucket.burst), pause, bucket.period) for bucket in self._buckets(model)
        ]


def _changes(grant: Grant, usage: TokenUsage | None, requests: int) -> list[Change]:
    changes = []
    for bucket, count in grant.held:
        used = requests if bucket.unit == "requests" else _tokens(usage, bucket.limit)
        if used != count:
            changes.append(Change(bucket.claim(count), bucket.time_for(used - count)))
    return changes


def _tokens(usage: TokenUsage | None, limit: Limit) -> int:
    if usage is None:
        return 0
    return usage.total_tokens - (0 if limit.count_cached else usage.cached_input_tokens)
