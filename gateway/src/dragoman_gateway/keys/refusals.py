"""Errors that refuse a request of a key: a spent budget, or too many requests in flight."""

from datetime import datetime

from dragoman.errors import BudgetExceededError, LimitReachedError
from dragoman_gateway.keys.amounts import PeriodBudget
from dragoman_gateway.keys.ledger_entries import LEAST, Amount

_ROOM_AFTER = 1.0
"""Seconds after which a request that found no room may try again. It is not known when another one ends."""


class SpentBudgetError(BudgetExceededError):
    """A budget of a key, a user or a team has too little left. ``reset_at`` is when its next period begins."""

    def __init__(self, scope: str, budget: PeriodBudget, spent: Amount, reserved: Amount, needed: Amount,
                 reset_at: datetime | None) -> None:  # fmt: skip
        unit = "usd" if budget.usd is not None and spent.usd + reserved.usd + needed.usd > budget.usd else "tokens"
        amounts = [getattr(each, unit) for each in (spent, reserved, needed)]
        super().__init__(
            scope.partition(":")[0], unit, getattr(budget, unit), amounts[0] + amounts[1], amounts[2], amounts[1]
        )
        self.reset_at = reset_at
        shown = [f"${each:.4f}" if unit == "usd" else f"{each:,} tokens" for each in amounts]
        again = f"; it begins again at {reset_at:%Y-%m-%d %H:%M} UTC" if reset_at else ""
        message = (
            f"the budget of {owner_of(scope)} is {budget}: {shown[0]} are spent, {shown[1]} are reserved for requests"
            f" in flight{'' if needed == LEAST else f', and this request could take {shown[2]}'}{again}"
        )
        self.args = (message,)


class NoRoomError(LimitReachedError):
    """A key, a user or a team has as many requests in flight as it may, or they have reserved what is left of a
    budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}: try again when one has ended", status=429, retry_after=_ROOM_AFTER)


def owner_of(scope: str) -> str:
    """Return how an error names a key, a user or a team."""
    kind, _, name = scope.partition(":")
    return "this key" if kind == "key" else f"the {kind} {name}"
