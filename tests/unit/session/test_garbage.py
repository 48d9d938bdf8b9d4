"""A turn leaves nothing behind that waits for the garbage collector, whose search stops all threads."""

import gc
from collections import Counter
from typing import Any

import pytest

from dragoman import Budget, Session, tool
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


@pytest.mark.parametrize("name", SETTINGS)
def test_a_turn_leaves_nothing_for_the_garbage_collector(name: str) -> None:
    """Its objects are freed when it ends, because none of them refers to itself."""
    with ScriptedProvider(*["Yes."] * 7) as provider, Session(provider.model, **SETTINGS[name]()) as session:
        for _ in range(3):
            session.ask("Is it there?")
        while gc.collect():  # what other tests left may need several rounds
            pass
        gc.disable()
        before = gc.get_debug()
        try:
            for _ in range(4):
                session.ask("Is it there?")
            gc.set_debug(gc.DEBUG_SAVEALL)
            gc.collect()
            left = Counter(type(each).__name__ for each in gc.garbage if type(each).__module__.startswith("dragoman"))
        finally:
            gc.set_debug(before)
            gc.garbage.clear()
            gc.enable()
    assert not left
