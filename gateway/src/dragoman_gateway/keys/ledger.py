"""The ledger: what keys, users and teams have spent and reserved, in the database that all replicas share.

A reservation and the check before it are one transaction, so concurrent requests on any replica never spend the same
money. What was spent is written behind the answers, in batches; until then the reservation stands for it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal, null, select, update
from sqlalchemy.dialects import postgresql, sqlite

from dragoman.logs import get_logger
from dragoman_gateway.database import END_SECONDS, Database, DatabaseUnavailableError, retry_for
from dragoman_gateway.database.tables import Money, booked, reservations, spend
from dragoman_gateway.keys.amounts import Concurrency, PeriodBudget
from dragoman_gateway.keys.bookings import LEAST, Amount, Batch, Booking, Bookings
from dragoman_gateway.keys.records import to_microseconds
from dragoman_gateway.keys.refusals import NoRoomError, SpentBudgetError, owner_of

logger = get_logger("dragoman.gateway")

Result = TypeVar("Result")

_LEASE = timedelta(seconds=120)
"""How long a reservation lasts if its replica does not renew it."""
_RENEW_SECONDS = 30.0
_FLUSH_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_CLEAN_EVERY = timedelta(minutes=10)
_TRIED_FOR = timedelta(days=7)
"""How long the id of a stored batch is kept. Its replica hears much sooner that it is stored, or ends."""
_MAX_QUEUED = 10_000
_LOCK_DAY = 0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO = Decimal(0)
_AMOUNT = (spend.c.usd, spend.c.tokens, spend.c.estimated_usd)
"""The columns of an `Amount`."""
_NO_CONCURRENCY: Mapping[str, Concurrency] = {}


@dataclass(frozen=True, slots=True)
class Statement:
    """What a scope has spent: in all, in each period of its budgets, and what requests in flight have reserved."""

    total: Amount
    reserved: Amount
    periods: tuple[tuple[PeriodBudget, Amount, datetime | None], ...]
    """Each budget with what was spent in its period, and when the next one begins."""


@dataclass(frozen=True, slots=True)
class _Balance:
    """What a scope has spent on each day, and what is reserved, at one moment."""

    days: Sequence[tuple[int, Amount]]
    reserved: Amount

    def spend_since(self, first_day: int = 1) -> Amount:
        return sum((amount for day, amount in self.days if day >= first_day), Amount())


@dataclass(frozen=True, slots=True)
class Crossing:
    """A budget of which a share was spent just now, and was not before."""

    scope: str
    budget: PeriodBudget
    share: Decimal
    spent: Amount
    reserved: Amount
    reset_at: datetime | None


@dataclass(frozen=True, slots=True)
class Watch:
    """The shares of budgets whose crossing is reported. ``budgets`` returns the budgets of a scope."""

    shares: Sequence[Decimal]
    budgets: Callable[[str], Sequence[PeriodBudget]]
    report: Callable[[Crossing], None]


class Ledger:
    """``watch`` reports budgets of which a share is spent."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        watch: Watch | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._watch = watch
        self._queue = Bookings(_MAX_QUEUED)
        self._clean_at = clock() + _CLEAN_EVERY
        self._storing: set[asyncio.Future[None]] = set()
        """Transactions that store bookings now."""
        self._active: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._closed = self._ended = False
        self.dropped = 0
        """Bookings that could not be stored: the database did not answer for too long, or the ledger was closed."""

    @property
    def queued(self) -> int:
        """Bookings that wait to be stored."""
        return len(self._queue)

    async def reserve(
        self,
        request_id: str,
        budgets: Mapping[str, Sequence[PeriodBudget]],
        needed: Amount,
        concurrency: Mapping[str, Concurrency] = _NO_CONCURRENCY,
    ) -> None:
        """Reserve an amount under all budgets of all scopes, and a place under each concurrency, or nothing. A second
        call with the same id replaces the first reservation, and keeps its places.

        Raises SpentBudgetError if too little is left, NoRoomError, and DatabaseUnavailableError.
        """
        now, scopes = self._clock(), {*budgets, *concurrency}

        def work(connection: Connection) -> None:
            _reserve(connection, request_id, budgets, concurrency, needed, now)

        storing = [*self._storing]
        try:
            await self._transact(work, locks=scopes)
        except (SpentBudgetError, NoRoomError):
            if not storing:
                raise
            await asyncio.wait(storing)  # what has ended on this replica makes room, and may be stored just now
            await self._transact(work, locks=scopes)
        self._active.add(request_id)
        self._start_flushing()

    async def check(
        self,
        budgets: Mapping[str, Sequence[PeriodBudget]],
        needed: Amount = LEAST,
        concurrency: Mapping[str, Concurrency] = _NO_CONCURRENCY,
    ) -> None:
        """Raise what `reserve` would raise now, and reserve nothing."""
        now = self._clock()

        def work(connection: Connection) -> None:
            _check(connection, budgets, concurrency, needed, now)

        try:
            await self._database.read(work)
        except (SpentBudgetError, NoRoomError):  # what has ended makes room, and may not be stored yet
            if storing := [*self._storing]:
                await asyncio.wait(storing)
            await self._transact(work)

    def book(self, request_id: str, scopes: Iterable[str], amount: Amount, *, requests: int = 1) -> None:
        """Store what a request spent, behind the answer, and end its reservation."""
        self._active.discard(request_id)
        day = (self._clock() - _EPOCH).days
        if self._ended:
            self.dropped += 1
            logger.error("a request has ended behind the last store: spend of %d requests was dropped", self.dropped)
        elif self._queue.add(Booking(request_id, tuple(scopes), day, amount, requests)):
            self.dropped += 1
            logger.error("the database does not answer: spend of %d requests was dropped", self.dropped)
        self._start_flushing()

    async def flush(self) -> None:
        """Store all bookings now. Raises DatabaseUnavailableError, and keeps them."""
        if storing := [*self._storing]:  # what other transactions cannot store waits again
            await asyncio.wait(storing)
        now, active = self._clock(), sorted(self._active)
        cleans = now >= self._clean_at

        def tend(connection: Connection) -> None:
            if active:
                renewed = update(reservations).where(reservations.c.id.in_(active))
                connection.execute(renewed.values(expires_at=to_microseconds(now + _LEASE)))
            if cleans:
                connection.execute(delete(booked).where(booked.c.booked_at < to_microseconds(now - _TRIED_FOR)))

        if self._queue or active:
            await self._transact(tend)
            if cleans:
                self._clean_at = now + _CLEAN_EVERY

    async def close(self, seconds: float = END_SECONDS) -> None:
        """Store what is left. A database that does not answer has some seconds to come back."""
        self._closed = True
        ending = {*self._storing}
        if self._task is not None:
            self._task.cancel()
            ending.add(self._task)
        if ending:  # transactions that end now may put their bookings back
            await asyncio.wait(ending)
        try:
            await retry_for(seconds, self.flush)
        except DatabaseUnavailableError:
            self.dropped += len(self._queue)
            logger.error("the database does not answer: spend of %d requests was dropped", self.dropped)
        self._ended = True

    async def statements(self, budgets: Mapping[str, Sequence[PeriodBudget]]) -> dict[str, "Statement"]:
        """Return what each scope has spent, as refusals count it. Raises DatabaseUnavailableError."""
        now = self._clock()
        if storing := [*self._storing]:  # this transaction could begin before those, and lack what they store
            await asyncio.wait(storing)
        return await self._transact(
            lambda connection: {scope: _statement(connection, scope, each, now) for scope, each in budgets.items()}
        )

    async def total_spend(self, scope: str) -> Amount:
        """Return what a scope has spent in all. Raises DatabaseUnavailableError."""
        return await self._database.read(lambda connection: _read_spend(connection, scope))

    async def _transact(self, work: Callable[[Connection], Result], locks: Iterable[str] = ()) -> Result:
        """Store all bookings and do more in one transaction. Raises DatabaseUnavailableError, and what `work` raises;
        then the bookings wait again.
        """
        batches, scopes = self._queue.take(), sorted(locks)
        watched, now = self._watched_budgets(batches), self._clock()
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if batches:
            self._storing.add(stored)

        def both(connection: Connection) -> tuple[Sequence[Crossing], Result]:
            for scope in scopes:  # in order, so that two requests never wait for each other
                _lock(connection, scope)
            return self._store(connection, batches, watched, now), work(connection)

        try:
            crossings, result = await self._database.write(both)
        except BaseException:
            self._queue.put_back(batches)
            self._start_flushing()
            raise
        finally:
            self._storing.discard(stored)
            stored.set_result(None)
        for crossing in crossings:
            assert self._watch is not None
            self._watch.report(crossing)
        return result

    def _start_flushing(self) -> None:
        if not self._closed and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._flush_regularly())

    async def _flush_regularly(self) -> None:
        """Flush while there is something to do. Reservations of open requests are renewed less often."""
        idle = 0.0
        while self._queue or self._active:
            pause = _FLUSH_SECONDS
            if self._queue or idle >= _RENEW_SECONDS:
                idle = 0.0
                try:
                    await self.flush()
                except DatabaseUnavailableError as error:
                    logger.warning("spend of %d requests waits to be stored: %s", len(self._queue), error)
                    pause = _RETRY_SECONDS
            await asyncio.sleep(pause)
            idle += pause

    def _watched_budgets(self, batches: Sequence[Batch]) -> Mapping[str, Sequence[PeriodBudget]]:
        """Return the budgets whose spend the bookings change, if crossings are reported."""
        if self._watch is None:
            return {}
        scopes = sorted({scope for batch in batches for booking in batch.bookings for scope in booking.scopes})
        return {scope: budgets for scope in scopes if (budgets := self._watch.budgets(scope))}

    def _store(
        self,
        connection: Connection,
        batches: Sequence[Batch],
        watched: Mapping[str, Sequence[PeriodBudget]],
        now: datetime,
    ) -> Sequence[Crossing]:
        """Store the bookings, and return which shares of budgets are spent by them. The rows that they change are
        locked, so one transaction of one replica sees each crossing.
        """
        bookings = _take_unstored(connection, batches, now)
        _add_up(connection, bookings)
        if self._watch is None:
            return ()
        shares = self._watch.shares
        return [
            crossing
            for scope, budgets in watched.items()
            for budget in budgets
            for crossing in _crossings(connection, bookings, scope, budget, shares, now)
        ]


