"""Tool calls of a turn: their time, their context, their progress and their results."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

from dragoman.adapter.errors import ConfigurationError, ToolSchemaError
from dragoman.canonical.blocks import DocumentBlock, ImageBlock, MediaSource, TextBlock
from dragoman.canonical.events import ToolProgress
from dragoman.canonical.message import Message
from dragoman.policy import Pipeline
from dragoman.session import Session, Tool, ToolAnswered, tool
from dragoman.tools import Context, ModelRetry, Progress
from tests.unit.session.drivers import ANTHROPIC, AsyncDriver, Driver, Wire, types
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import RecordingPlugin
from tests.unit.session.turn.tool_rounds import FOREVER, call, results, session_of


@dataclass
class Database:
    rows: dict[str, str]


class Settings(TypedDict):
    limit: int


@pytest.fixture
def async_driver() -> Iterator[AsyncDriver]:
    driver = AsyncDriver()
    with driver.runner:
        yield driver


def test_a_call_that_takes_too_long_is_an_error_for_the_model(driver: Driver) -> None:
    """The turn goes on. The function is left in its thread, and its context says that nobody waits."""
    release, left = threading.Event(), threading.Event()

    @tool(timeout=0.01)
    def wait(context: Context[None]) -> str:
        """Wait."""
        release.wait(FOREVER)
        if context.cancelled:
            left.set()
        return "late"

    session, _ = session_of(driver, (call("wait"),), tools=[wait])
    try:
        assert driver.ask(session, "Go").text == "Done."
    finally:
        release.set()
    ((text, is_error),) = results(session)
    assert text == "The tool did not answer within 0.01 seconds. What it did is not known."
    assert is_error
    assert left.wait(FOREVER)


def test_a_coroutine_that_takes_too_long_is_cancelled(async_driver: AsyncDriver) -> None:
    """It can clean up."""
    ended: list[str] = []

    @tool(timeout=0.01)
    async def wait() -> str:
        """Wait."""
        try:
            await asyncio.sleep(FOREVER)
        finally:
            ended.append("cancelled")
        return "late"

    session, _ = session_of(async_driver, (call("wait"), call("wait", 2)), tools=[wait])
    async_driver.ask(session, "Go")
    assert [is_error for _, is_error in results(session)] == [True, True]
    assert ended == ["cancelled", "cancelled"]


def test_a_call_within_its_time_is_like_any_other(driver: Driver) -> None:
    @tool(timeout=FOREVER)
    def act(fail: bool) -> str:
        """Act."""
        if fail:
            raise TimeoutError("the other side")
        return "ok"

    session, _ = session_of(driver, (call("act", fail=False),), (call("act", fail=True),), tools=[act])
    driver.ask(session, "Go")
    assert results(session) == [("ok", False), ("TimeoutError: the other side", True)]


@pytest.mark.parametrize(
    "options", [{"timeout": 0}, {"timeout": True}, {"timeout": "1"}, {"retries": -1}, {"retries": 1.5}]
)
def test_wrong_limits_of_a_tool_are_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError, match="the tool add"):

        @tool(**options)
        def add(a: int) -> int:
            """Add."""
            return a


def test_a_tool_can_ask_for_another_call(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    """The model learns what to change, and when no retries are left. It is not a failure: nothing is logged."""

    @tool(retries=1)
    def look(name: str) -> str:
        """Look."""
        if name != "right":
            raise ModelRetry(f"There is no {name}: use another name.")
        return "found"

    rounds = [(call("look", number, name=name),) for number, name in enumerate(["a", "b", "right"])]
    session, _ = session_of(driver, *rounds, tools=[look])
    with caplog.at_level(logging.WARNING, "dragoman.tools"):
        driver.ask(session, "Go")
    no_more = "This tool has no retries left in this turn: go on without it."
    assert results(session) == [
        ("There is no a: use another name.", True),
        (f"There is no b: use another name. {no_more}", True),
        (no_more, True),
    ]
    assert caplog.records == []


def test_the_next_turn_has_its_own_retries(driver: Driver) -> None:
    @tool(retries=0)
    def look(name: str) -> str:
        """Look."""
        if name == "wrong":
            raise ModelRetry("No.")
        return "found"

    wire = Wire(
        [
            handwritten_anthropic(call("look", 1, name="wrong")),
            handwritten_anthropic("No."),
            handwritten_anthropic(call("look", 2, name="right")),
            handwritten_anthropic("Yes."),
        ]
    )
    session = driver.session({"anthropic": wire}, tools=[look])
    driver.ask(session, "Go")
    driver.ask(session, "Again")
    assert results(session)[-1] == ("found", False)


def test_a_failing_tool_is_logged_once_with_its_traceback(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    session, _ = session_of(driver, (call("fail"),), tools=[fail])
    with caplog.at_level(logging.DEBUG, "dragoman.tools"):
        driver.ask(session, "Go")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.exc_info is not None
    assert record.exc_info[0] is ValueError


def test_a_tool_gets_the_context_of_the_session(driver: Driver) -> None:
    """It is the first parameter, and no part of the schema."""
    seen: list[Context[Database]] = []

    @tool
    def look(context: Context[Database], name: str) -> str:
        """Look up.

        Args:
            name: What to look up
        """
        seen.append(context)
        return context.value.rows[name]

    session, wire = session_of(driver, (call("look", name="a"),), tools=[look], context=Database({"a": "b"}))
    driver.ask(session, "Go")
    assert results(session) == [("b", False)]
    schema = wire.requests[0]["tools"][0]["input_schema"]
    assert schema["properties"] == {"name": {"type": "string", "description": "What to look up"}}
    (context,) = seen
    assert (context.session_id, context.tool_name) == ("sess_1", "look")
    assert [each.id for message in context.messages[:2] for each in message.tool_uses] == [context.tool_use_id]
    assert not context.cancelled
    assert look(Context(Database({"a": "c"})), "a") == "c"


@pytest.mark.parametrize("is_async", [False, True])
def test_coroutines_and_plain_functions_get_the_context(async_driver: AsyncDriver, is_async: bool) -> None:
    """Coroutines and plain functions get the context in an async session, and whatever the name of the parameter."""

    async def wait(c: Context[int], /, more: int = 1) -> int:
        """Add."""
        return c.value + more

    def add(c: Context[int], /, more: int = 1) -> int:
        """Add."""
        return c.value + more

    name, function = ("wait", wait) if is_async else ("add", add)
    session, _ = session_of(async_driver, (call(name, more=2),), tools=[function], context=5)
    async_driver.ask(session, "Go")
    assert results(session) == [("7", False)]


def takes(kind: Any) -> Tool:
    def look(context: Any) -> str:
        """Look."""
        return "ok"

    look.__annotations__["context"] = kind
    return tool(look)


def test_a_context_of_another_class_is_refused_at_once() -> None:
    """A context of another class is refused at once, as far as the type is a class that can tell."""
    with pytest.raises(ConfigurationError, match="the tool look needs a context of the class Database, not NoneType"):
        Session(ANTHROPIC, tools=[takes(Context[Database])])
    with pytest.raises(ConfigurationError, match="not int"):
        Session(ANTHROPIC, tools=[takes(Context[Database])], context=7)
    for kind in (Context[Settings], Context[Any], Context, Context[None], Context[int | None]):
        Session(ANTHROPIC, tools=[takes(kind)])
    Session(ANTHROPIC, tools=[takes(Context[Database])], context=Database({}))


def test_the_context_comes_first() -> None:
    def look(name: str, context: Context[None]) -> str:
        """Look."""
        return name

    with pytest.raises(ToolSchemaError, match="the context must be the first parameter"):
        tool(look)


@tool
def count(to: int) -> Iterator[Any]:
    """Count."""
    for number in range(to):
        yield Progress(f"{number + 1} of {to}", fraction=(number + 1) / to)
    return f"counted to {to}"


@tool
def collect(to: int) -> Iterator[Any]:
    """Collect."""
    for number in range(to):
        yield Progress(data=number)
        yield number


def test_a_tool_that_yields_reports_its_progress(driver: Driver) -> None:
    """Before its result, in a stream; without a stream, nobody reads it."""
    session, _ = session_of(driver, (call("count", to=2),), tools=[count])
    events = driver.stream(session, "Go")
    progress = [event for event in events if isinstance(event, ToolProgress)]
    assert [(each.tool_name, each.message, each.fraction) for each in progress] == [
        ("count", "1 of 2", 0.5),
        ("count", "2 of 2", 1.0),
    ]
    (answered,) = [event for event in events if isinstance(event, ToolAnswered)]
    assert progress[0].tool_use_id == answered.result.tool_use_id
    assert [kind for kind in types(events) if kind.startswith("tool_") and "use" not in kind] == [
        "tool_progress",
        "tool_answered",
    ]
    session, _ = session_of(driver, (call("count", to=3), call("collect", 2, to=2)), tools=[count, collect])
    driver.ask(session, "Go")
    assert results(session) == [("counted to 3", False), ("[0,1]", False)]


def test_a_policy_hides_progress(driver: Driver) -> None:
    """No plugin judges it. The result is judged as always."""
    session, _ = session_of(driver, (call("count", to=2),), tools=[count], policy=Pipeline([RecordingPlugin()]))
    assert not any(isinstance(event, ToolProgress) for event in driver.stream(session, "Go"))
    assert results(session) == [("counted to 2", False)]


def test_async_generators_report_too(async_driver: AsyncDriver) -> None:
    """What they yield apart from progress is the result."""

    @tool
    async def walk(to: int) -> AsyncIterator[Any]:
        """Walk."""
        for number in range(to):
            await asyncio.sleep(0)
            yield Progress(data=number)
        yield "arrived"

    session, _ = session_of(async_driver, (call("walk", to=2), call("collect", 2, to=1)), tools=[walk, collect])
    events = async_driver.stream(session, "Go")
    progress = [(each.tool_name, each.data) for each in events if isinstance(each, ToolProgress)]
    assert sorted(progress) == [("collect", 0), ("walk", 0), ("walk", 1)]
    assert results(session) == [("arrived", False), ("0", False)]
    with pytest.raises(ConfigurationError, match="coroutines need an AsyncSession"):
        Session(ANTHROPIC, tools=[walk])


def test_leaving_the_stream_at_a_report_ends_the_turn(driver: Driver) -> None:
    """The call stays without a result, and its context is cancelled."""
    contexts: list[Context[None]] = []
    release = threading.Event()

    @tool
    def work(context: Context[None]) -> Iterator[Any]:
        """Work."""
        contexts.append(context)
        yield Progress("begun")
        release.wait(FOREVER)
        return "done"

    session, _ = session_of(driver, (call("work"),), tools=[work])
    try:
        driver.stream(session, "Go", until="tool_progress")
        assert contexts[0].cancelled
    finally:
        release.set()
    assert results(session) == []
    assert len(session.messages) == 2


def test_an_error_before_a_report_ends_the_turn_as_always(driver: Driver) -> None:
    def approve(call: Any, definition: Any) -> bool:
        raise LookupError("nobody is there")

    session, _ = session_of(driver, (call("count", to=2),), tools=[count], approve=approve)
    with pytest.raises(LookupError, match="nobody is there"):
        driver.stream(session, "Go")


IMAGE = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
DOCUMENT = DocumentBlock(source=MediaSource(kind="text", data="text"), media_type="text/plain")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (IMAGE, [IMAGE]),
        (["An image:", IMAGE, DOCUMENT], [TextBlock(text="An image:"), IMAGE, DOCUMENT]),
        (Message.user([TextBlock(text="Look:"), IMAGE]), [TextBlock(text="Look:"), IMAGE]),
    ],
)
def test_a_tool_may_return_media_and_messages(driver: Driver, value: Any, content: list[Any]) -> None:
    @tool
    def show() -> Any:
        """Show."""
        return value

    session, _ = session_of(driver, (call("show"),), tools=[show])
    driver.ask(session, "Go")
    (result,) = [result for message in session.messages for result in message.tool_results]
    assert list(result.content) == content


def test_a_message_that_no_result_can_hold_is_an_error(driver: Driver) -> None:
    @tool
    def show() -> Any:
        """Show."""
        return session.messages[-1]

    session, _ = session_of(driver, (call("show"),), tools=[show])
    driver.ask(session, "Go")
    ((text, is_error),) = results(session)
    assert is_error
    assert "a message with blocks that no result can hold" in text
