"""How many requests are under way at once: a little more after each success, half after a refusal.

It begins with a few and doubles until the first refusal, as connections on the internet do; from then on each full
window of successes adds one. Where the provider's headers say how much room is left, no more than that is sent.
"""

import asyncio
import math
from collections.abc import Mapping
from datetime import UTC, datetime

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.room import room
from dragoman.transport import Timing

_PROBE = 1.0
"""Seconds until a provider without room is tried again, where it does not say when there will be some."""


class Pace:
    """Of one model, in one event loop. ``limit`` is how many requests may be under way now."""

    def __init__(self, most: int, *, first: int = 8, timing: Timing | None = None) -> None:
        if most < 1:
            raise ConfigurationError("the concurrency is at least 1")
        self.most = most
        self.limit = float(min(first, most))
        self.under_way = 0
        self.refusals = 0
        self.timing = timing or Timing()
        self._doubling = True
        self._sent = 0
        self._halved_at = 0
        self._room: int | None = None
        self._tokens = 0.0
        self._closed_until = -math.inf
        self._refused_until = -math.inf
        self._freed = asyncio.Event()

    async def enter(self) -> int:
        """Waits until one more may be sent; its number is for `succeeded` and `refused`."""
        while True:
            wait = self._closed_until - self.timing.clock()
            if wait > 0:
                await self.timing.sleep_async(min(wait, _PROBE))  # it may open sooner
            elif self._room == 0:
                self._room = 1  # the time to try has come
            elif self.under_way < int(self.limit):
                break
            else:
                self._freed.clear()
                await self._freed.wait()
        self.under_way += 1
        self._sent += 1
        if self._room is not None:
            self._room -= 1
            if self._room == 0:
                self._close(_PROBE)
        return self._sent

    def leave(self) -> None:
        """It is not under way any more, whatever came of it."""
        self.under_way -= 1
        self._freed.set()

    def succeeded(self, number: int, headers: Mapping[str, str], tokens: int) -> None:
        """``tokens`` are those that it took, by which the room for the next ones is known."""
        self._tokens = tokens if not self._tokens else 0.9 * self._tokens + 0.1 * tokens
        if number > self._halved_at:
            self.limit = min(self.most, self.limit + (1.0 if self._doubling else 1.0 / self.limit))
        told = room(headers, self._tokens, datetime.now(UTC))
        if told is not None:
            left, wait = told
            # Those that were sent after this one may not be counted yet.
            self._room = max(0, left - (self._sent - number))
            if self._room == 0:
                self._close(_PROBE if wait is None else wait)
            else:
                self._closed_until = min(self._closed_until, self._refused_until)
        self._freed.set()

    def refused(self, number: int, wait: float) -> None:
        """The provider has no capacity for it, for so many seconds. One window is halved once."""
        self.refusals += 1
        if number > self._halved_at:
            self.limit, self._doubling, self._halved_at = max(1.0, self.limit / 2), False, self._sent
        self._refused_until = max(self._refused_until, self.timing.clock() + wait)
        self._close(wait)

    def _close(self, seconds: float) -> None:
        self._closed_until = max(self._closed_until, self.timing.clock() + seconds)
