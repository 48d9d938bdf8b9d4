"""What a run may spend. One budget holds for the whole run: all its models, and all the processes that it took."""

from collections.abc import Sequence
from decimal import Decimal

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk.manifest import now
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.session.budget import Account, Budget, Hold, Purse, Spent
from dragoman.store.columns import moment

_GUESS = 256
"""Output tokens of a reply where nothing is known of its model's yet."""


def account_of(budget: Budget | Decimal | str | int | None) -> Account | None:
    """An amount alone is US dollars. Raises ConfigurationError."""
    if budget is None:
        return None
    made = budget if isinstance(budget, Budget) else Budget(usd=budget)
    if made.per != "session":
        raise ConfigurationError(f"a bulk run counts as one session, and this budget is per {made.per}")
    return Account(made)


class Funds:
    """Guesses what a request will cost, and holds back the most that it can."""

    def __init__(self, prices: Prices, account: Account | None) -> None:
        self._prices = prices
        self._account = account
        self._purse = Purse([] if account is None else [account], prices, lambda: moment(now()))
        self._written: dict[str, float] = {}

    def hold(self, adapter: Adapter, said: Sequence[Message], options: AdapterOptions) -> Hold:
        """Raises BudgetExceededError and UnpricedModelError."""
        return self._purse.hold(adapter, said, (), options)

    def spent_beside(self, usd: Decimal | None, tokens: int) -> None:
        """Counts what was spent without being held: by earlier processes of this run, and for no answer."""
        if self._account is not None:
            self._account.spent += Spent(usd or Decimal(0), tokens)

    def guess(self, adapter: Adapter, said: Sequence[Message], options: AdapterOptions) -> Decimal | None:
        """US dollars: the prompt, and a reply as long as those before were on average."""
        model = str(adapter.model_id)
        most = options.max_output_tokens or adapter.default_output_tokens
        written = min(most, round(self._written.get(model, _GUESS)))
        usage = TokenUsage(input_tokens=adapter.estimate_input_tokens(said, ()), output_tokens=written)
        priced = self._prices.price(model, usage, moment(now()))
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None

    def learn(self, model: str, output_tokens: float) -> None:
        known = self._written.get(model)
        self._written[model] = output_tokens if known is None else 0.95 * known + 0.05 * output_tokens
