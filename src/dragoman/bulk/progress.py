"""The progress of a run: what is done, what it cost, and an estimate of the rest."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dragoman.bulk.manifest.records import RowRecord, State

_NOTIFY_INTERVAL = 0.5
_WINDOW = 30.0
"""Seconds over which the rate is measured."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts answers: one for each row and model. ``done`` includes ``errors`` and the work of earlier processes.
    ``rate`` is recent answers per second; money is US dollars; None is unknown.
    """

    total: int
    """The answers that the whole run has to give: rows times models."""
    done: int
    errors: int
    in_flight: int
    """The requests that wait for an answer."""
    rate: float | None
    cost_usd: Decimal | None
    """The known cost of all answers so far."""
    projected_cost_usd: Decimal | None
    """An estimate: the rest costs what an answer of the same model cost on average."""
    seconds_left: float | None
    """An estimate of the time to the end, at the present rate."""
    stopped: str | None
    """Why the run ends early; None while it goes on."""
    resumed: int = 0
    """Those of ``done`` that an earlier process has left in the manifest."""


ProgressCallback = Callable[[Progress], Any]


class ProgressTracker:
    """Counts for all models of a run, in one event loop. ``stopped`` says why nothing more is sent."""

    def __init__(self, total: int, callback: ProgressCallback | None) -> None:
        self.stopped: str | None = None
        self.in_flight = 0
        self._waiting = 0
        """Rows in flight that wait for the budget."""
        self._total = total
        self._callback = callback
        self._done = self._errors = self._resumed = 0
        self._costs: dict[str, tuple[int, Decimal]] = {}
        self._remaining: dict[str, int] = {}
        self._lost_usd: Decimal | None = None
        self._finished = asyncio.Event()
        self._recent: deque[tuple[float, int]] = deque()
        self._notified_at = 0.0

    def restore(self, model: str, rows: int, done: int, errors: int, priced: int, usd: Decimal | None) -> None:
        """Add what earlier processes did for the model; ``priced`` is the number of answers that ``usd`` covers."""
        self._done += done
        self._errors += errors
        self._remaining[model] = rows - done
        if usd is not None:
            self._costs[model] = (priced, usd)

    def begin(self) -> int:
        """Return what earlier processes did, and show it."""
        self._resumed = self._done
        if self._resumed:
            self.notify()
        return self._resumed

    def add_lost_cost(self, usd: Decimal | None) -> None:
        """Add money that was, or may have been, spent without an answer."""
        if usd is not None:
            self._lost_usd = (self._lost_usd or Decimal(0)) + usd

    def start_request(self) -> None:
        self.in_flight += 1

    def reopen_row(self, model: str) -> None:
        """Uncount a failed row that is sent again."""
        self._done -= 1
        self._errors -= 1
        self._remaining[model] += 1

    def finish_request(self, model: str, outcome: RowRecord | None) -> None:
        self.in_flight -= 1
        if outcome is not None:
            self._done += 1
            self._remaining[model] -= 1
            self._errors += outcome.state is State.FAILED
            if (cost := outcome.paid.cost_usd) is not None:
                count, usd = self._costs.get(model, (0, Decimal(0)))
                self._costs[model] = (count + 1, usd + cost)
        self._finished.set()
        now = time.monotonic()
        if not self._recent or now - self._notified_at >= _NOTIFY_INTERVAL:
            self._notified_at = now
            self._recent.append((now, self._done))
            while now - self._recent[0][0] > _WINDOW:
                self._recent.popleft()
            self.notify()

    async def wait_for_room(self) -> bool:
        """Wait until a row in flight has ended. Return False at once if every one of them waits: none would end."""
        if self._waiting + 1 >= self.in_flight:
            return False
        self._waiting += 1
        self._finished.clear()
        try:
            await self._finished.wait()
        finally:
            self._waiting -= 1
        return True

    @property
    def snapshot(self) -> Progress:
        rate = None
        if len(self._recent) > 1:
            (since, before), (until, now) = self._recent[0], self._recent[-1]
            rate = (now - before) / (until - since) if until > since else None
        remaining = self._total - self._done
        amounts = [usd for _, usd in self._costs.values()] + ([] if self._lost_usd is None else [self._lost_usd])
        cost = projected = sum(amounts, Decimal(0)) if amounts else None
        for model, rows_left in self._remaining.items():
            if rows_left > 0:
                count, usd = self._costs.get(model, (0, Decimal(0)))
                # Without an answer of known cost so far, the rest of the model may cost anything.
                projected = None if projected is None or not count else projected + usd / count * rows_left
        return Progress(
            total=self._total,
            done=self._done,
            errors=self._errors,
            in_flight=self.in_flight,
            rate=rate,
            cost_usd=cost,
            projected_cost_usd=projected.quantize(Decimal("0.000001")) if projected else projected,
            seconds_left=remaining / rate if rate else None,
            stopped=self.stopped,
            resumed=self._resumed,
        )

    def notify(self) -> None:
        """Call the callback now."""
        if self._callback is not None:
            self._callback(self.snapshot)
