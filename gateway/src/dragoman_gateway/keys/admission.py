"""Admission: reserves what a request may spend before it is sent, and settles what it spent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property, partial
from typing import Any
from uuid import uuid4

from dragoman.errors import DragomanError, UnpricedModelError
from dragoman.events import StreamEvent
from dragoman.limits import MaxUsage, MeasureUsage, Reservation
from dragoman.limits.reservation import ReservedOutput, charged_use, is_ended_here, is_unreadable
from dragoman.messages import CostStatus, TokenUsage, Usage
from dragoman.session.effects import Abandoned, Broken, Failed, Perform, SendOutcome
from dragoman_gateway.access import Caller, Prices
from dragoman_gateway.database import DatabaseBusyError, DatabaseUnavailableError
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.amounts import Concurrency, KeyLimit, NoRoomError, OnOutage, PeriodBudget, SpentBudgetError
from dragoman_gateway.keys.key_store import KeyCache
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import LEAST, Amount
from dragoman_gateway.keys.rates import Grants, Rates
from dragoman_gateway.log import logger

_MAX_REPORTED = 10_000
_KNOWN = (CostStatus.PRICED, CostStatus.FREE)
_STANDARD = {"service_tier": None, "speed": None, "raw": None, "unread": ()}
"""Fields of a reply that may change its price to an unknown one, each with the value of a standard reply."""


@dataclass(frozen=True, slots=True)
class UnknownPrice:
    """A reply whose price is unknown was booked at the price of the model that was asked."""

    scope: str
    model: str
    amount: Amount


@dataclass(eq=False)
class Admission:
    """Makes the reservations of requests, and counts what passed without one."""

    cache: KeyCache
    ledger: Ledger
    rates: Rates
    output_cap: int | None = None
    """The most output that is reserved at first: a stream that exceeds it reserves more while it runs. None reserves
    the most that the request names, or a default if it names none."""
    charges_failures: bool = True
    """Whether a stream that its provider broke is charged what had arrived."""
    concurrency: Concurrency | None = None
    """That of keys that have none of their own."""
    report: Callable[[UnknownPrice], object] | None = None
    """Called once a day for each scope and model with replies whose price is unknown."""
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    _reported: set[tuple[str, str, int]] = field(default_factory=set, init=False)
    unbudgeted: int = field(default=0, init=False)
    """Requests that passed while their budgets could not be checked."""
    estimated: int = field(default=0, init=False)
    """Replies that were booked as an estimate."""

    async def check(self, caller: Caller, prices: Prices, measure: MeasureUsage | None = None) -> None:
        """Raise the error that would refuse a request now because of budgets and concurrency, and reserve nothing.
        Without a measure, only what no request at all could be given is refused: it is not read yet.
        """
        reservation = self._new_reservation(caller, prices, measure)
        if not reservation.is_checked:
            return
        needed = LEAST
        if reservation.budgets and measure is not None:
            needed = await asyncio.to_thread(reservation.price)  # what is asked is read, and may be long
        with suppress(DatabaseUnavailableError):  # the reservation decides what follows from that
            await self.ledger.check(reservation.budgets, needed, reservation.concurrency)

    def governor(self, caller: Caller, prices: Prices) -> "KeyGovernor":
        """Return what governs each attempt of a caller's requests at these prices."""
        has_budgets = any(each.budgets for each in self.cache.allowances_for(caller).values())
        return KeyGovernor(partial(self._new_reservation, caller, prices), has_budgets)

    def note_unknown(self, unknown: UnknownPrice) -> None:
        key = (unknown.scope, unknown.model, self.clock().toordinal())
        if key in self._reported:
            return
        if len(self._reported) >= _MAX_REPORTED:
            self._reported.clear()
        self._reported.add(key)
        logger.warning(
            "the price of a reply is unknown: %s was charged $%s, the price of %s, which was asked",
            unknown.scope, unknown.amount.usd, unknown.model,
        )  # fmt: skip
        if self.report is not None:
            self.report(unknown)

    def _new_reservation(self, caller: Caller, prices: Prices, measure: MeasureUsage | None) -> "KeyReservation":
        allowances = self.cache.allowances_for(caller)
        concurrency = {scope: each.concurrency for scope, each in allowances.items() if each.concurrency is not None}
        if self.concurrency is not None and caller.key_id is not None:
            concurrency.setdefault(f"key:{caller.key_id}", self.concurrency)
        return KeyReservation(
            self,
            caller.scopes,
            prices,
            measure,
            budgets={scope: each.budgets for scope, each in allowances.items() if each.budgets},
            limits={scope: each.limits for scope, each in allowances.items() if each.limits},
            concurrency=concurrency,
        )


