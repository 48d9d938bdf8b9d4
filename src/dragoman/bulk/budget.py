"""What a run may spend: it waits for room in the budgets, and estimates what a request costs."""

from dataclasses import dataclass
from decimal import Decimal
from functools import partial

from dragoman.adapter.contract import Prices
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, DragomanError, UnpricedModelError
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.state.manifest import now_micros
from dragoman.canonical.usage import CostStatus
from dragoman.effects.work import Perform
from dragoman.limits.budget import Budget, Budgets
from dragoman.limits.reservation import MaxUsage, MeasureUsage, Reservation
from dragoman.store.columns import from_micros

_DEFAULT_OUTPUT_TOKENS = 256
"""Expected output tokens of a reply before any reply of its model is known."""


class RunStoppedError(DragomanError):
    """The run stopped before the row had an outcome. Nothing was sent."""

    sent = False


def read_budget(budget: Budget | Decimal | str | int | None) -> tuple[Budget, ...]:
    """Return the budget of a run, if it has one; a bare amount is US dollars. Raises ConfigurationError."""
    if budget is None:
        return ()
    resolved = budget if isinstance(budget, Budget) else Budget(usd=budget)
    if resolved.per != "session":
        raise ConfigurationError(f"a bulk run needs a budget per session, not per {resolved.per}")
    return (resolved,)


@dataclass(frozen=True, slots=True)
class WaitingBudgets:
    """The budgets of one row, which waits for room while others are in flight: they may cost less than they reserved.

    The last row that waits stops the run.
    """

    budgets: Budgets
    tracker: ProgressTracker

    def reserve(self, measure: MeasureUsage) -> Perform:
        """Return the effect that waits. Raises RunStoppedError, UnpricedModelError, and BudgetExceededError if the row
        alone exceeds a budget per turn."""
        work = partial(self._wait, measure)
        return Perform(work, work)

    async def _wait(self, measure: MeasureUsage) -> Reservation:
        while self.tracker.stopped is None:
            try:
                return self.budgets.reserve(measure)
            except BudgetExceededError as error:
                if error.per == "turn" or isinstance(error, UnpricedModelError):
                    raise
                if not await self.tracker.wait_for_room():
                    self.tracker.stopped = self.tracker.stopped or str(error)
        raise RunStoppedError(self.tracker.stopped)


class CostEstimator:
    """Estimates what a request will cost, by the replies of its model so far."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._average_output: dict[str, float] = {}

    def estimate(self, use: MaxUsage) -> Decimal | None:
        """Return the expected cost in US dollars: the prompt, and a reply of average length. None if the price is
        unknown."""
        average = round(self._average_output.get(use.model, _DEFAULT_OUTPUT_TOKENS))
        usage = use.input.model_copy(update={"output_tokens": min(use.output_tokens, average)})
        priced = self._prices.price(use.model, usage, from_micros(now_micros()))
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None

    def observe_output_tokens(self, model: str, output_tokens: float) -> None:
        average = self._average_output.get(model)
        self._average_output[model] = output_tokens if average is None else 0.95 * average + 0.05 * output_tokens
