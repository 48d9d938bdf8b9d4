"""A turn leaves nothing behind that waits for the garbage collector, whose search stops all threads."""

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import AsyncSession, Budget, Session, tool
from dragoman.events import EventBus
from dragoman.limits import Limit, Limits
from dragoman.testing import ScriptedProvider


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


@pytest.mark.parametrize("name", SETTINGS)
def test_an_async_turn_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """The same objects are freed in an async session."""
    with ScriptedProvider(*["Yes."] * 4) as provider, asyncio.Runner() as runner:
        session = AsyncSession(provider.model, **SETTINGS[name]())
        assert not left_by(lambda: runner.run(ask_each_way_async(session)))
        runner.run(session.close())
