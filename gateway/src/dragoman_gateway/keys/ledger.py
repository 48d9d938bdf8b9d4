"""The ledger: what keys, users and teams have spent and reserved, in the database that all replicas share.

A reservation and the check before it are one transaction, so concurrent requests on any replica never spend the same
money. Requests that arrive while a transaction of their scopes runs are checked in turn in the next one. What was spent
is written behind the answers, in batches; until then the reservation stands for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sqlalchemy import Connection, delete, update

from dragoman_gateway.database import END_SECONDS, Database, DatabaseUnavailableError, Lane, retry_for
from dragoman_gateway.database.grouping import Grouping
from dragoman_gateway.database.tables import booked, reservations
from dragoman_gateway.keys.amounts import Concurrency, NoRoomError, PeriodBudget, SpentBudgetError
from dragoman_gateway.keys.balances import Asked, lock, read_balances, reserve, store
from dragoman_gateway.keys.ledger_entries import LEAST, Amount, Batch, LedgerEntries, LedgerEntry
from dragoman_gateway.keys.records import to_microseconds
from dragoman_gateway.log import logger

_LEASE = timedelta(seconds=120)
"""How long a reservation lasts if its replica does not renew it."""
_RENEW_SECONDS = 30.0
_FLUSH_SECONDS = 0.2
_RETRY_SECONDS = 1.0
_CLEAN_EVERY = timedelta(minutes=10)
_TRIED_FOR = timedelta(days=7)
"""How long the id of a stored batch is kept. Its replica learns much sooner that it is stored, or ends."""
_MAX_QUEUED = 10_000
_PARALLEL = 2
"""Transactions at the same time, of different scopes: one that waits for a lock delays no other scope."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NO_CONCURRENCY: Mapping[str, Concurrency] = {}


@dataclass(frozen=True, slots=True)
class Statement:
    """What a scope has spent: in all, in each period of its budgets, and what requests in flight have reserved."""

    total: Amount
    reserved: Amount
    periods: tuple[tuple[PeriodBudget, Amount, datetime | None], ...]
    """Each budget with what was spent in its period, and when the next one begins."""


@dataclass(frozen=True, slots=True)
class CrossedThreshold:
    """A budget of which a share has just been reached."""

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
    report: Callable[[CrossedThreshold], None]


