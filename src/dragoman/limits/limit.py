"""Limits as a program writes them down, and what a request takes of each.

A limit of L in a period T lets B at once and the rest evenly: one more every T / (L - B + 1). However requests come,
no span of that length, its end excluded, then holds more than L. A request that is larger than B needs the room before
it: it waits until nothing was taken for as long as it is larger.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from dragoman.adapter.errors import ConfigurationError

Unit = Literal["requests", "tokens"]
_MICROSECONDS = 1_000_000


@dataclass(frozen=True, slots=True)
class Limit:
    """How much of some models may be used: ``requests``, ``tokens``, or both, in ``seconds``.

    ``models`` is a glob such as ``anthropic:*`` over ``provider:model``. Each model that fits has a count of its own,
    unless the limit is ``shared`` by all of them. ``burst`` is the share that may be used at once: the larger it is,
    the slower is what follows. Tokens are those of the prompt and the reply; ``count_cached=False`` leaves out what the
    provider read from its cache, as some providers' own limits do.

    Raises ConfigurationError where it limits nothing, or by an amount that is not over 0.
    """

    models: str = "*"
    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0
    shared: bool = False
    burst: float = 0.1
    count_cached: bool = True

    def __post_init__(self) -> None:
        if self.requests is None and self.tokens is None:
            raise ConfigurationError("a limit has a number of requests, of tokens, or of both")
        for amount in (self.requests, self.tokens):
            if amount is not None and (isinstance(amount, bool) or not isinstance(amount, int) or amount < 1):
                raise ConfigurationError(f"a limit is a whole number of at least 1, not {amount!r:.40}")
        if not 0 < self.seconds <= _MAX_SECONDS:
            raise ConfigurationError("the seconds of a limit are over 0, and at most a year")
        if not 0 < self.burst <= 1:
            raise ConfigurationError("burst is a share of the limit: over 0, and at most 1")

    def matches(self, model: str) -> bool:
        return fnmatchcase(model, self.models)

    def buckets(self, model: str) -> "Iterator[Bucket]":
        """What that model is counted in."""
        scope = "*" if self.shared else model
        amounts: tuple[tuple[Unit, int | None], ...] = (("requests", self.requests), ("tokens", self.tokens))
        for unit, amount in amounts:
            if amount is not None:
                yield Bucket(self, unit, amount, f"{self.models}|{self.seconds:g}|{scope}|{unit}")


_MAX_SECONDS = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """One count of a limit. ``key`` is the same in every process that has the same limit. Times are microseconds."""

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
        """How long that many take at the even pace, rounded up; a negative count takes negative time."""
        return -((-count * self.period) // (self.amount - self.burst + 1))

    def claim(self, count: int) -> "Claim":
        return Claim(self.key, self.time_for(count), self.time_for(count - self.burst), self.period)

    def __str__(self) -> str:
        scope = self.limit.models if self.limit.shared else f"each of {self.limit.models}"
        return f"{self.amount:,} {self.unit} in {self.limit.seconds:g} s for {scope}"


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request asks of one bucket, in microseconds: the time that it takes up, the time that has to lie between
    what was taken before and its own start, and how long the bucket remembers."""

    key: str
    cost: int
    slack: int
    period: int
