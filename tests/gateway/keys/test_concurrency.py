"""How many requests a key, a user or a team may have in flight, on all replicas together."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from dragoman.errors import ConfigurationError
from dragoman.session.effects import Broken
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.errors import UncountedError
from dragoman_gateway.keys.admission import KeyReservation
from dragoman_gateway.keys.amounts import Concurrency, NoRoomError, parse_budget, parse_concurrency
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.keys.records import Allowance
from tests.gateway.keyed import total_spend
from tests.gateway.keys.clock import Clock
from tests.gateway.keys.test_admission import Setup, settle, usage

TWO = {"key:a": Concurrency(2)}


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def admitted(ledger: Ledger, request_id: str, **more: Any) -> bool:
    try:
        await ledger.reserve(request_id, {}, Amount(), **{"concurrency": TWO, **more})
    except NoRoomError:
        return False
    return True


def test_parallel_requests_on_two_replicas_never_exceed_it(url: str) -> None:
    async def scenario() -> int:
        databases = [Database(url) for _ in range(2)]
        ledgers = [Ledger(database) for database in databases]
        await asyncio.gather(*(total_spend(ledger, "key:a") for ledger in ledgers))
        passed = await asyncio.gather(*(admitted(ledgers[i % 2], f"request{i}") for i in range(10)))
        for ledger, database in zip(ledgers, databases, strict=True):
            await ledger.close()
            database.close()
        return sum(passed)

    assert run(scenario()) == 2


def test_a_request_that_ended_makes_room(database: Database) -> None:
    """At once on its replica, and on the others when its end is stored."""

    async def scenario() -> None:
        here, elsewhere = Ledger(database), Ledger(database)
        assert await admitted(here, "one")
        assert await admitted(elsewhere, "two")
        assert not await admitted(here, "three")
        here.book("one", ("key:a",), Amount(), requests=0)
        assert await admitted(here, "four")
        elsewhere.book("two", ("key:a",), Amount(), requests=0)
        await elsewhere.flush()
        assert await admitted(here, "five")
        await here.close()
        await elsewhere.close()

    run(scenario())


def test_the_places_of_a_crashed_replica_are_free_after_two_minutes(database: Database) -> None:
    clock = Clock()

    async def scenario() -> None:
        dead, alive = Ledger(database, clock.now), Ledger(database, clock.now)
        assert await admitted(dead, "one")
        assert await admitted(dead, "two")
        clock.advance(119)
        assert not await admitted(alive, "three")
        clock.advance(2)
        assert await admitted(alive, "four")
        await alive.close()
        await dead.close()

    run(scenario())


def test_a_reservation_that_grows_keeps_its_place(database: Database) -> None:
    """A stream that runs is not ended if the number is lowered meanwhile."""

    async def scenario() -> None:
        ledger = Ledger(database)
        assert await admitted(ledger, "one")
        assert await admitted(ledger, "two")
        lowered = {"key:a": Concurrency(1)}
        assert await admitted(ledger, "one", concurrency=lowered)
        assert not await admitted(ledger, "three")
        await ledger.close()

    run(scenario())


async def _in_flight(setup: Setup, requests: int) -> list[KeyReservation]:
    found = await asyncio.gather(*(setup.admit() for _ in range(requests)), return_exceptions=True)
    return [each for each in found if isinstance(each, KeyReservation)]


def test_it_holds_with_and_without_a_budget_and_ends_with_each_request(database: Database) -> None:
    """A reply, a stream that broke and a request that was never sent give their places back."""

    async def scenario(allowance: Allowance) -> None:
        setup = Setup(database, allowance)
        one, two = await _in_flight(setup, 4)
        with pytest.raises(NoRoomError) as raised:
            await setup.admit()
        assert (raised.value.status, raised.value.retry_after) == (429, 1.0)
        assert "in flight as it may (2)" in str(raised.value)
        await settle(one, usage(3))
        await settle(two, Broken(RuntimeError("cut"), None, seen=True))
        three, four = await _in_flight(setup, 4)
        three.release()
        four.release()
        assert len(await _in_flight(setup, 4)) == 2
        await setup.ledger.close()

    run(scenario(Allowance(concurrency=Concurrency(2))))
    run(scenario(Allowance((parse_budget("100"),), concurrency=Concurrency(2))))


def test_keys_without_a_number_have_that_of_the_settings(database: Database) -> None:
    async def scenario() -> None:
        setup = Setup(database, Allowance(), concurrency=Concurrency(1))
        assert len(await _in_flight(setup, 3)) == 1
        own = Setup(database, Allowance(concurrency=Concurrency(3)), concurrency=Concurrency(1))
        assert len(await _in_flight(own, 5)) == 3
        await setup.ledger.close()
        await own.ledger.close()

    run(scenario())


def test_without_the_database_requests_pass_counted_unless_it_is_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> None:
        opened = Setup(database, Allowance(concurrency=parse_concurrency("1")))
        closed = Setup(database, Allowance(concurrency=parse_concurrency("1 closed")))
        for setup in (opened, closed):
            await setup.caller()
            monkeypatch.setattr(setup.ledger, "reserve", gone)
        assert len(await _in_flight(opened, 3)) == 3
        assert opened.rates.uncounted == 3
        with pytest.raises(UncountedError):
            await closed.admit()

    run(scenario())


@pytest.mark.parametrize("text", ["", "0", "-1", "many", "1/minute", "8 ajar"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_concurrency(text)
