"""Budgets: what a session, a turn, a user or a team may spend, checked before each request and settled after it.

Before a request, its maximum cost is reserved: the estimated input and the maximum output, at the rates of the price
table. The usage of the reply then replaces the reservation. Reservations count for all who share a budget, so two
requests never pass a check that only one of them may pass.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, get_args

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, UnpricedModelError
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage

logger = logging.getLogger("dragoman.budget")

Per = Literal["session", "turn", "user", "team"]
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Spend:
    """An amount in US dollars, as far as it is known, and in tokens of all four buckets."""

    usd: Decimal = _ZERO
    tokens: int = 0

    def __add__(self, other: "Spend") -> "Spend":
        return Spend(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Spend") -> "Spend":
        return Spend(self.usd - other.usd, self.tokens - other.tokens)

    @classmethod
    def of(cls, usage: Usage) -> "Spend":
        return cls(usage.cost_usd or _ZERO, usage.total_tokens)


NO_SPEND = Spend()


class Budget:
    """A limit in US dollars, in tokens, or both, for each ``session``, ``turn``, ``user`` or ``team``.

    A turn is one `ask`, `stream` or `compact` with all its rounds of tools and all its attempts. Users and teams are
    identified by the session's ``user_id`` and ``team_id``, as they are stored; share one Budget among all their
    sessions, which may run in different threads. What a session spent before it was loaded counts. What a user or a
    team spent in another program is added by `add_spend`; `Store.spent` has the numbers.

    Under a limit in dollars, a model without a known price is refused, unless ``allow_unpriced`` is set: its replies
    then cost 0. Raises ConfigurationError without a limit, or for a negative one.
    """

    def __init__(
        self,
        *,
        usd: Decimal | str | int | None = None,
        tokens: int | None = None,
        per: Per = "session",
        allow_unpriced: bool = False,
    ) -> None:
        if usd is None and tokens is None:
            raise ConfigurationError("a budget needs a limit in usd, in tokens, or in both")
        if usd is not None and (isinstance(usd, bool) or not isinstance(usd, (Decimal, str, int, float))):
            raise ConfigurationError(f"usd must be an amount of dollars, not a value of the class {type(usd).__name__}")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
            raise ConfigurationError("tokens must be a whole number")
        if isinstance(usd, float):
            raise ConfigurationError("usd must be a Decimal, an int or a string: a float is not exact")
        if per not in get_args(Per):
            raise ConfigurationError(f"per must be one of {', '.join(get_args(Per))}, not {per!r:.40}")
        try:
            self.usd = None if usd is None else Decimal(usd)
        except ArithmeticError:
            raise ConfigurationError(f"usd must be an amount of dollars, not {usd!r:.40}") from None
        usd_is_valid = self.usd is None or (self.usd.is_finite() and self.usd >= 0)
        if not usd_is_valid or (tokens is not None and tokens < 0):
            raise ConfigurationError("the limit of a budget must be at least 0")
        self.tokens = tokens
        self.per: Per = per
        self.allow_unpriced = allow_unpriced
        self._lock = ProcessLock()
        self._users: dict[str | None, BudgetAccount] = {}

    def __repr__(self) -> str:
        limits = [f"usd={self.usd}"] * (self.usd is not None) + [f"tokens={self.tokens}"] * (self.tokens is not None)
        return f"Budget({', '.join(limits)}, per={self.per!r})"

    def spend_of(self, user_id: str | None) -> Spend:
        """Return what that user or team has spent under this budget, without requests in flight."""
        return self.account_for(user_id).spent

    def add_spend(self, user_id: str | None, *, usd: Decimal = _ZERO, tokens: int = 0) -> None:
        """Add what that user or team spent elsewhere, e.g. in an earlier run of the program."""
        account = self.account_for(user_id)
        with self._lock:
            account.spent += Spend(usd, tokens)

    def account_for(self, user_id: str | None) -> "BudgetAccount":
        with self._lock:
            return self._users.setdefault(user_id, BudgetAccount(self))

    def reserve(self, account: "BudgetAccount", max_spend: "MaxSpend") -> None:
        """Reserve the maximum spend of a request. Raises BudgetExceededError if too little is left."""
        if self.usd is not None and max_spend.unpriced and not self.allow_unpriced:
            raise UnpricedModelError(max_spend.model, self.per)
        with self._lock:
            committed = account.spent + account.reserved
            if self.usd is not None and committed.usd + max_spend.spent.usd > self.usd:
                raise BudgetExceededError(self.per, "usd", self.usd, committed.usd, max_spend.spent.usd)
            if self.tokens is not None and committed.tokens + max_spend.spent.tokens > self.tokens:
                raise BudgetExceededError(self.per, "tokens", self.tokens, committed.tokens, max_spend.spent.tokens)
            account.reserved += max_spend.spent

    def settle(self, account: "BudgetAccount", max_spend: "MaxSpend", actual: Spend) -> None:
        with self._lock:
            account.reserved -= max_spend.spent
            account.spent += actual


@dataclass(slots=True, eq=False)
class BudgetAccount:
    """The spend and the reservations of one session, turn, user or team under one budget."""

    budget: Budget
    spent: Spend = NO_SPEND
    reserved: Spend = NO_SPEND


class BudgetAccounts:
    """The accounts of one session, for each of its budgets."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._session_accounts: dict[Budget, BudgetAccount] = {}

    def for_turn(self, user_id: str | None, team_id: str | None, spent: Callable[[], Spend]) -> list[BudgetAccount]:
        """Return the accounts of a new turn; ``spent`` returns what the session has spent so far."""
        return [self._account(budget, user_id, team_id, spent) for budget in self._budgets]

    def _account(
        self, budget: Budget, user_id: str | None, team_id: str | None, spent: Callable[[], Spend]
    ) -> BudgetAccount:
        if budget.per in ("user", "team"):
            return budget.account_for(user_id if budget.per == "user" else team_id)
        if budget.per == "turn":
            return BudgetAccount(budget)
        if budget not in self._session_accounts:
            self._session_accounts[budget] = BudgetAccount(budget, spent())
        return self._session_accounts[budget]


