"""A database that is busy: who waits for a lock or a place is told so, and nobody else is disturbed."""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, make_url, text

from dragoman_gateway.database import (
    LANES,
    Database,
    DatabaseBusyError,
    DatabaseRejectedError,
    DatabaseUnavailableError,
    Lane,
)
from dragoman_gateway.database.grouping import Grouping
from dragoman_gateway.keys.amounts import NoRoomError, SpentBudgetError, parse_budget
from dragoman_gateway.keys.balances import lock
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from tests.gateway.holding import holding
from tests.gateway.keyed import total_spend
from tests.gateway.replicas.relay import Relay
from tests.gateway.upstream import PATIENCE
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url

CENT = Amount(Decimal("0.01"), 100)
BUDGET = (parse_budget("1000"),)


@pytest.fixture
def postgres() -> Iterator[str]:
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as place:
        yield place


def locked(url: str, *scopes: str) -> AbstractContextManager[None]:
    """Hold the locks of some scopes, as another replica that is slow."""
    return holding(url, lambda connection: lock(connection, list(scopes)))


def test_who_waits_for_a_lock_disturbs_nobody_and_is_no_outage(postgres: str, caplog: pytest.LogCaptureFixture) -> None:
    """A scope that another replica holds is busy; other scopes, keys and responses go on, and nothing is logged."""
    database = Database(postgres, timeout=2)

    async def scenario() -> None:
        ledger = Ledger(database)
        await total_spend(ledger, "key:a")  # its database is open
        with locked(postgres, "key:a"):
            waiting = asyncio.create_task(ledger.reserve("one", {"key:a": BUDGET}, CENT))
            await asyncio.sleep(0.05)
            for number in range(5):
                await ledger.reserve(f"other{number}", {"key:b": BUDGET}, CENT)
            for lane in LANES:
                await database.read(lambda connection: connection.execute(text("SELECT 1")), lane)
            with pytest.raises(DatabaseBusyError) as raised:
                await waiting
        assert raised.value.wait == "lock"
        assert (database.outage.is_away, database.outage.may_ask) == (False, True)
        assert database.busy[Lane.LEDGER, "lock"] > 0
        await ledger.reserve("two", {"key:a": BUDGET}, CENT)
        await ledger.close()

    with caplog.at_level(logging.INFO, "dragoman.gateway"):
        asyncio.run(scenario())
    assert caplog.records == []
    database.close()


def test_a_lock_that_is_free_soon_is_waited_for(postgres: str) -> None:
    """For longer than one transaction may take: requests wait in the line, and none is refused."""
    database = Database(postgres, timeout=1.5)

    async def scenario() -> None:
        ledger = Ledger(database)
        await total_spend(ledger, "key:a")
        with ExitStack() as held:
            held.enter_context(locked(postgres, "key:a"))
            asking = [asyncio.create_task(ledger.reserve(f"r{each}", {"key:a": BUDGET}, CENT)) for each in range(20)]
            await asyncio.sleep(2)
            assert not any(each.done() for each in asking)
        await asyncio.gather(*asking)
        await ledger.close()

    asyncio.run(scenario())
    database.close()


def test_postgresql_ends_a_transaction_that_does_nothing(postgres: str) -> None:
    """That of a process that was stopped would hold its locks for ever."""
    database = Database(postgres, timeout=2)
    found = database.run(
        lambda connection: connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar()
    )
    database.close()
    assert found == "10s"


def test_what_arrives_together_is_one_transaction(database: Database) -> None:
    """A hundred requests of one budget need few of them, and are admitted in the order in which they came."""
    budget = (parse_budget("0.50"),)

    async def scenario() -> None:
        ledger = Ledger(database)
        await total_spend(ledger, "key:a")
        transactions, write = [], database.write

        async def count(work: Any, lane: Lane) -> Any:
            transactions.append(lane)
            return await write(work, lane)

        database.write = count  # type: ignore[method-assign]
        asked = (ledger.reserve(f"r{number}", {"key:a": budget}, CENT) for number in range(100))
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [outcome is None for outcome in outcomes] == [True] * 50 + [False] * 50
        assert {type(outcome) for outcome in outcomes[50:]} == {NoRoomError}
        assert len(transactions) <= 3
        for number in range(50):
            ledger.book(f"r{number}", ["key:a"], CENT)
        with pytest.raises(SpentBudgetError):
            await ledger.reserve("late", {"key:a": budget}, CENT)
        assert len(transactions) <= 4
        await ledger.close()

    asyncio.run(scenario())


