"""Guards of what agents cost, without a clock: functions that are called."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Budget, Client
from tests.benchmarks.agents import sessions
from tests.benchmarks.agents.requests import history
from tests.benchmarks.call_counts import calls_of

SHORT, LONG = 50, 1_000
GOVERNED: dict[str, Callable[[], dict[str, Any]]] = {
    "nothing": dict,
    "an event bus": lambda: {"events": sessions._bus()},
    "a budget": lambda: {"budgets": [Budget(usd=sessions.LARGE)]},
}


@pytest.mark.parametrize("kind", GOVERNED)
def test_a_turn_does_not_read_the_history_again(kind: str) -> None:
    """A turn after a history twenty times as long calls at most a tenth more functions."""
    short, long = (
        calls_of(sessions.turns(sessions.session(history(length), **GOVERNED[kind]()), 2)) for length in (SHORT, LONG)
    )
    assert long < 1.1 * short


def test_sums_do_not_read_the_history_again() -> None:
    session = sessions.session(history(LONG))
    session.ask("And now?")
    assert calls_of(lambda: (session.usage, session.cost)) < 200


def test_known_tools_cost_a_session_little() -> None:
    """Twenty tools that another session has checked cost fewer calls than twice the question itself."""
    client, tools = Client(providers=sessions.PROVIDERS), sessions._functions(20)

    def ask(**settings: Any) -> Callable[[], object]:
        return lambda: client.session(sessions.NAME, **settings).ask("What is the capital of France?")

    assert calls_of(ask(tools=tools)) < 2 * calls_of(ask())
