"""Budgets that hold under concurrency, over replicas, and when the database fails."""

import asyncio
from collections.abc import Coroutine
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import event

from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.keys.amounts import NoRoomError, PeriodBudget, SpentBudgetError, parse_budget
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from tests.gateway.keyed import total_spend
from tests.gateway.keys.clock import Clock
from tests.gateway.upstream import PATIENCE
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url

CENT = Amount(Decimal("0.01"), 100)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


def budgets(text: str, *scopes: str) -> dict[str, tuple[PeriodBudget, ...]]:
    return {scope: (parse_budget(text),) for scope in scopes or ("key:a",)}


async def admitted(ledger: Ledger, request_id: str, held: dict[str, tuple[PeriodBudget, ...]]) -> bool:
    try:
        await ledger.reserve(request_id, held, CENT)
    except (SpentBudgetError, NoRoomError):
        return False
    return True


def test_parallel_requests_on_two_replicas_never_spend_the_same_money(url: str) -> None:
    """Of twenty parallel requests on two replicas, a budget for three admits three."""

    async def scenario() -> int:
        databases = [Database(url) for _ in range(2)]
        ledgers = [Ledger(database) for database in databases]
        await asyncio.gather(*(total_spend(ledger, "key:a") for ledger in ledgers))
        passed = await asyncio.gather(
            *(admitted(ledgers[i % 2], f"request{i}", budgets("0.03/month")) for i in range(20))
        )
        for ledger, database in zip(ledgers, databases, strict=True):
            await ledger.close()
            database.close()
        return sum(passed)

    assert run(scenario()) == 3


def test_what_a_request_did_not_spend_is_free_again(database: Database) -> None:
    """The real cost replaces the reservation, exactly, for the key and its team."""

    async def scenario() -> None:
        ledger = Ledger(database)
        held = budgets("0.01/month", "key:a", "team:b")
        await ledger.reserve("one", held, CENT)
        ledger.book("one", ["key:a", "team:b"], Amount(Decimal("0.0000000001"), 7))
        assert not await admitted(ledger, "two", held)
        await ledger.reserve("two", held, Amount(Decimal("0.0099999999"), 1))
        await ledger.flush()
        assert await total_spend(ledger, "team:b") == Amount(Decimal("0.0000000001"), 7)
        await ledger.close()

    run(scenario())


def test_a_refusal_by_one_scope_reserves_nothing_of_the_others(database: Database) -> None:
    """If the team's budget is spent, the key's budget stays as it was."""

    async def scenario() -> None:
        ledger = Ledger(database)
        for _ in range(2):
            with pytest.raises(SpentBudgetError, match=r"the team b is \$0\.001"):
                await ledger.reserve("x", {**budgets("0.01"), **budgets("0.001", "team:b")}, CENT)
        assert await admitted(ledger, "y", budgets("0.01"))
        await ledger.close()

    run(scenario())


def test_the_refusal_says_what_is_spent_and_what_is_reserved(database: Database) -> None:
    """The error names the budget, what is spent, what is reserved, and when the next period begins."""
    clock = Clock()

    async def scenario() -> str:
        ledger = Ledger(database, clock.now)
        ledger.book("old", ["key:a"], Amount(Decimal("0.03")))
        await ledger.reserve("open", budgets("0.05/month"), CENT)
        with pytest.raises(SpentBudgetError) as raised:
            await ledger.reserve("new", budgets("0.05/month"), Amount(Decimal("0.03")))
        assert (raised.value.per, raised.value.unit, raised.value.spent) == ("key", "usd", Decimal("0.04"))
        await ledger.close()
        return str(raised.value)

    assert run(scenario()) == (
        "the budget of this key is $0.05/month: $0.0300 are spent, $0.0100 are reserved for requests in flight, and"
        " this request could take $0.0300; it begins again at 2026-12-01 00:00 UTC"
    )


def test_what_only_reservations_fill_has_room_again(database: Database) -> None:
    """A budget that is not spent refuses for now, with the time of another try; one that is spent refuses for good."""

    async def scenario() -> tuple[str, float | None, int | None]:
        ledger = Ledger(database)
        ledger.book("old", ["key:a"], Amount(Decimal("0.01")))
        await ledger.reserve("open", budgets("0.03/month"), Amount(Decimal("0.02")))
        with pytest.raises(NoRoomError) as raised:
            await ledger.reserve("new", budgets("0.03/month"), Amount(Decimal("0.02")))
        ledger.book("open", ["key:a"], Amount())
        await ledger.reserve("new", budgets("0.03/month"), Amount(Decimal("0.02")))
        ledger.book("new", ["key:a"], Amount(Decimal("0.02")))
        with pytest.raises(SpentBudgetError):
            await ledger.reserve("late", budgets("0.03/month"), CENT)
        await ledger.close()
        return str(raised.value), raised.value.retry_after, raised.value.status

    message, retry_after, status = run(scenario())
    assert "$0.0100 are spent, $0.0200 are reserved" in message
    assert "try again when one has ended" in message
    assert (retry_after, status) == (1, 429)