def test_a_lane_that_is_full_says_so_and_leaves_the_others_alone(database: Database) -> None:
    ends = threading.Event()

    async def scenario() -> None:
        await database.read(lambda connection: None)  # it opens in the usual time, on a slow machine too
        database._timeout = 1

        def hold(connection: Connection) -> None:
            ends.wait(PATIENCE)

        holding = [asyncio.create_task(database.read(hold, Lane.RESPONSES)) for _ in range(LANES[Lane.RESPONSES])]
        await asyncio.sleep(0.05)
        more = asyncio.create_task(database.read(lambda connection: None, Lane.RESPONSES))
        if not database._is_serial:
            await database.read(lambda connection: connection.execute(text("SELECT 1")), Lane.KEYS)
        with pytest.raises(DatabaseBusyError) as raised:
            await more
        assert raised.value.wait == "place"
        ends.set()
        await asyncio.gather(*holding, return_exceptions=True)
        assert not database.outage.is_away

    asyncio.run(scenario())


def test_a_server_that_answers_nothing_is_an_outage_that_is_logged_once(
    postgres: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It takes what it is sent, and never replies: many requests meanwhile write two lines in all."""
    direct = make_url(postgres)
    with Relay(direct.host or "127.0.0.1", direct.port or 5432) as relay:
        relayed = direct.set(host="127.0.0.1", port=relay.port).render_as_string(hide_password=False)
        database = Database(relayed, timeout=1, pause=0.05)

        async def scenario() -> None:
            ledger = Ledger(database)
            await ledger.reserve("one", {"key:a": BUDGET}, CENT)
            relay.part()
            for number in range(8):
                ledger.book(f"r{number}", ["key:a"], CENT)
                with pytest.raises(DatabaseUnavailableError):
                    await database.read(lambda connection: connection.execute(text("SELECT 1")))
            assert database.outage.is_away
            relay.heal()
            deadline = time.monotonic() + PATIENCE
            while ledger.queued and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
            await ledger.close()
            assert ledger.dropped == 0

        with caplog.at_level(logging.INFO, "dragoman.gateway"):
            asyncio.run(scenario())
        database.close()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split(":")[0].split(",")[0] for line in lines] == [
        "the gateway's database does not answer",
        "the gateway's database answers again",
    ]


ASKED = st.lists(st.frozensets(st.sampled_from("abcd"), max_size=3), min_size=1, max_size=30)


@given(ASKED, st.integers(1, 3))
def test_what_shares_a_key_keeps_its_order_and_never_overlaps(asked: list[frozenset[str]], parallel: int) -> None:
    """Whatever arrives when, transactions that run at the same time share no key, and each key sees the order in which
    it was asked for."""
    seen: dict[str, list[int]] = {}
    running: list[frozenset[str]] = []

    async def work(numbers: Any, _: Any) -> list[int]:
        keys = frozenset[str]().union(*(asked[number] for number in numbers))
        assert all(keys.isdisjoint(other) for other in running)
        assert len(running) < parallel
        running.append(keys)
        for number in numbers:
            for key in asked[number]:
                seen.setdefault(key, []).append(number)
        for _ in range(len(numbers) % 3):
            await asyncio.sleep(0)
        running.remove(keys)
        return list(numbers)

    async def scenario() -> None:
        grouping: Grouping[int, Any, int] = Grouping(work, parallel=parallel)
        answers = []
        for number, keys in enumerate(asked):
            answers.append(asyncio.ensure_future(grouping.ask(number, keys)))
            if number % 4 == 0:
                await asyncio.sleep(0)
        assert await asyncio.gather(*answers) == list(range(len(asked)))

    asyncio.run(scenario())
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_one_that_the_database_refuses_fails_alone() -> None:
    async def work(numbers: Any, _: Any) -> list[int]:
        if 3 in numbers:
            raise DatabaseRejectedError("no")
        return list(numbers)

    async def scenario() -> list[Any]:
        grouping: Grouping[int, Any, int] = Grouping(work)
        return await asyncio.gather(*(grouping.ask(number) for number in range(6)), return_exceptions=True)

    outcomes = asyncio.run(scenario())
    assert [each for each in outcomes if isinstance(each, int)] == [0, 1, 2, 4, 5]
    assert isinstance(outcomes[3], DatabaseRejectedError)


def test_what_nobody_waits_for_is_to_blame_for_no_other() -> None:
    """A booking that the database refuses fails no request whose transaction it joins."""

    class Refused:
        keys = frozenset({"a"})

    async def work(numbers: Any, riders: Any) -> list[int]:
        if riders:
            raise DatabaseRejectedError("no")
        return list(numbers)

    async def scenario() -> int:
        grouping: Grouping[int, Refused, int] = Grouping(work, riders=lambda blocked: [Refused()])
        return await grouping.ask(1, frozenset({"a"}))

    assert asyncio.run(scenario()) == 1
