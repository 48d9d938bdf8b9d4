"""Limits as a program declares them, and what a request takes of each.

A limit of L in a period T allows a burst of B, and then one more every T / (L - B + 1). So no span of length T, its end
excluded, ever contains more than L. A request larger than B needs idle time before it: it waits until the bucket was
free for the time that the excess takes.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.replies.rate_limit_headers import Unit

_MICROSECONDS = 1_000_000
_MAX_PATTERN = 1_024


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


_MAX_SECONDS = 366 * 86_400.0


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
    def burst(self) -> int:
        return max(1, math.floor(self.amount * self.limit.burst))

    def time_for(self, count: int) -> int:
        """Return the time that ``count`` takes at the steady rate, rounded up; negative for a negative count."""
        return -((-count * self.period) // (self.amount - self.burst + 1))

    def claim(self, count: int) -> "Claim":
        return Claim(self.key, self.time_for(count), self.time_for(count - self.burst), self.period)

    def __str__(self) -> str:
        scope = self.limit.models if self.limit.shared else f"each of {self.limit.models}"
        return f"{self.amount:,} {self.unit} in {self.limit.seconds:g} s for {scope}"


@dataclass(frozen=True, slots=True)
class Claim:
    """The share of one bucket that a request needs, in microseconds.

    ``cost``: the time that it books. ``slack``: the minimum time from the end of earlier bookings to its start,
    negative within the burst. ``period``: how long the bucket is kept.
    """

    key: str
    cost: int
    slack: int
    period: int
