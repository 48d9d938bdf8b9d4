"""The tools of a turn: a list, or a function that chooses them, and how many run at once."""

import threading
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, ToolSchemaError
from dragoman.session import Session, Tool, tool
from dragoman.tools import Context
from tests.unit.session.drivers import ANTHROPIC, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.session.turn.tool_rounds import FOREVER, call, results, session_of


@tool
def counted(context: Context[int]) -> str:
    """Count."""
    return str(context.value)


@tool
def first() -> str:
    """First."""
    return "1"


@tool
def second() -> str:
    """Second."""
    return "2"


def test_a_function_chooses_the_tools_of_each_turn(driver: Driver) -> None:
    """It knows the context and the history. A call of another turn's tool is refused."""
    seen: list[tuple[Any, int, str]] = []

    def choose(context: Context[str]) -> list[Tool]:
        seen.append((context.value, len(context.messages), context.tool_name))
        return [second if context.messages else first]

    wire = Wire(
        [
            handwritten_anthropic(call("first")),
            handwritten_anthropic("One."),
            handwritten_anthropic(call("first", 2), call("second", 3)),
            handwritten_anthropic("Two."),
        ]
    )
    session = driver.session({"anthropic": wire}, tools=choose, context="c")
    driver.ask(session, "Go")
    driver.stream(session, "Again")
    assert [[each["name"] for each in request["tools"]] for request in wire.requests] == [
        ["first"], ["first"], ["second"], ["second"],
    ]  # fmt: skip
    assert [is_error for _, is_error in results(session)] == [False, True, False]
    assert seen == [("c", 0, ""), ("c", 4, "")]


def test_an_error_of_the_choice_is_raised_before_anything_is_sent(driver: Driver) -> None:
    """Its own, or that of a tool that it returned; the tools stay as they were."""
    choices: list[Any] = [LookupError("none"), [first, first], [counted], [first]]

    def choose(context: Context[None]) -> Any:
        chosen = choices.pop(0)
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    session, wire = session_of(driver, tools=choose)
    for kind in (LookupError, ToolSchemaError, ConfigurationError):
        with pytest.raises(kind):
            driver.ask(session, "Go")
    assert wire.requests == []
    driver.ask(session, "Go")


def test_one_tool_is_no_list() -> None:
    """Neither a tool nor a function that could be one: those would be called without a model's request."""

    def look(name: str) -> str:
        """Look."""
        return name

    for one in (first, first.function, look):
        with pytest.raises(ConfigurationError, match=r"tools must be a list.*tools=\[\.\.\.\]"):
            Session(ANTHROPIC, tools=one)  # type: ignore[arg-type]


def test_a_choice_without_annotations_is_one(driver: Driver) -> None:
    session, wire = session_of(driver, tools=lambda context: [first])
    driver.ask(session, "Go")
    assert [each["name"] for each in wire.requests[0]["tools"]] == ["first"]


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_calls_run_at_once_than_allowed(driver: Driver, limit: int) -> None:
    """Each waits until another one has ended."""
    lock = threading.Lock()
    running: list[int] = []
    most: list[int] = []
    together = threading.Barrier(limit)

    @tool
    def work() -> str:
        """Work."""
        with lock:
            running.append(1)
            most.append(len(running))
        together.wait(FOREVER)
        with lock:
            running.pop()
        return "ok"

    calls = tuple(call("work", number) for number in range(4))
    session, _ = session_of(driver, calls, tools=[work], max_parallel_tools=limit)
    driver.ask(session, "Go")
    assert max(most) == limit
    assert results(session) == [("ok", False)] * 4


def test_the_limit_of_parallel_calls_is_a_number() -> None:
    with pytest.raises(ConfigurationError, match="max_parallel_tools is a whole number, at least 1"):
        Session(ANTHROPIC, max_parallel_tools=0)
