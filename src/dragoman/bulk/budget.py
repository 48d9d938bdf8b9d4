"""The budgets of a run: its own, which covers all its models and all processes that worked on it, and its client's."""

from collections.abc import Iterable, Sequence
from decimal import Decimal

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.state.manifest import now_micros
from dragoman.bulk.state.records import NOTHING_PAID, RowUsage
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.limits.budget import (
    NO_SPEND,
    Budget,
    BudgetAccount,
    BudgetAccounts,
    Budgets,
    MaxSpend,
    Spend,
)
from dragoman.store.columns import from_micros

_DEFAULT_OUTPUT_TOKENS = 256
"""Expected output tokens of a reply before any reply of its model is known."""


_NO_RESERVATION = MaxSpend("", NO_SPEND, NO_SPEND, unpriced=False)


def budget_account(budget: Budget | Decimal | str | int | None) -> BudgetAccount | None:
    """Return the account of a budget; a bare amount is US dollars. Raises ConfigurationError."""
    if budget is None:
        return None
    resolved = budget if isinstance(budget, Budget) else Budget(usd=budget)
    if resolved.per != "session":
        raise ConfigurationError(f"a bulk run needs a budget per session, not per {resolved.per}")
    return BudgetAccount(resolved)


class RunBudget:
    """Estimates what a request will cost, and reserves the most that it can cost.

    ``budgets`` are those of the client. The run counts as one session, and each row as a turn.
    """

    def __init__(self, prices: Prices, account: BudgetAccount | None, budgets: Iterable[Budget] = ()) -> None:
        self._prices = prices
        self._account = account
        self._budgets = tuple(budgets)
        self._accounts = BudgetAccounts(self._budgets)
        self._average_output: dict[str, float] = {}

    def for_row(self, paid: RowUsage = NOTHING_PAID) -> Budgets:
        """Return the budgets of one row with all its requests: it counts as a turn. ``paid`` is what it cost before."""
        accounts = [*([] if self._account is None else [self._account]), *self._client_accounts()]
        for account in accounts:
            if account.budget.per == "turn":
                account.spent += Spend(paid.cost_usd or Decimal(0), paid.tokens)
        return Budgets(accounts, self._prices, lambda: from_micros(now_micros()))

    def record_earlier_spend(self, usd: Decimal | None, tokens: int) -> None:
        """Count what earlier processes of this run spent. Budgets per user or team do not count it: it may be there
        already."""
        self._add_spend(("session",), usd, tokens)

    def record_spend(self, usd: Decimal | None) -> None:
        """Count what this process spent without a reservation."""
        self._add_spend(("session", "user", "team"), usd, 0)

    def _add_spend(self, per: Sequence[str], usd: Decimal | None, tokens: int) -> None:
        spend = Spend(usd or Decimal(0), tokens)
        if self._account is not None:
            self._account.spent += spend
        for account in self._client_accounts():
            if account.budget.per in per:
                account.budget.settle(account, _NO_RESERVATION, spend)

    def _client_accounts(self) -> list[BudgetAccount]:
        return self._accounts.for_turn(None, None, lambda: NO_SPEND)

    def estimate(self, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions) -> Decimal | None:
        """Return the expected cost in US dollars: the prompt, and a reply of average length. None if the price is
        unknown."""
        model = str(adapter.model_id)
        max_output = adapter.output_limit(options)
        expected_output = min(max_output, round(self._average_output.get(model, _DEFAULT_OUTPUT_TOKENS)))
        usage = TokenUsage(input_tokens=adapter.estimate_input_tokens(messages, ()), output_tokens=expected_output)
        priced = self._prices.price(model, usage, from_micros(now_micros()))
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None

    def observe_output_tokens(self, model: str, output_tokens: float) -> None:
        average = self._average_output.get(model)
        self._average_output[model] = output_tokens if average is None else 0.95 * average + 0.05 * output_tokens
