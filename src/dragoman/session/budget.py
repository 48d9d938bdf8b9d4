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
class Spent:
    """US dollars as far as they are known, and tokens of all four buckets."""

    usd: Decimal = _ZERO
    tokens: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.usd + other.usd, self.tokens + other.tokens)

    def __sub__(self, other: "Spent") -> "Spent":
        return Spent(self.usd - other.usd, self.tokens - other.tokens)

    @classmethod
    def of(cls, usage: Usage) -> "Spent":
        return cls(usage.cost_usd or _ZERO, usage.total_tokens)


NOTHING = Spent()


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
        self._users: dict[str | None, Account] = {}

    def __repr__(self) -> str:
        limits = [f"usd={self.usd}"] * (self.usd is not None) + [f"tokens={self.tokens}"] * (self.tokens is not None)
        return f"Budget({', '.join(limits)}, per={self.per!r})"

    def spent_by(self, user_id: str | None) -> Spent:
        """What the requests of that user, or team, came to under this budget, without those under way."""
        return self.of_user(user_id).spent

    def count(self, user_id: str | None, *, usd: Decimal = _ZERO, tokens: int = 0) -> None:
        """Counts what that user, or team, spent elsewhere, e.g. in an earlier run of the program."""
        account = self.of_user(user_id)
        with self._lock:
            account.spent += Spent(usd, tokens)

    def of_user(self, user_id: str | None) -> "Account":
        with self._lock:
            return self._users.setdefault(user_id, Account(self))

    def hold(self, account: "Account", most: "Most") -> None:
        """Holds back what a request may come to. Raises BudgetExceededError where that is more than is left."""
        if self.usd is not None and most.unpriced and not self.allow_unpriced:
            raise UnpricedModelError(most.model, self.per)
        with self._lock:
            taken = account.spent + account.held
            if self.usd is not None and taken.usd + most.spent.usd > self.usd:
                raise BudgetExceededError(self.per, "usd", self.usd, taken.usd, most.spent.usd)
            if self.tokens is not None and taken.tokens + most.spent.tokens > self.tokens:
                raise BudgetExceededError(self.per, "tokens", self.tokens, taken.tokens, most.spent.tokens)
            account.held += most.spent

    def settle(self, account: "Account", most: "Most", fact: Spent) -> None:
        with self._lock:
            account.held -= most.spent
            account.spent += fact


@dataclass(slots=True, eq=False)
class Account:
    """What has been spent of one budget by one session, turn, user or team, and what is held back."""

    budget: Budget
    spent: Spent = NOTHING
    held: Spent = NOTHING


class Accounts:
    """The accounts of one session, for each of its budgets."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._of_session: dict[Budget, Account] = {}

    def of_turn(self, user_id: str | None, team_id: str | None, spent: Callable[[], Spent]) -> list[Account]:
        """Those that hold for the turn that begins; ``spent`` says what the session had spent by then."""
        return [self._account(budget, user_id, team_id, spent) for budget in self._budgets]

    def _account(self, budget: Budget, user_id: str | None, team_id: str | None, spent: Callable[[], Spent]) -> Account:
        if budget.per in ("user", "team"):
            return budget.of_user(user_id if budget.per == "user" else team_id)
        if budget.per == "turn":
            return Account(budget)
        if budget not in self._of_session:
            self._of_session[budget] = Account(budget, spent())
        return self._of_session[budget]


@dataclass(frozen=True, slots=True)
class Most:
    """What a request can come to. ``read``: its input alone. ``unpriced``: the dollars are not all known."""

    model: str
    spent: Spent
    read: Spent
    unpriced: bool


@dataclass(slots=True, eq=False)
class Hold:
    """What is held back for one request, until it is settled or released; of these only the first counts."""

    most: Most | None = None
    accounts: list[Account] = field(default_factory=list)

    def settle(self, usage: Usage | None) -> None:
        """Puts the fact in the place of what was held. A reply that tells no counts is taken to have been read."""
        if self.most is not None and usage is None:
            logger.warning("a reply of %s came without counts: its budget counts the estimated input", self.most.model)
        self._end(Spent.of(usage) if usage is not None else self.most.read if self.most else NOTHING)

    def release(self) -> None:
        """Gives back what was held: nothing was billed."""
        self._end(NOTHING)

    def _end(self, fact: Spent) -> None:
        accounts, self.accounts = self.accounts, []
        for account in accounts:
            assert self.most is not None
            account.budget.settle(account, self.most, fact)


@dataclass(frozen=True, slots=True)
class Purse:
    """The accounts that a turn's requests are paid from."""

    accounts: Sequence[Account]
    prices: Prices
    clock: Callable[[], datetime]

    def hold(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Hold:
        """Holds back for one request, in all accounts or in none. Raises BudgetExceededError, before anything is sent,
        where one of them has too little left, and UnpricedModelError where nobody knows what it would cost."""
        if not self.accounts:
            return Hold()
        hold = Hold(self._most(adapter, messages, tools, options))
        try:
            for account in self.accounts:
                assert hold.most is not None
                account.budget.hold(account, hold.most)
                hold.accounts.append(account)
        except BudgetExceededError:
            hold.release()
            raise
        return hold

    def _most(
        self, adapter: Adapter, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> Most:
        if options.output_schema is not None:  # providers tell the model of it much as of a tool
            tools = [*tools, ToolDefinition(name="answer", input_schema=dict(options.output_schema))]
        read = adapter.estimate_input_tokens(messages, tools)
        written = options.max_output_tokens or adapter.default_output_tokens
        # What is written to a cache on request costs more than plain input.
        bucket = "cache_creation_input_tokens" if options.prompt_cache else "input_tokens"
        model, now = str(adapter.model_id), self.clock()
        input_alone = self.prices.price(model, TokenUsage(**{bucket: read}), now)
        whole = self.prices.price(model, TokenUsage(**{bucket: read}, output_tokens=written), now)
        unpriced = whole.cost_status not in (CostStatus.PRICED, CostStatus.FREE)
        return Most(model, Spent.of(whole), Spent.of(input_alone), unpriced)