class Ledger:
    """``watch`` reports budgets of which a share has been reached."""

    def __init__(
        self,
        database: Database,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        watch: Watch | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._watch = watch
        self._queue = LedgerEntries(_MAX_QUEUED)
        self._grouping = Grouping(self._transact, riders=self._queue.take, parallel=_PARALLEL)
        self._storing = 0
        """Bookings of transactions that run now."""
        self._clean_at = clock() + _CLEAN_EVERY
        self._active: dict[str, frozenset[str]] = {}
        """The scopes of the requests that are open, by the ids of their reservations."""
        self._task: asyncio.Task[None] | None = None
        self._closed = self._ended = False
        self.dropped = 0
        """Bookings that could not be stored: the database did not answer for too long, or the ledger was closed."""

    @property
    def queued(self) -> int:
        """Bookings that are not stored yet."""
        return len(self._queue) + self._storing

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
        asked = Asked(id=request_id, budgets=budgets, concurrency=concurrency, needed=needed)
        is_new = request_id not in self._active
        self._active[request_id] = asked.scopes
        self._start_flushing()
        try:
            await self._grouping.ask(asked, asked.scopes)
        except (SpentBudgetError, NoRoomError):
            if is_new:
                self._active.pop(request_id, None)
            raise

    async def check(
        self,
        budgets: Mapping[str, Sequence[PeriodBudget]],
        needed: Amount = LEAST,
        concurrency: Mapping[str, Concurrency] = _NO_CONCURRENCY,
    ) -> None:
        """Raise what `reserve` would raise now, and reserve nothing."""
        asked = Asked(budgets=budgets, concurrency=concurrency, needed=needed)
        await self._grouping.ask(asked, asked.scopes)

    def book(self, request_id: str, scopes: Iterable[str], amount: Amount, *, requests: int = 1) -> None:
        """Store what a request spent, after its reply, and end its reservation."""
        reserved = self._active.pop(request_id, frozenset[str]())
        day = (self._clock() - _EPOCH).days
        if self._ended:
            self.dropped += 1
            logger.error("a request ended after the last store: the spend of %d requests was dropped", self.dropped)
        elif self._queue.add(LedgerEntry(request_id, tuple(scopes), day, amount, requests, reserved)):
            self.dropped += 1
            logger.error("the database does not answer: the spend of %d requests was dropped", self.dropped)
        self._start_flushing()

    async def flush(self) -> None:
        """Store all bookings now. Raises DatabaseUnavailableError, and keeps them."""
        if self._active:
            await self._renew()
        await self._grouping.finish()  # what is being stored, or is not and waits again
        if self._queue:
            everything = Asked(budgets={}, concurrency={})
            await self._grouping.ask(everything, frozenset(self._queue.scopes))

    async def close(self, seconds: float = END_SECONDS) -> None:
        """Store what is left. A database that does not answer has some seconds to come back."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        try:
            await retry_for(seconds, self.flush)
        except DatabaseUnavailableError:
            self.dropped += len(self._queue)
            logger.error("the database does not answer: the spend of %d requests was dropped", self.dropped)
        self._ended = True

    async def statements(self, budgets: Mapping[str, Sequence[PeriodBudget]]) -> dict[str, Statement]:
        """Return what each scope has spent, as refusals count it. Raises DatabaseUnavailableError."""
        await self.flush()
        now = self._clock()
        first_days: dict[str, int | None] = dict.fromkeys(budgets, 1)
        balances = await self._database.read(lambda connection: read_balances(connection, first_days, now), Lane.LEDGER)
        found: dict[str, Statement] = {}
        for scope, own in budgets.items():
            balance = balances[scope]
            periods = [
                (each, balance.spend_since(each.period.first_day(now)), each.period.reset_at(now)) for each in own
            ]
            found[scope] = Statement(balance.spend_since(), balance.reserved, tuple(periods))
        return found

    async def _transact(self, asked: Sequence[Asked], batches: Sequence[Batch]) -> Sequence[Exception | None]:
        """Store bookings, and then reserve for requests, in one transaction. Raises DatabaseUnavailableError; then the
        bookings wait again."""
        now, watched = self._clock(), dict[str, Sequence[PeriodBudget]]()
        if self._watch is not None:
            scopes = {scope for batch in batches for booking in batch.bookings for scope in booking.scopes}
            watched = {scope: budgets for scope in sorted(scopes) if (budgets := self._watch.budgets(scope))}
        reserving = [each for each in asked if each.scopes]
        locked = sorted(set[str]().union(*(each.scopes for each in reserving if each.id is not None)))

        def work(connection: Connection) -> tuple[Sequence[CrossedThreshold], list[Exception | None]]:
            lock(connection, locked)
            crossings = self._crossings(connection, store(connection, batches, now), watched, now)
            return crossings, reserve(connection, reserving, now, now + _LEASE) if reserving else []

        number = sum(len(batch.bookings) for batch in batches)
        self._storing += number
        try:
            crossings, refusals = await self._database.write(work, Lane.LEDGER)
        except BaseException:
            self._queue.put_back(batches)
            self._start_flushing()
            raise
        finally:
            self._storing -= number
        for crossing in crossings:
            assert self._watch is not None
            self._watch.report(crossing)
        found = iter(refusals)
        return [next(found) if each.scopes else None for each in asked]

    def _start_flushing(self) -> None:
        if not self._closed and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._flush_regularly())

    async def _flush_regularly(self) -> None:
        """Store bookings while there are any. Reservations of open requests are renewed less often."""
        idle = 0.0
        while self.queued or self._active:
            pause = _FLUSH_SECONDS if self._database.outage.may_ask else _RETRY_SECONDS
            self._grouping.start(riders_alone=True)
            if idle >= _RENEW_SECONDS:
                idle = 0.0
                with suppress(DatabaseUnavailableError):  # the next renewal is long before the end of the lease
                    await self._renew()
            await asyncio.sleep(pause)
            idle += pause

    async def _renew(self) -> None:
        """Renew the reservations of open requests, and forget which batches were stored long ago."""
        now, active = self._clock(), sorted(self._active)
        cleans = now >= self._clean_at

        def work(connection: Connection) -> None:
            renewed = update(reservations).where(reservations.c.id.in_(active))
            connection.execute(renewed.values(expires_at=to_microseconds(now + _LEASE)))
            if cleans:
                connection.execute(delete(booked).where(booked.c.booked_at < to_microseconds(now - _TRIED_FOR)))

        await self._database.write(work, Lane.LEDGER)
        if cleans:
            self._clean_at = now + _CLEAN_EVERY

    def _crossings(
        self,
        connection: Connection,
        stored: Sequence[LedgerEntry],
        watched: Mapping[str, Sequence[PeriodBudget]],
        now: datetime,
    ) -> Sequence[CrossedThreshold]:
        """Return which shares of budgets are spent by the bookings. The rows that they change are locked, so one
        transaction of one replica sees each crossing."""
        if self._watch is None or not stored:
            return ()
        first_days: dict[str, int | None] = {
            scope: min(each.period.first_day(now) for each in budgets) for scope, budgets in watched.items()
        }
        balances = read_balances(connection, first_days, now)
        found: list[CrossedThreshold] = []
        for scope, budget in ((scope, budget) for scope, budgets in watched.items() for budget in budgets):
            first_day, reset_at = budget.period.first_day(now), budget.period.reset_at(now)
            spent, reserved = balances[scope].spend_since(first_day), balances[scope].reserved
            added = sum((each.amount for each in stored if scope in each.scopes and each.day >= first_day), Amount())
            before = Amount(spent.usd - added.usd, spent.tokens - added.tokens)
            found += [
                CrossedThreshold(scope, budget, share, spent, reserved, reset_at)
                for share in self._watch.shares
                if _reaches(spent, budget, share) and not _reaches(before, budget, share)
            ]
        return found


def _reaches(spent: Amount, budget: PeriodBudget, share: Decimal) -> bool:
    return (budget.usd is not None and spent.usd >= budget.usd * share) or (
        budget.tokens is not None and spent.tokens >= budget.tokens * share
    )
