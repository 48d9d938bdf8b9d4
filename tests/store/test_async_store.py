"""AsyncStore does the same as Store."""

import inspect

import anyio
import pytest

from dragoman.canonical.message import Message
from dragoman.store import AsyncStore, ConflictError, Store


def test_both_stores_have_the_same_calls() -> None:
    for name, method in inspect.getmembers(Store, inspect.isfunction):
        if name.startswith("_"):
            continue
        twin = inspect.signature(getattr(AsyncStore, name)).parameters
        assert list(twin) == list(inspect.signature(method).parameters), name
        awaited = inspect.isasyncgenfunction if name == "billed_replies" else inspect.iscoroutinefunction
        assert awaited(getattr(AsyncStore, name)), name


def test_every_call_can_be_awaited(place: str) -> None:
    async def main() -> None:
        async with AsyncStore(Store(place, synchronous="normal")) as store:
            session = await store.create("a:b", [Message.user("hello")], title="T")
            assert await store.append(session.id, [Message.user("there")], expected_version=1) == 2
            with pytest.raises(ConflictError):
                await store.append(session.id, expected_version=1)
            assert [message.text for message in (await store.load(session.id)).messages] == ["hello", "there"]
            assert (await store.record(session.id)).title == "T"
            fork = await store.fork(session.id)
            assert len(await store.search("hell")) == 2
            assert len((await store.list(model="a:b")).sessions) == 2
            lines = await store.export(fork.id)
            await store.delete(fork.id)
            assert (await store.import_lines(lines)).id == fork.id

    anyio.run(main)


def test_many_concurrent_turns_are_all_stored(place: str) -> None:
    async def main() -> None:
        async with AsyncStore(Store(place, synchronous="normal")) as store:
            session = await store.create()

            async def append_turn(number: int) -> None:
                await store.append(session.id, [Message.user(str(number))], expected_version=None)

            async with anyio.create_task_group() as tasks:
                for number in range(50):
                    tasks.start_soon(append_turn, number)
            found = await store.load(session.id)
            assert sorted(int(message.text) for message in found.messages) == list(range(50))
            assert found.version == 50

    anyio.run(main)


def test_a_cancelled_append_is_stored_wholly_or_not_at_all(place: str) -> None:
    """Afterwards the version is the number of stored messages."""

    async def main() -> None:
        async with AsyncStore(Store(place, synchronous="normal")) as store:
            session = await store.create()
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.append(session.id, [Message.user("x")], expected_version=0)
            assert (await store.record(session.id)).version in (0, 1)
            with anyio.move_on_after(0.0001):
                await store.append(session.id, [Message.user("y")], expected_version=None)
            found = await store.load(session.id)
            assert len(found.messages) == found.version

    anyio.run(main)