def test_a_new_period_begins_with_nothing_spent(database: Database) -> None:
    """What was spent in November does not count in December, and counts in a budget without a period."""
    clock = Clock()

    async def scenario() -> tuple[bool, bool]:
        ledger = Ledger(database, clock.now)
        ledger.book("old", ["key:a"], CENT)
        assert not await admitted(ledger, "now", budgets("0.01/month"))
        clock.advance(9 * 86_400)
        passed = await admitted(ledger, "later", budgets("0.01/month")), await admitted(ledger, "l2", budgets("0.01"))
        await ledger.close()
        return passed

    assert run(scenario()) == (True, False)


def test_the_reservation_of_a_crashed_replica_expires(database: Database) -> None:
    """A replica that dies leaves a reservation, which ends by itself; an open request renews its own."""
    clock = Clock()

    async def scenario() -> None:
        dead, alive = Ledger(database, clock.now), Ledger(database, clock.now)
        await dead.reserve("crashed", budgets("0.01"), CENT)
        clock.advance(119)
        assert not await admitted(alive, "one", budgets("0.01"))
        clock.advance(2)
        assert await admitted(alive, "two", budgets("0.01"))
        clock.advance(100)
        await alive.flush()
        clock.advance(100)
        assert not await admitted(alive, "three", budgets("0.01"))
        await alive.close()
        await dead.close()

    run(scenario())


def test_spend_waits_for_a_database_that_comes_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bookings stay queued while the database is gone, and are stored when it answers."""

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> Amount:
        ledger = Ledger(database)
        with monkeypatch.context() as outage:
            outage.setattr(database, "write", fail)
            ledger.book("one", ["key:a"], CENT)
            with pytest.raises(DatabaseUnavailableError):
                await ledger.flush()
            assert (ledger.queued, ledger.dropped) == (1, 0)
        await ledger.close()
        return await total_spend(ledger, "key:a")

    assert run(scenario()) == CENT


def test_spend_that_could_not_be_stored_is_counted(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway that stops while the database is gone says how much spend it drops."""

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> int:
        ledger = Ledger(database)
        monkeypatch.setattr(database, "write", fail)
        ledger.book("one", ["key:a"], CENT)
        await ledger.close(seconds=0)
        return ledger.dropped

    assert run(scenario()) == 1


def test_spend_that_is_booked_behind_the_end_is_counted(database: Database) -> None:
    async def scenario() -> int:
        ledger = Ledger(database)
        await ledger.close()
        ledger.book("late", ["key:k"], Amount(Decimal(1), 5))
        return ledger.dropped

    assert run(scenario()) == 1


