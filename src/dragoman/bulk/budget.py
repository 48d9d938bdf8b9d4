"""The budget of a run. It covers the whole run: all its models, and all processes that worked on it."""

from collections.abc import Sequence
from decimal import Decimal

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.state.manifest import now_micros
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.limits.budget import Budget, BudgetAccount, Budgets, Reservation, Spend
from dragoman.store.columns import from_micros

_DEFAULT_OUTPUT_TOKENS = 256
"""Expected output tokens of a reply before any reply of its model is known."""


def budget_account(budget: Budget | Decimal | str | int | None) -> BudgetAccount | None:
    """Return the account of a budget; a bare amount is US dollars. Raises ConfigurationError."""
    if budget is None:
        return None
    resolved = budget if isinstance(budget, Budget) else Budget(usd=budget)
    if resolved.per != "session":
        raise ConfigurationError(f"a bulk run needs a budget per session, not per {resolved.per}")
    return BudgetAccount(resolved)


class RunBudget:
    """Estimates what a request will cost, and reserves the most that it can cost."""

    def __init__(self, prices: Prices, account: BudgetAccount | None) -> None:
        self._prices = prices
        self._account = account
        self._budgets = Budgets([] if account is None else [account], prices, lambda: from_micros(now_micros()))
        self._average_output: dict[str, float] = {}

    def reserve(self, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions) -> Reservation:
        """Reserve the highest possible cost of a request. Raises BudgetExceededError and UnpricedModelError."""
        return self._budgets.reserve(adapter, messages, (), options)

    def record_spend(self, usd: Decimal | None, tokens: int) -> None:
        """Count spending that has no reservation: of earlier processes of this run, and without an answer."""
        if self._account is not None:
            self._account.spent += Spend(usd or Decimal(0), tokens)

    def estimate(self, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions) -> Decimal | None:
        """Return the expected cost in US dollars: the prompt, and a reply of average length. None if the price is
        unknown."""
        model = str(adapter.model_id)
        max_output = options.max_output_tokens or adapter.default_output_tokens
        expected_output = min(max_output, round(self._average_output.get(model, _DEFAULT_OUTPUT_TOKENS)))
        usage = TokenUsage(input_tokens=adapter.estimate_input_tokens(messages, ()), output_tokens=expected_output)
        priced = self._prices.price(model, usage, from_micros(now_micros()))
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None

    def observe_output_tokens(self, model: str, output_tokens: float) -> None:
        average = self._average_output.get(model)
        self._average_output[model] = output_tokens if average is None else 0.95 * average + 0.05 * output_tokens
