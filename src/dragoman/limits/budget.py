"""Budgets: what a client, a session, a turn, a user or a team may spend. Each request is checked before it is sent.

Before a request, its cost is reserved: the estimated input, and the output that it allows or a default, at the rates of
the price table. A stream that exceeds the default reserves more while it runs. The usage of the reply then replaces the
reservation. Reservations count for all who share a budget, so two requests never pass a check that only one of them may
pass.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Literal, get_args

from dragoman.adapter.contract import Prices
from dragoman.adapter.errors import BudgetExceededError, ConfigurationError, UnpricedModelError
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.forks import ProcessLock
from dragoman.canonical.log import get_logger
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.effects import SendOutcome
from dragoman.limits.reservation import (
    NOTHING_RESERVED,
    MaxUsage,
    MeasureUsage,
    Reservation,
    ReservedOutput,
    charged_use,
)

logger = get_logger("dragoman.budget")

Per = Literal["client", "session", "turn", "user", "team"]
_ZERO = Decimal(0)
_KNOWN = (CostStatus.PRICED, CostStatus.FREE)
_NOT_COUNTS = {"service_tier", "speed", "reported_total", "reported_cost_usd", "unread", "raw"}
"""What a reply reports besides its counts. A tier and a speed may have no price; the standard one then counts."""


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
    """A limit in US dollars, in tokens, or both, for each ``client``, ``session``, ``turn``, ``user`` or ``team``.

    By default, a budget of a client is for the client, and one of a session is for the session. A client is one
    `Client` object in one process, with everything that it sends; another process has a budget of its own. A turn is
    one `ask`, `stream` or `compact` with all its rounds of tools and all its attempts. Users and teams are identified
    by ``user_id`` and ``team_id``, as they are stored; a session or a run that names none is refused before it starts.
    Share one Budget among all their sessions, which may run in different threads. What a session spent before it was
    loaded counts. What a client, a user or a team spent in another program is added by `add_spend`;
    `Store.total_spend` has the numbers.

    Under a limit in dollars, a model without a known price is refused, unless ``allow_unpriced`` is set: its replies
    then cost 0. If the model that was asked has a price and its reply has none, such as one in a service tier that the
    price table does not know, the reply is charged the model's price, as an estimate. Raises ConfigurationError without
    a limit, or for a negative one.
    """

    def __init__(
        self,
        *,
        usd: Decimal | str | int | None = None,
        tokens: int | None = None,
        per: Per | None = None,
        allow_unpriced: bool = False,
    ) -> None:
        if usd is None and tokens is None:
            raise ConfigurationError("a budget needs a limit in usd, in tokens, or in both")
        if isinstance(usd, float):
            raise ConfigurationError("usd must be a Decimal, an int or a string: a float is not exact")
        if usd is not None and (isinstance(usd, bool) or not isinstance(usd, (Decimal, str, int))):
            raise ConfigurationError(f"usd must be an amount of dollars, not a value of the class {type(usd).__name__}")
        if tokens is not None and (isinstance(tokens, bool) or not isinstance(tokens, int)):
            raise ConfigurationError("tokens must be a whole number")
        if per is not None and per not in get_args(Per):
            raise ConfigurationError(f"per must be one of {', '.join(get_args(Per))}, not {per!r:.40}")
        try:
            self.usd = None if usd is None else Decimal(usd)
            """The limit in US dollars; None without one."""
        except ArithmeticError:
            raise ConfigurationError(f"usd must be an amount of dollars, not {usd!r:.40}") from None
        usd_is_valid = self.usd is None or (self.usd.is_finite() and self.usd >= 0)
        if not usd_is_valid or (tokens is not None and tokens < 0):
            raise ConfigurationError("the limit of a budget must be at least 0")
        self.tokens = tokens
        """The limit in tokens of prompts and replies; None without one."""
        self._per: Per | None = per
        self.allow_unpriced = allow_unpriced
        self._lock = ProcessLock()
        self._accounts: dict[str | None, BudgetAccount] = {}

    @property
    def per(self) -> Per:
        """What the limit is for; ``session`` if nothing else is said and the budget is not one of a client."""
        return self._per or "session"

    def bind(self, per: Per) -> None:
        """Set what the limit is for, unless that is set already."""
        self._per = self._per or per

    def __repr__(self) -> str:
        limits = {"usd": self.usd, "tokens": self.tokens}
        given = ", ".join(f"{unit}={limit}" for unit, limit in limits.items() if limit is not None)
        return f"Budget({given}, per={self.per!r})"

    def spend_of(self, user_id: str | None = None) -> Spend:
        """Return what that user or team has spent under this budget, without requests in flight; None for the
        client."""
        return self.account_for(user_id).spent

    def add_spend(self, user_id: str | None, *, usd: Decimal = _ZERO, tokens: int = 0) -> None:
        """Add what that user or team spent elsewhere, e.g. in an earlier run of the program; None for the client."""
        account = self.account_for(user_id)
        with self._lock:
            account.spent += Spend(usd, tokens)

    def account_for(self, user_id: str | None) -> "BudgetAccount":
        """Return the account of a user or team, or with None that of the budget itself. All callers share it."""
        with self._lock:
            return self._accounts.setdefault(user_id, BudgetAccount(self))

    def reserve(self, account: "BudgetAccount", max_spend: "MaxSpend") -> None:
        """Reserve the maximum spend of a request. Raises BudgetExceededError if too little is left."""
        if self.usd is not None and max_spend.unpriced and not self.allow_unpriced:
            raise UnpricedModelError(max_spend.model, self.per)
        with self._lock:
            for unit, limit in (("usd", self.usd), ("tokens", self.tokens)):
                spent = getattr(account.spent, unit)
                reserved = getattr(account.reserved, unit)
                needed = getattr(max_spend.amount, unit)
                if limit is not None and spent + reserved + needed > limit:
                    raise BudgetExceededError(self.per, unit, limit, spent + reserved, needed, reserved)
            account.reserved += max_spend.amount

    def settle(self, account: "BudgetAccount", max_spend: "MaxSpend", actual: Spend) -> None:
        """Give back what was reserved for a request, and add what it cost."""
        with self._lock:
            account.reserved -= max_spend.amount
            account.spent += actual


@dataclass(slots=True, eq=False)
class BudgetAccount:
    """The spend and the reservations of one client, session, turn, user or team under one budget."""

    budget: Budget
    spent: Spend = NO_SPEND
    reserved: Spend = NO_SPEND


class BudgetAccounts:
    """The accounts of one session, for each of its budgets."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._budgets = tuple(budgets)
        self._session_accounts: dict[Budget, BudgetAccount] = {}

    def check(self, user_id: str | None, team_id: str | None) -> None:
        """Raise ConfigurationError if a budget is for users or teams, and none is named."""
        ids = {"user": user_id, "team": team_id}
        for budget in self._budgets:
            per = budget.per
            if per in ids and ids[per] is None:
                raise ConfigurationError(
                    f"a budget per {per} does not know who pays: give {per}_id, or use a budget per client"
                )

    def for_turn(self, user_id: str | None, team_id: str | None, spent: Callable[[], Spend]) -> list[BudgetAccount]:
        """Return the accounts of a new turn; ``spent`` returns what the session has spent so far. Raises as `check`
        does."""
        self.check(user_id, team_id)
        return [self._account(budget, user_id, team_id, spent) for budget in self._budgets]

    def _account(
        self, budget: Budget, user_id: str | None, team_id: str | None, spent: Callable[[], Spend]
    ) -> BudgetAccount:
        if budget.per in ("user", "team"):
            return budget.account_for(user_id if budget.per == "user" else team_id)
        if budget.per == "client":
            return budget.account_for(None)
        if budget.per == "turn":
            return BudgetAccount(budget)
        if budget not in self._session_accounts:
            self._session_accounts[budget] = BudgetAccount(budget, spent())
        return self._session_accounts[budget]