@dataclass(frozen=True, slots=True)
class KeyGovernor:
    """Lets the attempts of one caller's requests start: a `Governor`."""

    new_reservation: Callable[[MeasureUsage], "KeyReservation"]
    has_budgets: bool = False
    """Whether its key, its user or its team has one."""

    def reserve(self, measure: MeasureUsage) -> Reservation | Perform:
        """Reserve for one attempt, and wait for the limits.

        The effect raises SpentBudgetError, UnpricedModelError, LimitReachedError, or UncountedError while nothing can
        be checked.
        """
        reservation = self.new_reservation(measure)
        return _perform(reservation.open) if reservation.is_checked else reservation


@dataclass(eq=False)
class KeyReservation(Reservation):
    """What one attempt has reserved for a key, its user and its team. The request is measured only if that counts:
    estimating a long prompt costs time."""

    admission: Admission
    scopes: tuple[str, ...]
    prices: Prices
    measure: MeasureUsage | None
    budgets: Mapping[str, Sequence[PeriodBudget]]
    limits: Mapping[str, Sequence[KeyLimit]]
    concurrency: Mapping[str, Concurrency]
    # Made here: an id that a client sends could end another request's reservation.
    _id: str = field(default_factory=lambda: uuid4().hex, init=False)
    _reserved: Amount = field(default=Amount(), init=False)
    _ended: bool = field(default=False, init=False)
    _estimates: bool = field(default=False, init=False)
    _grants: Grants = field(default_factory=list, init=False)

    @property
    def is_checked(self) -> bool:
        """Whether anything can refuse the request."""
        return bool(self.budgets or self.concurrency or self.limits)

    async def open(self) -> "KeyReservation":
        """Reserve, and wait for the limits. Raises the errors of `KeyGovernor.reserve`."""
        if self.budgets or self.limits:
            await asyncio.to_thread(self._use)  # what is asked is read, and may be long
            if self.budgets and self._output.may_grow:
                self.stage = self._watch
        try:
            await self._reserve()
        except (asyncio.CancelledError, UncountedError):  # the database may have stored it all the same
            self.release()
            raise
        if not self.limits:
            return self
        try:
            use, cap = self._use(), self.admission.output_cap
            output = use.output_tokens if cap is None else min(cap, use.output_tokens)
            self._grants = await self.admission.rates.acquire(self.limits, use.model, use.input.total_tokens, output)
        except BaseException:
            self.release()
            raise
        return self

    def settle(self, outcome: SendOutcome) -> Perform | None:
        """Book what the attempt is charged, as `charged_use` says; what its provider broke, unless that is free."""
        match outcome:
            case Failed(error=error) if getattr(error, "sent", None) is False:
                return self._end(None, requests=0, sent=False)
            case Abandoned(sent=False):
                return self._end(None, requests=0, sent=False)
            case Broken() if not is_ended_here(outcome):
                # Clients ask again for a stream that the provider broke, and the pair is one request.
                used = self._charged(outcome) if self.admission.charges_failures else None
                return self._end(used, requests=int(is_unreadable(outcome)))
            case _:
                return self._end(self._charged(outcome))

    def release(self) -> None:
        """End the reservation of a request that was never sent."""
        self._end(None, requests=0, sent=False)

    def price(self) -> Amount:
        """Return what is to be reserved. Raises UnpricedModelError."""
        use = self._use()
        total = use.total_with(self._output.tokens)
        priced = self.prices.price(use.model, total, self.admission.clock())
        for scope, budgets in self.budgets.items():
            if priced.cost_status not in _KNOWN and any(
                each.usd is not None and not each.allow_unpriced for each in budgets
            ):
                raise UnpricedModelError(use.model, scope.partition(":")[0])
        return Amount(priced.cost_usd or Decimal(0), priced.total_tokens)

    def _use(self) -> MaxUsage:
        assert self.measure is not None
        return self.measure()

    @cached_property
    def _output(self) -> ReservedOutput:
        return ReservedOutput(self._use(), self.admission.output_cap)

    async def _reserve(self) -> None:
        if not (self.budgets or self.concurrency):
            return
        admission = self.admission
        self._reserved = self.price() if self.budgets else Amount()
        try:
            await admission.ledger.reserve(self._id, self.budgets, self._reserved, self.concurrency)
        except DatabaseUnavailableError as error:
            rules = [each.on_outage for budgets in self.budgets.values() for each in budgets]
            rules += [each.on_outage for each in self.concurrency.values()]
            if OnOutage.CLOSED in rules:
                busy = isinstance(error, DatabaseBusyError)
                reason = "too many requests wait for it" if busy else "the database does not answer"
                raise UncountedError(f"the budget of this key cannot be checked at the moment: {reason}") from None
            if self.budgets:
                admission.unbudgeted += 1
            else:
                admission.rates.uncounted += 1

    def _watch(self, event: StreamEvent) -> Sequence[StreamEvent] | Perform:
        """Count the output of a stream. If it exceeds what is reserved, reserve more before the event is passed on."""
        return _perform(partial(self._grow, event)) if self._output.count(event) else (event,)

    async def _grow(self, event: StreamEvent) -> Sequence[StreamEvent]:
        """Reserve more output. Raises SpentBudgetError if the budget ends here, and NoRoomError."""
        try:
            await self._reserve()
        except (SpentBudgetError, NoRoomError) as error:
            error.sent = True
            raise
        return (event,)

    def _charged(self, outcome: SendOutcome) -> Usage | None:
        used = charged_use(outcome, self._input, self._output.counted if self.stage is not None else 0)
        if used is None or isinstance(used, Usage):
            return used
        self._estimates = True
        return self.prices.price(self._use().model, used, self.admission.clock())

    def _input(self) -> TokenUsage | None:
        """Return the estimated input. None if nothing had to be reserved and only the provider could read the
        request."""
        try:
            return self._use().input
        except DragomanError:
            return None

    def _end(self, usage: Usage | None, *, requests: int = 1, sent: bool = True) -> Perform | None:
        """Book, and return the effect that settles the limits. The first call counts."""
        if self._ended:
            return None
        self._ended = True
        self.stage = None  # it refers to this reservation, which would wait for the garbage collector
        if sent or self.budgets or self.concurrency:
            amount = Amount() if usage is None else self._amount(usage)
            if self._estimates:
                amount = replace(amount, estimated_usd=amount.usd)
            self.admission.ledger.book(self._id, self.scopes if sent else (), amount, requests=int(sent))
            self.admission.estimated += self._estimates
        if not self._grants:
            return None
        return _perform(partial(self.admission.rates.settle, self._grants, usage, requests=requests))

    def _amount(self, usage: Usage) -> Amount:
        """Return what is booked for a usage. Where something counts, an unknown price becomes that of the model that
        was asked, or all that was reserved if that has none either."""
        cost, tokens = usage.cost_usd, usage.total_tokens
        if (cost is not None and usage.cost_status in _KNOWN) or not (self.budgets or self.limits):
            return Amount(cost or Decimal(0), tokens)
        use = self._use()  # it is measured already
        standard = TokenUsage.model_validate(
            {name: getattr(usage, name) for name in TokenUsage.model_fields} | _STANDARD
        )
        asked = self.prices.price(use.model, standard, self.admission.clock())
        estimate = self._reserved.usd if asked.cost_usd is None else asked.cost_usd
        amount = Amount(max(estimate, cost or Decimal(0)), tokens)
        if cost is None and amount.usd:
            self._estimates = True
            self.admission.note_unknown(UnknownPrice(self.scopes[0], use.model, amount))
        return amount


def _perform(work: Callable[[], Awaitable[Any]]) -> Perform:
    return Perform(work, work)  # the gateway asks in an event loop alone


async def spend_page(ledger: Ledger, cache: KeyCache, caller: Caller) -> dict[str, Any]:
    """Return the same numbers that refusals name. Raises DatabaseUnavailableError."""
    allowances = cache.all_allowances() if caller.admin else cache.allowances_for(caller)
    data: list[dict[str, Any]] = []
    statements = await ledger.statements({scope: each.budgets for scope, each in allowances.items()})
    for scope, statement in statements.items():
        budgets = [
            {
                "budget": str(budget),
                "spent": spent.to_json(),
                "left": budget.left(spent + statement.reserved).to_json(),
                "reset_at": None if reset_at is None else reset_at.isoformat(),
            }
            for budget, spent, reset_at in statement.periods
        ]
        amounts = {"spent": statement.total.to_json(), "reserved": statement.reserved.to_json()}
        data.append({"scope": scope, **amounts, "budgets": budgets, "limits": allowances[scope].describe_limits()})
    return {"object": "list", "data": data}
