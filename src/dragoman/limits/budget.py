"""Budgets: what a session, a turn, a user or a team may spend, checked before each request and settled after it.

Before a request the most that it can cost is held back: the estimate of its input, and all the output that it may
have, at the price table's rates. The reply's own counts then take the place of what was held. What is held counts for
everybody who shares a budget, so two requests never pass a check that only one of them may.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from threading import Lock
from typing import Literal, get_args

from dragoman.adapter.contract import Adapter, AdapterOptions, Prices
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, UnpricedModelError
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage

logger = logging.getLogger("dragoman.budget")

Per = Literal["session", "turn", "user", "team"]
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Spend:
    """US dollars as far as they are known, and tokens of all four buckets."""

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

    A turn is one `ask`, `stream` or `compact` with all its rounds of tools and all its tries. Users and teams are
    told apart by the session's ``user_id`` and ``team_id``, pseudonyms as they are noted; hand the same Budget to all
    their sessions, which may run in different threads. What a session spent before it was loaded counts for it; what a
    user or a team spent in another program, `count` tells, and `Store.spent` knows.

    Under a limit in dollars a model without a known price is refused, unless ``allow_unpriced``: its replies then
    count as nothing. Raises ConfigurationError where there is no limit, or a negative one.
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
            raise ConfigurationError("a budget has a limit in usd, in tokens, or in both")
        if isinstance(usd, float):
            raise ConfigurationError("usd is a Decimal, an int or a text: a float is not exact")
        if per not in get_args(Per):
            raise ConfigurationError(f"a budget is per {', '.join(get_args(Per))}, not per {per!r:.40}")
        try:
            self.usd = None if usd is None else Decimal(usd)
        except ArithmeticError:
            raise ConfigurationError(f"usd is an amount of dollars, not {usd!r:.40}") from None
        if (self.usd is not None and not (self.usd.is_finite() and self.usd >= 0)) or (tokens or 0) < 0:
            raise ConfigurationError("the limit of a budget is at least 0")
        self.tokens = tokens
        self.per: Per = per
        self.allow_unpriced = allow_unpriced
        self._lock = Lock()
        self._users: dict[str | None, BudgetAccount] = {}

    def __repr__(self) -> str:
        limits = [f"usd={self.usd}"] * (self.usd is not None) + [f"tokens={self.tokens}"] * (self.tokens is not None)
        return f"Budget({', '.join(limits)}, per={self.per!r})"

    def spend_of(self, user_id: str | None) -> Spend:
        """What the requests of that user, or team, came to under this budget, without those under way."""
        return self.account_for(user_id).spent

    def add_spend(self, user_id: str | None, *, usd: Decimal = _ZERO, tokens: int = 0) -> None:
        """Counts what that user, or team, spent elsewhere, e.g. in an earlier run of the program."""
        account = self.account_for(user_id)
        with self._lock:
            account.spent += Spend(usd, tokens)

    def account_for(self, user_id: str | None) -> "BudgetAccount":
        with self._lock:
            return self._users.setdefault(user_id, BudgetAccount(self))

    def reserve(self, account: "BudgetAccount", max_spend: "MaxSpend") -> None:
        """Holds back what a request may come to. Raises BudgetExceededError where that is more than is left."""
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
    """What has been spent of one budget by one session, turn, user or team, and what is held back."""

    budget: Budget
    spent: Spend = NO_SPEND
    reserved: Spend = NO_SPEND


class BudgetAccounts:
    """The accounts of one session, for each of its budgets."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._session_accounts: dict[Budget, BudgetAccount] = {}

    def for_turn(self, user_id: str | None, team_id: str | None, spent: Callable[[], Spend]) -> list[BudgetAccount]:
        """Those that hold for the turn that begins; ``spent`` says what the session had spent by then."""
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
    """What a request can come to. ``read``: its input alone. ``unpriced``: the dollars are not all known."""

    model: str
    spent: Spend
    input_spend: Spend
    unpriced: bool


@dataclass(slots=True, eq=False)
class Reservation:
    """What is held back for one request, until it is settled or released; of these only the first counts."""

    max_spend: MaxSpend | None = None
    accounts: list[BudgetAccount] = field(default_factory=list)

    def settle(self, usage: Usage | None) -> None:
        """Puts the fact in the place of what was held. A reply that tells no counts is taken to have been read."""
        if self.max_spend is not None and usage is None:
            logger.warning(
                "a reply of %s came without counts: its budget counts the estimated input", self.max_spend.model
            )
        self._end(Spend.of(usage) if usage is not None else self.max_spend.input_spend if self.max_spend else NO_SPEND)

    def release(self) -> None:
        """Gives back what was held: nothing was billed."""
        self._end(NO_SPEND)

    def _end(self, actual: Spend) -> None:
        accounts, self.accounts = self.accounts, []
        for account in accounts:
            assert self.max_spend is not None
            account.budget.settle(account, self.max_spend, actual)


@dataclass(frozen=True, slots=True)
class Budgets:
    """The accounts that a turn's requests are paid from."""

    accounts: Sequence[BudgetAccount]
    prices: Prices
    clock: Callable[[], datetime]

    def reserve(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Reservation:
        """Holds back for one request, in all accounts or in none. Raises BudgetExceededError, before anything is sent,
        where one of them has too little left, and UnpricedModelError where nobody knows what it would cost."""
        if not self.accounts:
            return Reservation()
        reservation = Reservation(self._estimate_max_spend(adapter, messages, tools, options))
        try:
            for account in self.accounts:
                assert reservation.max_spend is not None
                account.budget.reserve(account, reservation.max_spend)
                reservation.accounts.append(account)
        except BudgetExceededError:
            reservation.release()
            raise
        return reservation

    def _estimate_max_spend(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> MaxSpend:
        if options.output_schema is not None:  # providers tell the model of it much as of a tool
            tools = [*tools, ToolDefinition(name="answer", input_schema=dict(options.output_schema))]
        input_tokens = adapter.estimate_input_tokens(messages, tools)
        output_tokens = options.max_output_tokens or adapter.default_output_tokens
        # What is written to a cache on request costs more than plain input.
        bucket = "cache_creation_input_tokens" if options.prompt_cache else "input_tokens"
        model, now = str(adapter.model_id), self.clock()
        input_priced = self.prices.price(model, TokenUsage(**{bucket: input_tokens}), now)
        priced = self.prices.price(model, TokenUsage(**{bucket: input_tokens}, output_tokens=output_tokens), now)
        unpriced = priced.cost_status not in (CostStatus.PRICED, CostStatus.FREE)
        return MaxSpend(model, Spend.of(priced), Spend.of(input_priced), unpriced)