@dataclass(frozen=True, slots=True)
class MaxSpend:
    """The maximum spend of a request. ``input_spend``: its input alone. ``unpriced``: some of the price is unknown."""

    model: str
    spent: Spend
    input_spend: Spend
    unpriced: bool


@dataclass(slots=True, eq=False)
class Reservation:
    """The reserved spend of one request. The first of settle and release ends it; later calls do nothing."""

    max_spend: MaxSpend | None = None
    accounts: list[BudgetAccount] = field(default_factory=list)

    def settle(self, usage: Usage | None) -> None:
        """Replace the reservation by the usage. For a reply without usage, the estimated input counts."""
        if self.max_spend is not None and usage is None:
            logger.warning(
                "a reply of %s has no token counts: the budget counts its estimated input", self.max_spend.model
            )
        self._end(Spend.of(usage) if usage is not None else self.max_spend.input_spend if self.max_spend else NO_SPEND)

    def release(self) -> None:
        """Release the reservation: nothing was billed."""
        self._end(NO_SPEND)

    def _end(self, actual: Spend) -> None:
        accounts, self.accounts = self.accounts, []
        for account in accounts:
            assert self.max_spend is not None
            account.budget.settle(account, self.max_spend, actual)


@dataclass(frozen=True, slots=True)
class Budgets:
    """The accounts that a turn's requests are charged to."""

    accounts: Sequence[BudgetAccount]
    prices: Prices
    clock: Callable[[], datetime]

    def reserve(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Reservation:
        """Reserve for one request, in all accounts or in none.

        Raises, before anything is sent, BudgetExceededError if an account has too little left, and UnpricedModelError
        if the price is unknown.
        """
        if not self.accounts:
            return Reservation()
        return self._reserve(self._estimate_max_spend(adapter, messages, tools, options))

    def reserve_input(self, model: str, tokens: int) -> Reservation:
        """As `reserve`, for a request without output, such as one for embeddings."""
        if not self.accounts:
            return Reservation()
        priced = self.prices.price(model, TokenUsage(input_tokens=tokens), self.clock())
        unpriced = priced.cost_status not in (CostStatus.PRICED, CostStatus.FREE)
        return self._reserve(MaxSpend(model, Spend.of(priced), Spend.of(priced), unpriced))

    def _reserve(self, max_spend: MaxSpend) -> Reservation:
        reservation = Reservation(max_spend)
        try:
            for account in self.accounts:
                account.budget.reserve(account, max_spend)
                reservation.accounts.append(account)
        except BudgetExceededError:
            reservation.release()
            raise
        return reservation

    def _estimate_max_spend(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> MaxSpend:
        if options.output_schema is not None:  # providers count a schema much like a tool
            tools = [*tools, ToolDefinition(name="answer", input_schema=dict(options.output_schema))]
        input_tokens = adapter.estimate_input_tokens(messages, tools)
        output_tokens = adapter.output_limit(options)
        # Input that is written to a cache costs more than plain input, and for an hour still more.
        buckets = ["input_tokens"] if options.prompt_cache is None else ["cache_creation_input_tokens"]
        if options.prompt_cache == "1h":
            buckets.append("cache_creation_1h_input_tokens")
        request = TokenUsage(**dict.fromkeys(buckets, input_tokens))
        model, now = str(adapter.model_id), self.clock()
        input_priced = self.prices.price(model, request, now)
        priced = self.prices.price(model, request.model_copy(update={"output_tokens": output_tokens}), now)
        unpriced = priced.cost_status not in (CostStatus.PRICED, CostStatus.FREE)
        return MaxSpend(model, Spend.of(priced), Spend.of(input_priced), unpriced)