@dataclass(frozen=True, slots=True)
class MaxSpend:
    """The maximum spend of a request: ``amount``, with the tokens of its ``input``. ``unpriced``: some of the price is
    unknown. ``price`` returns what the model that is asked costs for a usage."""

    model: str
    amount: Spend
    input: TokenUsage
    unpriced: bool
    price: Callable[[TokenUsage], Usage]

    def charge(self, usage: TokenUsage) -> Spend:
        """Return what a reply is charged for a `Usage`, which its provider reported, or for a plain `TokenUsage`, an
        estimate."""
        if isinstance(usage, Usage) and usage.cost_usd is not None:
            return Spend.of(usage)
        counts = {name: getattr(usage, name) for name in TokenUsage.model_fields if name not in _NOT_COUNTS}
        standard = self.price(TokenUsage.model_validate(counts))
        usd = standard.cost_usd or _ZERO
        if not isinstance(usage, Usage):
            logger.warning("a reply of %s has no token counts: the budget counts an estimate", self.model)
            return Spend(usd, standard.total_tokens)
        if standard.cost_status not in _KNOWN:  # the standard price is a part of the cost, or unknown, too
            usd = max(usd, self.amount.usd)
        if usd:
            logger.warning("a reply of %s has no known price: the budget counts $%s, an estimate", self.model, usd)
        return Spend(usd, usage.total_tokens)


