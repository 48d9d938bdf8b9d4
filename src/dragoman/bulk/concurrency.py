"""Adapts the number of requests in flight: up after successes, half after a refusal.

It starts low and doubles until the first refusal (slow start); then each full window of successes adds one. If the
provider's headers state the remaining quota, no more requests than that are sent.
"""

import asyncio
import math
from collections.abc import Mapping
from datetime import UTC, datetime

from dragoman.adapter.errors import ConfigurationError, ProviderError, RateLimitError
from dragoman.adapter.replies.rate_limit_headers import remaining_requests
from dragoman.effects import Broken, Failed, Replied, SendOutcome
from dragoman.limits.reservation import Reservation, usage_of
from dragoman.transport import Timing
from dragoman.transport.retry import RetryState

_PROBE = 1.0
"""Seconds until the next attempt at a provider without capacity that names no time."""


class ConcurrencyController:
    """The limit of one model, in one event loop. ``limit`` is the number of requests that may be in flight now."""

    def __init__(self, max_limit: int, *, initial: int = 8, timing: Timing | None = None) -> None:
        if max_limit < 1:
            raise ConfigurationError("concurrency must be at least 1")
        self.max_limit = max_limit
        self.limit = float(min(initial, max_limit))
        self.in_flight = 0
        self.throttle_count = 0
        self.timing = timing or Timing()
        self._slow_start = True
        self._sent = 0
        self._halved_at = 0
        self._remaining: int | None = None
        self._average_tokens = 0.0
        self._paused_until = -math.inf
        self._throttled_until = -math.inf
        self._released = asyncio.Event()

    async def acquire(self) -> int:
        """Wait until one more request may be sent. Returns its number for `on_success` and `on_throttle`."""
        while True:
            while (wait := self._paused_until - self.timing.clock()) > 0:
                await self.timing.sleep_async(min(wait, _PROBE))  # the quota may reset sooner
            if self._remaining == 0:
                self._remaining = 1  # probe with one request
            if self.in_flight < int(self.limit):
                break
            self._released.clear()
            await self._released.wait()
        self.in_flight += 1
        self._sent += 1
        if self._remaining is not None:
            self._remaining -= 1
            if self._remaining == 0:
                self._pause(_PROBE)
        return self._sent

    def release(self) -> None:
        """End one request, successful or not."""
        self.in_flight -= 1
        self._released.set()

    def on_success(self, number: int, headers: Mapping[str, str], tokens: int) -> None:
        """Count a success. ``tokens`` are what it used, to predict how many requests the remaining quota allows."""
        self._average_tokens = tokens if not self._average_tokens else 0.9 * self._average_tokens + 0.1 * tokens
        if number > self._halved_at:
            self.limit = min(self.max_limit, self.limit + (1.0 if self._slow_start else 1.0 / self.limit))
        capacity = remaining_requests(headers, self._average_tokens, datetime.now(UTC))
        if capacity is not None:
            remaining, wait = capacity
            # The provider may not have counted requests sent after this one.
            self._remaining = max(0, remaining - (self._sent - number))
            if self._remaining == 0:
                self._pause(_PROBE if wait is None else wait)
            else:
                self._paused_until = min(self._paused_until, self._throttled_until)
        self._released.set()

    def on_throttle(self, number: int, wait: float) -> None:
        """Halve the limit, at most once per window: the provider has no capacity for ``wait`` seconds."""
        self.throttle_count += 1
        if number > self._halved_at:
            self.limit, self._slow_start, self._halved_at = max(1.0, self.limit / 2), False, self._sent
        self._throttled_until = max(self._throttled_until, self.timing.clock() + wait)
        self._pause(wait)

    def _pause(self, seconds: float) -> None:
        self._paused_until = max(self._paused_until, self.timing.clock() + seconds)


class Slot(Reservation):
    """The slot of an attempt among the requests in flight; ``number`` is that of its request at the controller.
    ``retries`` say how long a refusal lasts."""

    def __init__(self, controller: ConcurrencyController, retries: RetryState, number: int) -> None:
        self._controller, self._retries, self._number = controller, retries, number
        self._is_held = True

    def settle(self, outcome: SendOutcome) -> None:
        """Tell the controller how the request ended, and free the slot. The limits of the program do not count."""
        match outcome:
            case Failed(error=RateLimitError() as error) | Broken(error=RateLimitError() as error):
                if error.sent is not False:
                    self._controller.on_throttle(self._number, self._retries.next_wait or 0.0)
            case Broken(error=ProviderError()):
                pass
            case Replied() | Broken():
                headers = {} if outcome.response is None else outcome.response.headers
                usage = usage_of(outcome)
                self._controller.on_success(self._number, headers, 0 if usage is None else usage.total_tokens)
        self.release()

    def release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._controller.release()