def _take_unstored(connection: Connection, batches: Sequence[Batch], now: datetime) -> list[Booking]:
    """Return the bookings of the batches that no earlier transaction stored, and note their batches as stored."""
    if not batches:
        return []
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    at = to_microseconds(now)
    rows = [{"id": batch.id, "booked_at": at} for batch in batches]
    noted = dialect.insert(booked).values(rows).on_conflict_do_nothing().returning(booked.c.id)
    new = set(connection.execute(noted).scalars())
    return [booking for batch in batches if batch.id in new for booking in batch.bookings]


def _reserve(
    connection: Connection,
    request_id: str,
    budgets: Mapping[str, Sequence[PeriodBudget]],
    concurrency: Mapping[str, Concurrency],
    needed: Amount,
    now: datetime,
) -> None:
    """Reserve an amount and places for scopes that are locked. Raises SpentBudgetError and NoRoomError."""
    scopes = sorted({*budgets, *concurrency})
    connection.execute(
        delete(reservations).where(reservations.c.scope.in_(scopes), reservations.c.expires_at <= to_microseconds(now))
    )
    is_new = not connection.execute(delete(reservations).where(reservations.c.id == request_id)).rowcount
    _check(connection, budgets, concurrency if is_new else _NO_CONCURRENCY, needed, now)
    until = to_microseconds(now + _LEASE)
    connection.execute(
        insert(reservations),
        [
            {"id": request_id, "scope": scope, "usd": needed.usd, "tokens": needed.tokens, "expires_at": until}
            for scope in scopes
        ],
    )