class BudgetReservation(Reservation):
    """The maximum spend of one request, in each account that pays for it. ``output`` says for how much output that is,
    and whether a stream exceeds it. ``price`` returns the maximum spend with so many tokens of output."""

    def __init__(
        self,
        max_spend: MaxSpend,
        output: ReservedOutput | None = None,
        price: Callable[[int], MaxSpend] | None = None,
    ) -> None:
        self._max_spend = max_spend
        self._accounts: list[BudgetAccount] = []
        if output is not None and price is not None and output.may_grow:
            self.stage = partial(self._watch, output, price)

    def add(self, account: BudgetAccount) -> None:
        """Reserve in one more account. Raises BudgetExceededError."""
        account.budget.reserve(account, self._max_spend)
        self._accounts.append(account)

    def _watch(
        self, output: ReservedOutput, price: Callable[[int], MaxSpend], event: StreamEvent
    ) -> Sequence[StreamEvent]:
        """Reserve more if a stream exceeds what is reserved. Raises BudgetExceededError if a budget ends here."""
        if not output.count(event):
            return (event,)
        more = price(output.tokens)  # `count` has increased them
        added = BudgetReservation(replace(more, amount=more.amount - self._max_spend.amount))
        try:
            for account in self._accounts:
                added.add(account)
        except BudgetExceededError as error:
            added.release()
            error.sent = True
            raise
        self._max_spend = more  # with what `added` has reserved: `_end` gives back all of it
        return (event,)

    def settle(self, outcome: SendOutcome) -> None:
        """Replace the reservation by what the reply is charged."""
        if self._accounts:
            used = charged_use(outcome, lambda: self._max_spend.input)
            self._end(NO_SPEND if used is None else self._max_spend.charge(used))

    def release(self) -> None:
        self._end(NO_SPEND)

    def _end(self, actual: Spend) -> None:
        accounts, self._accounts = self._accounts, []
        self.stage = None  # it refers to this reservation, which would wait for the garbage collector
        for account in accounts:
            account.budget.settle(account, self._max_spend, actual)


@dataclass(frozen=True, slots=True)
class Budgets:
    """The accounts that a turn's requests are charged to."""

    accounts: Sequence[BudgetAccount]
    prices: Prices
    clock: Callable[[], datetime]

    def reserve(self, measure: MeasureUsage) -> Reservation:
        """Reserve for one request, in all accounts or in none.

        Raises, before anything is sent, BudgetExceededError if an account has too little left, and UnpricedModelError
        if the price is unknown.
        """
        if not self.accounts:
            return NOTHING_RESERVED
        use, now = measure(), self.clock()
        output = ReservedOutput(use)
        price = partial(self._max_spend, use, now)
        reservation = BudgetReservation(price(output.tokens), output, price)
        try:
            for account in self.accounts:
                reservation.add(account)
        except BudgetExceededError:
            reservation.release()
            raise
        return reservation

    def _max_spend(self, use: MaxUsage, now: datetime, output_tokens: int) -> MaxSpend:
        """Return the maximum spend of a request with so much output."""

        def price(usage: TokenUsage) -> Usage:
            return self.prices.price(use.model, usage, now)

        priced = price(use.total_with(output_tokens))
        return MaxSpend(
            use.model,
            Spend.of(priced),
            use.input,
            unpriced=priced.cost_status not in _KNOWN,
            price=price,
        )
