"""The statements of the ledger: few for many requests, because each is a round trip to the server."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    CompoundSelect,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    insert,
    literal,
    null,
    or_,
    select,
    tuple_,
    update,
)

from dragoman.sql import ExactDecimal, insert_into
from dragoman_gateway.database.tables import booked, reservations, spend
from dragoman_gateway.keys.amounts import Concurrency, NoRoomError, PeriodBudget, SpentBudgetError, owner_of
from dragoman_gateway.keys.ledger_entries import LEAST, Amount, Batch, LedgerEntry
from dragoman_gateway.keys.records import to_microseconds

_LOCK_DAY = 0
_ZERO = Decimal(0)
_AMOUNT = (spend.c.usd, spend.c.tokens, spend.c.estimated_usd)
"""The columns of an `Amount`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a request may spend under each of its budgets, and the concurrency that it uses. ``id`` is that of its
    reservation; None only asks whether there is room."""

    id: str | None = None
    budgets: Mapping[str, Sequence[PeriodBudget]]
    concurrency: Mapping[str, Concurrency]
    needed: Amount = LEAST

    @property
    def scopes(self) -> frozenset[str]:
        return frozenset((*self.budgets, *self.concurrency))


@dataclass(slots=True)
class Balance:
    """What a scope has spent on each day, and what requests in flight have reserved, by their ids, at one moment."""

    days: dict[int, Amount] = field(default_factory=dict)
    held: dict[str, Amount] = field(default_factory=dict)

    @property
    def reserved(self) -> Amount:
        return sum(self.held.values(), Amount())

    def spend_since(self, first_day: int = 1) -> Amount:
        return sum((amount for day, amount in self.days.items() if day >= first_day), Amount())


def read_balances(connection: Connection, first_days: Mapping[str, int | None], now: datetime) -> dict[str, Balance]:
    """Read what scopes have spent since their first days, None for no day at all, and what is reserved, in one
    statement. PostgreSQL shows each statement what was committed before it: a reservation that became spend between two
    of them would count twice, or not at all.
    """
    found = {scope: Balance() for scope in first_days}
    since = [and_(spend.c.scope == scope, spend.c.day >= day) for scope, day in first_days.items() if day is not None]
    reserved = select(
        reservations.c.scope,
        null(),
        reservations.c.id,
        reservations.c.usd,
        reservations.c.tokens,
        literal(_ZERO, ExactDecimal),
    ).where(reservations.c.scope.in_(sorted(first_days)), reservations.c.expires_at > to_microseconds(now))
    query: Select[Any] | CompoundSelect[Any] = reserved
    if since:
        query = select(spend.c.scope, spend.c.day, null(), *_AMOUNT).where(or_(*since)).union_all(reserved)
    for scope, day, request_id, *amount in connection.execute(query):
        if day is None:
            found[scope].held[request_id] = Amount(*amount)
        else:
            found[scope].days[day] = Amount(*amount)
    return found


def lock(connection: Connection, scopes: Sequence[str]) -> None:
    """Make other transactions that reserve for these scopes wait. On SQLite the whole transaction does that."""
    if scopes and connection.dialect.name != "sqlite":
        _lock_rows(connection, [(scope, _LOCK_DAY) for scope in scopes])


def reserve(
    connection: Connection, asked: Sequence[Asked], now: datetime, lease_end: datetime
) -> list[Exception | None]:
    """Reserve for each request in turn all that it needs, or nothing. The scopes are locked.

    Return the errors of those that are refused, SpentBudgetError and NoRoomError. A second request with an id replaces
    the reservation of the first, and keeps its places.
    """
    scopes = sorted(set[str]().union(*(each.scopes for each in asked)))
    first_days: dict[str, int | None] = dict.fromkeys(scopes)  # None for a scope without a budget
    for each in asked:
        for scope, budgets in each.budgets.items():
            days = [budget.period.first_day(now) for budget in budgets]
            known = first_days[scope]
            first_days[scope] = min(days, default=None) if known is None else min(known, *days)
    balances = read_balances(connection, first_days, now)
    refusals: list[Exception | None] = []
    reserved: dict[str, Asked] = {}
    for each in asked:
        refusal = _refusal(each, balances, now)
        refusals.append(refusal)
        if refusal is None and each.id is not None:
            reserved[each.id] = each
            for scope in each.scopes:
                balances[scope].held[each.id] = each.needed
    if reserved:
        ended = and_(reservations.c.scope.in_(scopes), reservations.c.expires_at <= to_microseconds(now))
        connection.execute(delete(reservations).where(or_(ended, reservations.c.id.in_(sorted(reserved)))))
        until = to_microseconds(lease_end)
        rows = [
            {"id": name, "scope": scope, "usd": each.needed.usd, "tokens": each.needed.tokens, "expires_at": until}
            for name, each in reserved.items()
            for scope in sorted(each.scopes)
        ]
        connection.execute(insert(reservations), rows)
    return refusals


def store(connection: Connection, batches: Sequence[Batch], now: datetime) -> Sequence[LedgerEntry]:
    """Add up the bookings of the batches that no earlier transaction stored, end their reservations, and return
    them."""
    if not batches:
        return []
    at = to_microseconds(now)
    ids = [{"id": batch.id, "booked_at": at} for batch in batches]
    noted = insert_into(connection, booked).values(ids).on_conflict_do_nothing().returning(booked.c.id)
    new = set(connection.execute(noted).scalars())
    bookings = [booking for batch in batches if batch.id in new for booking in batch.bookings]
    amounts: dict[tuple[str, int], Amount] = {}
    requests: Counter[tuple[str, int]] = Counter()
    for booking in bookings:
        for scope in booking.scopes:
            row = (scope, booking.day)
            amounts[row] = amounts.get(row, Amount()) + booking.amount
            requests[row] += booking.requests
    if amounts:
        rows = sorted(amounts)
        found = _lock_rows(connection, rows)
        changed = []
        for scope, day in rows:
            before, number = found[scope, day]
            total = before + amounts[scope, day]  # summed here: SQLite would add amounts as floats
            changed.append({"of": scope, "at": day, **asdict(total), "requests": number + requests[scope, day]})
        this = (spend.c.scope == bindparam("of")) & (spend.c.day == bindparam("at"))
        names = ("usd", "tokens", "estimated_usd", "requests")
        connection.execute(update(spend).where(this).values({name: bindparam(name) for name in names}), changed)
    if bookings:
        ended = sorted({booking.id for booking in bookings})
        connection.execute(delete(reservations).where(reservations.c.id.in_(ended)))
    return bookings


def _lock_rows(connection: Connection, rows: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[Amount, int]]:
    """Lock rows of the table of spend in their order, so that two transactions never wait for each other, and return
    their amounts and numbers of requests. Missing ones are made."""
    query = select(spend.c.scope, spend.c.day, *_AMOUNT, spend.c.requests)
    query = query.where(tuple_(spend.c.scope, spend.c.day).in_(rows)).order_by(spend.c.scope, spend.c.day)

    def read() -> dict[tuple[str, int], tuple[Amount, int]]:
        found = connection.execute(query.with_for_update())
        return {(scope, day): (Amount(*amount), number) for scope, day, *amount, number in found}

    found = read()
    if missing := [row for row in rows if row not in found]:
        empty = [{"scope": scope, "day": day, **asdict(Amount()), "requests": 0} for scope, day in missing]
        connection.execute(insert_into(connection, spend).values(empty).on_conflict_do_nothing())
        found = read()
    return found


def _refusal(asked: Asked, balances: Mapping[str, Balance], now: datetime) -> Exception | None:
    """Return what refuses a request at these balances."""
    for scope in sorted(asked.scopes):
        balance = balances[scope]
        own = None if asked.id is None else balance.held.get(asked.id)
        most = asked.concurrency.get(scope)
        if most is not None and own is None and len(balance.held) >= most.requests:
            return NoRoomError(f"{owner_of(scope)} has as many requests in flight as it may ({most.requests:,})")
        budgets = asked.budgets.get(scope, ())
        reserved = balance.reserved if budgets else Amount()
        if own is not None:
            reserved = Amount(reserved.usd - own.usd, reserved.tokens - own.tokens)
        for budget in budgets:
            spent = balance.spend_since(budget.period.first_day(now))
            if _fits(budget, spent + reserved + asked.needed):
                continue
            if _fits(budget, spent + asked.needed):
                return NoRoomError(str(SpentBudgetError(scope, budget, spent, reserved, asked.needed, None)))
            return SpentBudgetError(scope, budget, spent, reserved, asked.needed, budget.period.reset_at(now))
    return None


def _fits(budget: PeriodBudget, amount: Amount) -> bool:
    return (budget.usd is None or amount.usd <= budget.usd) and (
        budget.tokens is None or amount.tokens <= budget.tokens
    )