def test_spend_that_waits_at_the_end_is_stored_when_the_database_is_back(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database that is away at that moment may answer a second later."""
    answers = iter((False, True))
    write = database.write

    async def fail_once(work: Any, *lane: Any) -> Any:
        if not next(answers):
            raise DatabaseUnavailableError("gone")
        return await write(work, *lane)

    async def scenario() -> tuple[int, Amount]:
        ledger = Ledger(database)
        ledger.book("one", ["key:a"], CENT)
        with monkeypatch.context() as outage:
            outage.setattr(database, "write", fail_once)
            outage.setattr("dragoman_gateway.database._RETRY_SECONDS", 0.01)
            await ledger.close()
        return ledger.dropped, await total_spend(ledger, "key:a")

    assert run(scenario()) == (0, CENT)


@pytest.mark.parametrize("reserves", [False, True])
def test_spend_that_is_being_stored_when_the_gateway_ends_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch, *, reserves: bool
) -> None:
    """The transaction is the regular one, or that of a request: the end interrupts the first, and waits for both."""
    write = database.write

    async def scenario() -> Amount:
        begun = asyncio.Event()

        async def write_slowly(work: Any, *lane: Any) -> Any:
            monkeypatch.setattr(database, "write", write)
            begun.set()
            for _ in range(20):
                await asyncio.sleep(0)
            raise DatabaseUnavailableError("gone")

        ledger = Ledger(database)
        monkeypatch.setattr(database, "write", write_slowly)
        requests = [asyncio.create_task(ledger.reserve("two", budgets("1"), CENT))] if reserves else []
        ledger.book("one", ["key:a"], CENT)
        await begun.wait()
        await ledger.close()
        await asyncio.gather(*requests, return_exceptions=True)
        return await total_spend(ledger, "key:a")

    assert run(scenario()) == CENT


def test_spend_that_is_booked_meanwhile_counts_once() -> None:
    """PostgreSQL shows each statement what was committed before it: a reservation that becomes spend between two of
    them would count twice, or not at all.
    """
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as url:
        here, elsewhere = Database(url), Database(url)

        async def scenario() -> None:
            ledger, other = Ledger(here), Ledger(elsewhere)
            await asyncio.gather(*(other.reserve(f"open{number}", budgets("1"), CENT) for number in range(2)))
            await total_spend(ledger, "key:a")  # its database is open
            loop, to_book = asyncio.get_running_loop(), ["open0"]

            async def book(request_id: str) -> None:
                other.book(request_id, ["key:a"], CENT)
                await other.flush()

            def book_behind(*execution: Any) -> None:
                """Book an open request behind the first statement that reads amounts."""
                if to_book and execution[2].startswith("SELECT") and "usd" in execution[2]:
                    asyncio.run_coroutine_threadsafe(book(to_book.pop()), loop).result(PATIENCE)

            event.listen(here._engine, "after_cursor_execute", book_behind)
            statement = (await ledger.statements(budgets("1")))["key:a"]
            assert statement.total + statement.reserved == CENT + CENT
            assert [spent for _, spent, _ in statement.periods] == [statement.total]
            to_book.append("open1")
            assert await admitted(ledger, "new", budgets("0.03"))
            assert to_book == []
            await ledger.close()
            await other.close()

        run(scenario())
        here.close()
        elsewhere.close()


def test_a_statement_has_the_spend_that_is_being_stored(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transaction could begin before the one that stores it, and show neither the spend nor a reservation."""
    write = database.write

    async def scenario() -> Amount:
        begun, goes_on = asyncio.Event(), asyncio.Event()

        async def write_late(work: Any, *lane: Any) -> Any:
            monkeypatch.setattr(database, "write", write)
            begun.set()
            await goes_on.wait()
            return await write(work, *lane)

        ledger = Ledger(database)
        await total_spend(ledger, "key:a")  # its database is open
        monkeypatch.setattr(database, "write", write_late)
        ledger.book("one", ["key:a"], CENT)
        await begun.wait()
        asyncio.get_running_loop().call_later(0.2, goes_on.set)
        statement = (await ledger.statements(budgets("1")))["key:a"]
        await ledger.close()
        return statement.total

    assert run(scenario()) == CENT


def test_spend_is_booked_once_if_the_answer_of_the_database_is_lost(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction may be stored although its replica hears nothing. The same bookings are then tried again."""
    write = database.write

    async def lose(work: Any, *lane: Any) -> Any:
        await write(work, *lane)
        raise DatabaseUnavailableError("gone")

    async def scenario() -> Amount:
        ledger = Ledger(database)
        for lost in (True, True, False):
            ledger.book("one", ["key:a"], CENT)
            with monkeypatch.context() as outage:
                if lost:
                    outage.setattr(database, "write", lose)
                    with pytest.raises(DatabaseUnavailableError):
                        await ledger.reserve("next", budgets("1"), CENT)
        await ledger.close()
        return await total_spend(ledger, "key:a")

    assert run(scenario()) == CENT + CENT + CENT


def test_spend_is_booked_after_a_refusal_that_no_request_follows(database: Database) -> None:
    """A refused reservation stores nothing, and what it would have booked on its way is booked behind it."""

    async def scenario() -> int:
        ledger = Ledger(database)
        assert await admitted(ledger, "one", budgets("0.01"))
        ledger.book("one", ["key:a"], CENT)
        refused = asyncio.create_task(admitted(ledger, "two", budgets("0.01")))
        await asyncio.sleep(0)
        assert ledger._task is not None
        ledger._task.cancel()  # it has found nothing to do meanwhile, and ended
        assert not await refused
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while ledger.queued and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.02)
        waiting = ledger.queued
        await ledger.close()
        return waiting

    assert run(scenario()) == 0
