"""Stored responses in the database: what expires, what is cleaned, and what no client can do to it."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import InvalidRequestError, OverloadedError
from dragoman_gateway.database import Database, DatabaseUnavailableError, Lane
from dragoman_gateway.stored.records import StoredResponse
from dragoman_gateway.stored.response_store import ResponseStore
from dragoman_gateway.stored.turn import read_turn
from tests.gateway.keys.clock import Clock
from tests.gateway.upstream import PATIENCE
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        opened = Database(f"sqlite:///{tmp_path / 'gateway.db'}")
        yield opened
        opened.close()
        return
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as place:
        opened = Database(place)
        yield opened
        opened.close()


def stored(number: int, previous: str | None = None, **fields: Any) -> StoredResponse:
    item = {"id": f"msg_{number}", "type": "message", "role": "user", "content": f"{number}"}
    response = {"id": f"resp_{number}", "status": "completed", "output": [], **fields.pop("response", {})}
    return StoredResponse(
        id=f"resp_{number}", owner="a", previous_id=previous, input=[item], response=response, **fields
    )


def test_a_chain_lives_as_long_as_its_last_turn(database: Database) -> None:
    """Continuing a response keeps those before it; what was not continued expires and is deleted in parts."""
    clock = Clock()
    store = ResponseStore(database, lifetime=timedelta(days=1), clock=clock.now)

    async def scenario() -> None:
        await store.save(stored(1))
        await store.save(stored(9))
        clock.advance(80_000)
        await store.save(stored(2, "resp_1"))
        clock.advance(80_000)
        chain = await store.history("resp_2", "a")
        assert chain is not None
        assert [each.id for each in chain] == ["resp_1", "resp_2"]
        assert await store.find("resp_9", "a") is None
        assert await store.clean() == 1
        clock.advance(80_000)
        assert await store.clean() == 2
        assert await store.clean() == 0

    asyncio.run(scenario())


def test_an_id_that_exists_is_never_overwritten(database: Database) -> None:
    """A provider that repeats an id cannot put one key's response in place of another's."""
    store = ResponseStore(database)

    async def scenario() -> None:
        await store.save(stored(1))
        other = StoredResponse(
            id="resp_1", owner="b", response={"id": "resp_1", "status": "completed", "output": ["x"]}
        )
        await store.save(other)
        found = await store.find("resp_1", "a")
        assert found is not None
        assert found.output == []
        assert await store.find("resp_1", "b") is None

    asyncio.run(scenario())


def test_the_response_of_a_lost_replica_has_failed(database: Database) -> None:
    """A background response that no replica renews is failed, and stays so."""
    clock = Clock()
    store = ResponseStore(database, clock=clock.now)

    async def scenario() -> None:
        await store.begin(stored(1, background=True, response={"status": "queued"}))
        clock.advance(29)
        assert await store.renew("resp_1")
        clock.advance(29)
        found = await store.find("resp_1", "a")
        assert found is not None
        assert found.status == "queued"
        clock.advance(2)
        found = await store.find("resp_1", "a")
        assert found is not None
        assert (found.status, found.response["error"]["code"]) == ("failed", "server_error")
        assert not await store.renew("resp_1")
        assert not await store.update("resp_1", {"status": "completed"})

    asyncio.run(scenario())


@pytest.mark.parametrize("wrong", ["\x00", "resp_\ud800", "x" * 100_000, "resp_1' OR 1=1", ""])
def test_no_text_of_a_client_disturbs_the_database(database: Database, wrong: str) -> None:
    """Ids that a database cannot hold are not found, and its next transaction works; texts are stored as they are."""
    store = ResponseStore(database)

    async def scenario() -> None:
        for fields in ({"previous_response_id": wrong}, {"input": [{"type": "item_reference", "id": wrong}]}):
            with pytest.raises(InvalidRequestError, match="not found"):
                await read_turn({"model": "m", "input": "Hi", **fields}, "a", store)
        kept = StoredResponse(
            id="resp_7", owner="a", input=[{"id": wrong, "content": wrong}], response={"id": "resp_7", "output": []}
        )
        assert await store.save(kept)
        found = await store.find("resp_7", "a")
        assert found is not None
        assert found.input == kept.input
        assert not database.outage.is_away

    asyncio.run(scenario())


def test_a_response_waits_for_a_database_that_comes_back(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client had its reply at once. Of more than memory holds, the oldest are dropped and counted."""
    monkeypatch.setattr("dragoman_gateway.stored.response_store._LATE_SECONDS", 0.01)

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> None:
        store = ResponseStore(database, max_late=2)
        with monkeypatch.context() as outage:
            outage.setattr(database, "write", fail)
            for number in range(3):
                assert not await store.save(StoredResponse(id=f"resp_{number}", owner="me", response={"id": number}))
            await asyncio.sleep(0.05)
            found = await store.find("resp_2", "me")
            assert found is not None
            assert await store.find("resp_2", "another") is None
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while len(store.late):
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.02)
        assert [await store.find(f"resp_{number}", "me") is None for number in range(3)] == [True, False, False]
        assert store.dropped == 1
        with monkeypatch.context() as outage:
            outage.setattr(database, "write", fail)
            await store.save(StoredResponse(id="resp_3", owner="me", response={"id": 3}))
            await store.close(seconds=0)
        assert store.dropped == 2

    asyncio.run(scenario())