def _check(
    connection: Connection,
    budgets: Mapping[str, Sequence[PeriodBudget]],
    concurrency: Mapping[str, Concurrency],
    needed: Amount,
    now: datetime,
) -> None:
    """Check an amount and places for scopes. Raises SpentBudgetError and NoRoomError."""
    for scope in sorted({*budgets, *concurrency}):
        if scope in concurrency and _count_in_flight(connection, scope, now) >= concurrency[scope].requests:
            raise NoRoomError(f"{owner_of(scope)} may have {concurrency[scope]}, and has as many requests in flight")
        first_days = [(budget, budget.period.first_day(now)) for budget in budgets.get(scope, ())]
        if not first_days:
            continue
        balance = _read_balance(connection, scope, now, min(day for _, day in first_days))
        for budget, first_day in first_days:
            spent, reserved = balance.spend_since(first_day), balance.reserved
            if _fits(budget, spent + reserved + needed):
                continue
            if _fits(budget, spent + needed):
                raise NoRoomError(str(SpentBudgetError(scope, budget, spent, reserved, needed, None)))
            raise SpentBudgetError(scope, budget, spent, reserved, needed, budget.period.reset_at(now))


def _fits(budget: PeriodBudget, amount: Amount) -> bool:
    return (budget.usd is None or amount.usd <= budget.usd) and (
        budget.tokens is None or amount.tokens <= budget.tokens
    )


