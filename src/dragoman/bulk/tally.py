"""How a run is getting on: what is done, what it cost, and what is likely to come."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from dragoman.bulk.funds import Funds
from dragoman.bulk.records import Lost, Outcome, State

_EVERY = 0.5
_WINDOW = 30.0
"""Seconds over which the rate is taken."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts are of answers: one for each row and each model. ``done`` includes ``errors`` and what earlier processes
    did. ``rate`` is in answers a second, lately; money is US dollars; what cannot be known yet is None.
    """

    total: int
    done: int
    errors: int
    under_way: int
    rate: float | None
    cost_usd: Decimal | None
    cost_at_end_usd: Decimal | None
    """An estimate: what is left costs what an answer of the same model cost on average."""
    seconds_left: float | None
    stopped: str | None


Watch = Callable[[Progress], Any]


class Tally:
    """Of all lanes of a run, in one event loop. ``stopped`` says why nothing more is sent."""

    def __init__(self, funds: Funds, total: int, watch: Watch | None) -> None:
        self.funds = funds
        self.stopped: str | None = None
        self.under_way = 0
        self._total = total
        self._watch = watch
        self._done = self._errors = 0
        self._costs: dict[str, tuple[int, Decimal]] = {}
        self._left: dict[str, int] = {}
        self._beside: Decimal | None = None
        self._settled = asyncio.Event()
        self._recent: deque[tuple[float, int]] = deque()
        self._told_at = 0.0

    def known(self, model: str, rows: int, done: int, errors: int, priced: int, usd: Decimal | None) -> None:
        """What earlier processes did for that model; ``priced`` is how many answers that money is for."""
        self._done += done
        self._errors += errors
        self._left[model] = rows - done
        if usd is not None:
            self._costs[model] = (priced, usd)

    def lost(self, lost: Lost) -> None:
        """Money that went, or may have gone, for nothing."""
        self.lost_usd(lost.estimate_usd)
        self.funds.spent_beside(lost.estimate_usd, 0)

    def lost_usd(self, usd: Decimal | None) -> None:
        if usd is not None:
            self._beside = (self._beside or Decimal(0)) + usd

    def begins(self) -> None:
        self.under_way += 1

    def reopens(self, model: str) -> None:
        """A row whose outcome was an error is asked again."""
        self._done -= 1
        self._errors -= 1
        self._left[model] += 1

    def ends(self, model: str, outcome: Outcome | None) -> None:
        self.under_way -= 1
        if outcome is not None:
            self._done += 1
            self._left[model] -= 1
            self._errors += outcome.state is State.FAILED
            if outcome.cost_usd is not None:
                count, usd = self._costs.get(model, (0, Decimal(0)))
                self._costs[model] = (count + 1, usd + outcome.cost_usd)
        self._settled.set()
        self._tell()

    async def settled_one(self) -> None:
        """Waits until something that is under way has ended."""
        self._settled.clear()
        await self._settled.wait()

    @property
    def progress(self) -> Progress:
        rate = self._rate()
        left = self._total - self._done
        spent = [usd for _, usd in self._costs.values()] + ([] if self._beside is None else [self._beside])
        cost = sum(spent, Decimal(0)) if spent else None
        return Progress(
            total=self._total,
            done=self._done,
            errors=self._errors,
            under_way=self.under_way,
            rate=rate,
            cost_usd=cost,
            cost_at_end_usd=self._at_end(cost),
            seconds_left=left / rate if rate else None,
            stopped=self.stopped,
        )

    def tell(self) -> None:
        """Tells whoever watches, now."""
        if self._watch is not None:
            self._watch(self.progress)

    def _at_end(self, cost: Decimal | None) -> Decimal | None:
        """None where a model has answers to come, and none so far whose cost is known."""
        for model, left in self._left.items():
            if left > 0:
                count, usd = self._costs.get(model, (0, Decimal(0)))
                if not count or cost is None:
                    return None
                cost += usd / count * left
        return None if cost is None else cost.quantize(Decimal("0.000001")) if cost else cost

    def _rate(self) -> float | None:
        if len(self._recent) < 2:
            return None
        (since, before), (until, now) = self._recent[0], self._recent[-1]
        return (now - before) / (until - since) if until > since else None

    def _tell(self) -> None:
        moment = time.monotonic()
        if self._recent and moment - self._told_at < _EVERY:
            return
        self._told_at = moment
        self._recent.append((moment, self._done))
        while moment - self._recent[0][0] > _WINDOW:
            self._recent.popleft()
        self.tell()