def test_a_response_that_is_being_stored_when_the_gateway_ends_is_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman_gateway.stored.response_store._LATE_SECONDS", 0)
    write = database.write

    async def scenario() -> StoredResponse | None:
        late = asyncio.Event()

        async def fail(*_: Any) -> Any:
            raise DatabaseUnavailableError("gone")

        async def hang(*_: Any) -> Any:
            monkeypatch.setattr(database, "write", write)
            late.set()
            await asyncio.sleep(0.05)
            raise DatabaseUnavailableError("gone")

        store = ResponseStore(database)
        monkeypatch.setattr(database, "write", fail)
        await store.save(StoredResponse(id="resp_1", owner="me", response={"id": "resp_1"}))
        monkeypatch.setattr(database, "write", hang)
        await late.wait()
        await store.close()
        return await store.find("resp_1", "me")

    assert asyncio.run(scenario()) is not None


def test_an_id_that_was_given_works_at_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database takes nothing, late responses are read, continued, referenced, listed and deleted as stored
    ones are, by their owner alone."""

    async def fail(*_: Any) -> Any:
        raise DatabaseUnavailableError("gone")

    async def scenario() -> None:
        store = ResponseStore(database)
        await store.save(stored(1))
        with monkeypatch.context() as outage:
            outage.setattr(database, "write", fail)
            assert not await store.save(stored(2, "resp_1"))
            assert not await store.save(stored(3, "resp_2"))
            chain = await store.history("resp_3", "a")
            assert chain is not None
            assert [each.id for each in chain] == ["resp_1", "resp_2", "resp_3"]
            assert await store.history("resp_3", "b") is None
            held = [item["id"] for each in (stored(1), stored(3)) for item in (*each.input, *each.output)]
            assert (await store.find_items(held, "a")).keys() == set(held)
            assert await store.find_items(held, "b") == {}
        assert await store.delete("resp_3", "a")
        assert await store.find("resp_3", "a") is None
        await store.close()
        assert len(store.late) == 0
        assert await ResponseStore(database).find("resp_2", "a") is not None
        assert await ResponseStore(database).find("resp_3", "a") is None

    asyncio.run(scenario())


def test_an_id_that_may_still_be_stored_is_no_final_refusal(database: Database) -> None:
    """Another worker has responses that wait: its clients may come here, and ask again with what a 503 says."""
    others = [True]
    store = ResponseStore(database, others_are_late=lambda: others[0])
    body = {"model": "m", "input": "Hi", "previous_response_id": "resp_7"}

    async def scenario() -> None:
        with pytest.raises(OverloadedError) as raised:
            await read_turn(dict(body), "a", store)
        assert (raised.value.status, raised.value.retry_after) == (503, 5)
        others[0] = False
        with pytest.raises(InvalidRequestError, match="not found"):
            await read_turn(dict(body), "a", store)
        database.outage.fail("gone")
        database.outage.retry_at = 0
        with pytest.raises(OverloadedError):  # its end is known a moment later
            await read_turn(dict(body), "a", store)

    asyncio.run(scenario())


def test_responses_that_end_together_are_stored_together(database: Database) -> None:
    """In few transactions, and one that the database refuses keeps no other from its place."""

    async def scenario() -> None:
        store = ResponseStore(database)
        await store.find("resp_0", "a")
        transactions, write = [], database.write

        async def count(work: Any, lane: Lane) -> Any:
            transactions.append(lane)
            return await write(work, lane)

        database.write = count  # type: ignore[method-assign]
        assert all(await asyncio.gather(*(store.save(stored(number)) for number in range(60))))
        assert len(transactions) <= 4
        for number in range(60):
            assert await store.find(f"resp_{number}", "a") is not None
        await store.close()

    asyncio.run(scenario())