def _crossings(
    connection: Connection,
    batch: Sequence[Booking],
    scope: str,
    budget: PeriodBudget,
    shares: Sequence[Decimal],
    now: datetime,
) -> Iterator[Crossing]:
    first_day = budget.period.first_day(now)
    balance = _read_balance(connection, scope, now, first_day)
    spent = balance.spend_since(first_day)
    added = sum((each.amount for each in batch if scope in each.scopes and each.day >= first_day), Amount())
    before = Amount(spent.usd - added.usd, spent.tokens - added.tokens)
    for share in shares:
        if not _reaches(before, budget, share) and _reaches(spent, budget, share):
            yield Crossing(scope, budget, share, spent, balance.reserved, budget.period.reset_at(now))


def _reaches(spent: Amount, budget: PeriodBudget, share: Decimal) -> bool:
    return (budget.usd is not None and spent.usd >= budget.usd * share) or (
        budget.tokens is not None and spent.tokens >= budget.tokens * share
    )


def _statement(connection: Connection, scope: str, budgets: Sequence[PeriodBudget], now: datetime) -> Statement:
    balance = _read_balance(connection, scope, now)
    periods = [(each, balance.spend_since(each.period.first_day(now)), each.period.reset_at(now)) for each in budgets]
    return Statement(balance.spend_since(), balance.reserved, tuple(periods))


def _lock(connection: Connection, scope: str) -> None:
    """Make other transactions that reserve for this scope wait. On SQLite the whole transaction does that."""
    if connection.dialect.name == "sqlite":
        return
    empty = _no_spend(scope, _LOCK_DAY)
    connection.execute(postgresql.insert(spend).values(**empty).on_conflict_do_nothing())
    row = select(spend.c.day).where(spend.c.scope == scope, spend.c.day == _LOCK_DAY)
    connection.execute(row.with_for_update())


def _add_up(connection: Connection, bookings: Sequence[Booking]) -> None:
    """Add up the bookings of each scope and day, and end their reservations."""
    if not bookings:
        return
    amounts: dict[tuple[str, int], Amount] = {}
    requests: Counter[tuple[str, int]] = Counter()
    for booking in bookings:
        for scope in booking.scopes:
            row = (scope, booking.day)
            amounts[row] = amounts.get(row, Amount()) + booking.amount
            requests[row] += booking.requests
    for row in sorted(amounts):
        _add(connection, *row, amounts[row], requests[row])
    connection.execute(delete(reservations).where(reservations.c.id.in_([booking.id for booking in bookings])))


def _add(connection: Connection, scope: str, day: int, amount: Amount, requests: int) -> None:
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    connection.execute(dialect.insert(spend).values(**_no_spend(scope, day)).on_conflict_do_nothing())
    this = (spend.c.scope == scope) & (spend.c.day == day)
    row = connection.execute(select(*_AMOUNT, spend.c.requests).where(this).with_for_update()).one()
    total = Amount(*row[:3]) + amount  # summed here: SQLite would add amounts as floats
    connection.execute(update(spend).where(this).values(**_columns(total), requests=row.requests + requests))


def _no_spend(scope: str, day: int) -> dict[str, Any]:
    return {"scope": scope, "day": day, **_columns(Amount()), "requests": 0}


def _columns(amount: Amount) -> dict[str, Any]:
    return {"usd": amount.usd, "tokens": amount.tokens, "estimated_usd": amount.estimated_usd}


def _read_spend(connection: Connection, scope: str) -> Amount:
    query = select(*_AMOUNT).where(spend.c.scope == scope, spend.c.day != _LOCK_DAY)
    return sum((Amount(*row) for row in connection.execute(query)), Amount())


def _is_held(scope: str, now: datetime) -> ColumnElement[bool]:
    """Whether a reservation is one of a scope, and has not expired."""
    return (reservations.c.scope == scope) & (reservations.c.expires_at > to_microseconds(now))


def _count_in_flight(connection: Connection, scope: str, now: datetime) -> int:
    query = select(func.count()).select_from(reservations).where(_is_held(scope, now))
    return connection.execute(query).scalar_one()


def _read_balance(connection: Connection, scope: str, now: datetime, first_day: int = 1) -> _Balance:
    """Read what is spent since a day, and what is reserved, in one statement. PostgreSQL shows each statement what was
    committed before it: a reservation that became spend between two of them would count twice, or not at all.
    """
    spent = select(spend.c.day, *_AMOUNT).where(spend.c.scope == scope, spend.c.day >= first_day)
    reserved = select(null(), reservations.c.usd, reservations.c.tokens, literal(_ZERO, Money)).where(
        _is_held(scope, now)
    )
    amounts = [(day, Amount(*amount)) for day, *amount in connection.execute(spent.union_all(reserved))]
    return _Balance(
        tuple((day, amount) for day, amount in amounts if day is not None),
        sum((amount for day, amount in amounts if day is None), Amount()),
    )
