"""What answers leaves nothing behind that waits for the garbage collector, whose search stops all threads."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import AsyncClient, AsyncSession, Budget, Client, Pipeline, Router, Session, tool
from dragoman.bulk import bulk
from dragoman.events import EventBus
from dragoman.limits import Limit, Limits
from dragoman.testing import ScriptedProvider
from tests.bulk.provider import HAIKU
from tests.bulk.provider import Provider as RowProvider
from tests.unit.embeddings.handwritten_provider import running_provider

EMBEDDING_MODEL = "openai:text-embedding-3-small"


@tool
def find(path: str) -> str:
    """Find it."""
    return path


SETTINGS: dict[str, Any] = {
    "nothing governs": dict,
    "events": lambda: {"events": EventBus()},
    "a budget": lambda: {"budgets": [Budget(tokens=10**9)]},
    "limits": lambda: {"limits": Limits([Limit(requests=1000)])},
    "tools": lambda: {"tools": [find]},
}


def ask_each_way(session: Session) -> None:
    """Ask for a whole reply and for a stream."""
    session.ask("Is it there?")
    with session.stream("Is it there?") as stream:
        assert list(stream)


async def ask_each_way_async(session: AsyncSession) -> None:
    """Do the same in an async session."""
    await session.ask("Is it there?")
    async with session.stream("Is it there?") as stream:
        assert [event async for event in stream]


def left_by(turns: Callable[[], object]) -> Counter[str]:
    """Return the library's objects that only a search for cycles frees after these turns."""
    turns()
    while gc.collect():  # what other tests left may need several rounds
        pass
    gc.disable()
    before = gc.get_debug()
    try:
        turns()
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        return Counter(type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("dragoman"))
    finally:
        gc.set_debug(before)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("name", SETTINGS)
def test_a_turn_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """Its objects are freed when it ends, because none of them refers to itself."""
    with ScriptedProvider(*["Yes."] * 4) as provider, Session(provider.model, **SETTINGS[name]()) as session:
        assert not left_by(lambda: ask_each_way(session))


WHOLE_SESSIONS: dict[str, Any] = {
    **SETTINGS,
    "labels": lambda: {"labels": ["internal"], "labels_without_policy": "allow"},
    "a policy": lambda: {"policy": Pipeline([])},
    "a router": lambda: {"router": Router()},
    "middleware": lambda: {"middleware": [lambda turn: turn]},
}


@pytest.mark.parametrize("name", WHOLE_SESSIONS)
def test_a_session_for_one_question_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """No part of it refers to the session: a server that makes one for each request frees it with the answer."""
    with ScriptedProvider(*["Yes."] * 4) as provider:
        settings = WHOLE_SESSIONS[name]()

        def ask() -> None:
            with Session(provider.model, **settings) as session:
                ask_each_way(session)

        assert not left_by(ask)


@pytest.mark.parametrize("name", WHOLE_SESSIONS)
def test_an_async_session_for_one_question_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """The same holds in an event loop."""
    with ScriptedProvider(*["Yes."] * 4) as provider, asyncio.Runner() as runner:
        settings = WHOLE_SESSIONS[name]()

        async def ask() -> None:
            async with AsyncSession(provider.model, **settings) as session:
                await ask_each_way_async(session)

        assert not left_by(lambda: runner.run(ask()))


GOVERNED = [name for name in SETTINGS if name != "tools"]


@pytest.mark.parametrize("name", GOVERNED)
def test_embeddings_leave_nothing_for_the_garbage_collector(name: str) -> None:
    """What governs a request for vectors is freed with it, in both clients."""
    with running_provider(dimensions=1536) as provider, asyncio.Runner() as runner:
        settings = {"providers": {"openai": {"base_url": provider.url, "api_key": "none"}}, **SETTINGS[name]()}
        with Client(**settings) as client:
            assert not left_by(lambda: client.embed(EMBEDDING_MODEL, ["one", "two"]))
        async_client = AsyncClient(**settings)
        assert not left_by(lambda: runner.run(async_client.embed(EMBEDDING_MODEL, ["one", "two"])))
        runner.run(async_client.close())


@pytest.mark.parametrize("name", GOVERNED)
def test_rows_leave_none_of_their_sessions_for_the_garbage_collector(name: str) -> None:
    """A run frees each row when it is answered. The exchange itself is httpx's, whose reply refers to itself."""

    def run() -> None:
        client = Client(providers=RowProvider().settings, **SETTINGS[name]())
        with bulk([f"question {number}" for number in range(5)], HAIKU, manifest="sqlite://", client=client) as report:
            assert len(list(report)) == 5

    assert left_by(run).keys().isdisjoint({"Message", "RowSession", "SessionConfig", "EarlyReservation"})


@pytest.mark.parametrize("name", SETTINGS)
def test_an_async_turn_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """The same objects are freed in an async session."""
    with ScriptedProvider(*["Yes."] * 4) as provider, asyncio.Runner() as runner:
        session = AsyncSession(provider.model, **SETTINGS[name]())
        assert not left_by(lambda: runner.run(ask_each_way_async(session)))
        runner.run(session.close())
