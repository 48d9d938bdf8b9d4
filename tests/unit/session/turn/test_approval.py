"""Calls that need approval: which calls are asked about, in which order, and what the model receives."""

from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.session import tool
from tests.unit.session.drivers import AsyncDriver, Driver, SyncDriver, Wire, texts
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

DECLINED = "The user declined this call."


@tool(side_effects="read")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


@tool(side_effects="write")
def remove(path: str) -> str:
    """Remove a file."""
    return f"{path} removed"


CALLS = (Call("t1", "look", {"at": "a"}), Call("t2", "remove", {"path": "b"}), Call("t3", "look", {"at": "c"}))


def wires(*calls: Call) -> dict[str, Wire]:
    return {"anthropic": Wire([handwritten_anthropic(*(calls or CALLS)), handwritten_anthropic("Ok.")])}


def answers(session: Any) -> list[tuple[str, bool]]:
    results = [result for message in session.messages for result in message.tool_results]
    return [(block.text, result.is_error) for result in results for block in result.content]


def test_declined_calls_do_not_run_and_the_others_do(driver: Driver) -> None:
    """The model reads a refusal instead of the result."""

    def approve(call: ToolUseBlock, definition: ToolDefinition) -> bool:
        return definition.side_effects in (SideEffects.NONE, SideEffects.READ)

    session = driver.session(wires(), tools=[look, remove], approve=approve)
    driver.ask(session, "Go")
    assert answers(session) == [("a: fine", False), (DECLINED, True), ("c: fine", False)]
    assert texts(session)[-1] == ("assistant", "Ok.")


def test_each_call_is_asked_about_in_order_before_any_runs(driver: Driver) -> None:
    """A person is asked one question at a time."""
    log: list[str] = []

    def approve(call: ToolUseBlock, definition: ToolDefinition) -> bool:
        log.append(f"{definition.name}? {call.input}")
        return True

    def note(at: str) -> None:
        """Note."""
        log.append(f"ran {at}")

    two = (Call("t1", "note", {"at": "a"}), Call("t2", "note", {"at": "b"}))
    session = driver.session(wires(*two), tools=[note], approve=approve)
    driver.ask(session, "Go")
    assert log[:2] == ["note? {'at': 'a'}", "note? {'at': 'b'}"]
    assert sorted(log[2:]) == ["ran a", "ran b"]


def test_an_impossible_call_needs_no_approval(driver: Driver) -> None:
    """Unknown tools and invalid arguments are answered without a question."""
    approved_names: list[str] = []

    def approve(call: ToolUseBlock, definition: ToolDefinition) -> bool:
        approved_names.append(call.name)
        return True

    session = driver.session(wires(Call("t1", "lock"), Call("t2", "look")), tools=[look], approve=approve)
    driver.ask(session, "Go")
    assert approved_names == []
    assert [is_error for _, is_error in answers(session)] == [True, True]


def test_an_async_session_awaits_the_decision() -> None:
    """The answer of a coroutine counts, not the coroutine."""

    async def approve(call: ToolUseBlock, definition: ToolDefinition) -> bool:
        return call.name == "look"

    driver = AsyncDriver()
    session = driver.session(wires(), tools=[look, remove], approve=approve)
    with driver.runner:
        driver.ask(session, "Go")
    assert [is_error for _, is_error in answers(session)] == [False, True, False]


def test_a_coroutine_is_no_approval() -> None:
    """A sync session refuses a coroutine as an answer: the object would be truthy, whatever its result."""

    async def ask_later() -> bool:
        return False

    ran: list[str] = []

    def act() -> None:
        """Act."""
        ran.append("act")

    session = SyncDriver().session(wires(Call("t1", "act")), tools=[act], approve=lambda call, definition: ask_later())
    with pytest.raises(ConfigurationError, match="only an AsyncSession does"):
        session.ask("Go")
    assert not ran


def test_an_exception_of_approve_ends_the_turn(driver: Driver) -> None:
    """The call stays unanswered in the history, and the next request says that it was interrupted."""

    def approve(call: ToolUseBlock, definition: ToolDefinition) -> bool:
        raise EOFError

    session = driver.session(wires(), tools=[look, remove], approve=approve)
    with pytest.raises(EOFError):
        driver.ask(session, "Go")
    assert [role for role, _ in texts(session)] == ["user", "assistant"]
