"""Abandoned replies: what is kept, and that the connection is released."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical import rules
from dragoman.canonical.message import MessageStatus, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.session import AsyncSession, Session, tool
from dragoman.testing.faults.server import STALL, FaultyServer, ReceivedRequest, json_reply, sse_reply
from dragoman.testing.faults.server import HttpReply as ServerReply
from tests.unit.session.drivers import OLLAMA, AsyncDriver, Body, Driver, SyncDriver, Wire, texts
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

OK = handwritten_anthropic("All is well.")
AGAIN = handwritten_anthropic("Again.")


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


def last_status(session: Any) -> tuple[MessageStatus, StopReason | None, str]:
    """The status of the last message."""
    reply = session.messages[-1]
    return reply.metadata.status, reply.stop_reason, reply.text


CANCELLED = (MessageStatus.CANCELLED, StopReason.CANCELLED)


@pytest.mark.parametrize("chunk", [None, 10_000], ids=["frame by frame", "at once"])
def test_leaving_the_loop_keeps_the_partial_reply(driver: Driver, chunk: int | None) -> None:
    """The prompt stays with the partial reply; the next turn sends both."""
    wire = Wire([OK, AGAIN], chunk=chunk)
    session = driver.session({"anthropic": wire})
    driver.stream(session, "Hi", until="text_delta")
    assert last_status(session) == (*CANCELLED, "All " if chunk is None else "All is well.")
    assert [role for role, _ in texts(session)] == ["user", "assistant"]
    assert rules.check(session.messages) == []
    assert wire.bodies[0].closed
    driver.ask(session, "And?")
    assert [message["role"] for message in wire.requests[1]["messages"]] == ["user", "assistant", "user"]


def test_the_cost_of_a_truncated_reply_is_a_lower_bound(driver: Driver) -> None:
    """More is billed than was counted at the cut; a complete reply has its exact cost."""
    for chunk, status in ((None, CostStatus.PARTIAL), (10_000, CostStatus.PRICED)):
        session = driver.session({"anthropic": Wire([OK], chunk=chunk)})
        driver.stream(session, "Hi", until="text_delta")
        assert session.cost.status is status
    session = driver.session({"ollama": Wire([handwritten_ollama("All is well.")])}, OLLAMA)
    driver.stream(session, "Hi", until="text_delta")
    assert (session.cost.usd, session.cost.status) == (None, CostStatus.UNPRICED)


def test_leaving_at_message_complete_keeps_the_reply(driver: Driver) -> None:
    """When an event arrives, its message is already in the history."""
    wire = Wire([OK])
    session = driver.session({"anthropic": wire})
    driver.stream(session, "Hi", until="message_complete")
    assert last_status(session) == (MessageStatus.COMPLETE, StopReason.END_TURN, "All is well.")
    assert wire.bodies[0].closed


@pytest.mark.parametrize(
    ("until", "roles"),
    [("message_complete", ["user", "assistant"]), ("tool_answered", ["user", "assistant", "tool"])],
)
def test_leaving_between_rounds_keeps_the_rounds(driver: Driver, until: str, roles: list[str]) -> None:
    """A call that was not run yet is answered as interrupted in the next request."""
    wire = Wire([handwritten_anthropic(Call("t1", "look", {"at": "it"})), AGAIN])
    session = driver.session({"anthropic": wire}, tools=[look])
    driver.stream(session, "Look.", until=until)
    assert [role for role, _ in texts(session)] == roles
    driver.ask(session, "And?")
    results = [
        part for message in wire.requests[1]["messages"] for part in message["content"] if part["type"] == "tool_result"
    ]
    assert len(results) == 1
    assert results[0].get("is_error", False) is (until == "message_complete")


def test_an_unread_stream_does_nothing(driver: Driver) -> None:
    """Nothing is sent before the first event is requested."""
    wire = Wire([OK])
    session = driver.session({"anthropic": wire})
    unread = session.stream("Hi")
    assert not wire.requests
    driver.close(session)
    assert session.messages == ()
    del unread


def test_the_next_turn_ends_an_open_stream(driver: Driver) -> None:
    """Also if the caller keeps the iterator: its reply is stored first, and its connection released."""
    wire = Wire([OK, AGAIN])
    session = driver.session({"anthropic": wire})
    kept = Open(driver, session, "Hi")
    kept.read_one()
    assert not wire.bodies[0].closed
    driver.ask(session, "And?")
    assert wire.bodies[0].closed
    assert texts(session) == [("user", "Hi"), ("assistant", "All "), ("user", "And?"), ("assistant", "Again.")]
    assert kept.rest() == []


def test_closing_the_session_ends_an_open_stream(driver: Driver) -> None:
    """The session can then be used again."""
    wire = Wire([OK, AGAIN])
    session = driver.session({"anthropic": wire})
    kept = Open(driver, session, "Hi")
    kept.read_one()
    driver.close(session)
    assert wire.bodies[0].closed
    assert last_status(session) == (*CANCELLED, "All ")
    assert driver.ask(session, "And?").text == "Again."


class Open:
    """A stream whose iterator the caller keeps."""

    def __init__(self, driver: Driver, session: Any, prompt: str) -> None:
        self._driver = driver
        self._events: Iterator[Any] | AsyncIterator[Any] = session.stream(prompt)

    def read_one(self) -> None:
        """Reads up to the first text."""
        while self._next().type != "text_delta":
            pass

    def rest(self) -> list[Any]:
        seen = []
        while (event := self._next()) is not None:
            seen.append(event)
        return seen

    def _next(self) -> Any:
        if isinstance(self._driver, SyncDriver):
            return next(self._events, None)  # type: ignore[arg-type]

        async def step() -> Any:
            return await anext(self._events, None)  # type: ignore[arg-type]

        return self._driver.runner.run(step())


def test_dropping_the_iterator_cancels_at_once() -> None:
    """Without await, leaving the loop is enough: nothing has to be closed."""
    driver = SyncDriver()
    wire = Wire([OK])
    session = driver.session({"anthropic": wire})
    for event in session.stream("Hi"):
        if event.type == "text_delta":
            break
    assert wire.bodies[0].closed
    assert last_status(session) == (*CANCELLED, "All ")


@pytest.mark.usefixtures("quick_gc")
def test_the_next_async_turn_does_not_wait_for_the_garbage_collector() -> None:
    """A loop left with break keeps its reply before the next turn is sent, without an explicit aclose()."""
    driver = AsyncDriver()
    wire = Wire([OK, AGAIN])
    session = driver.session({"anthropic": wire})

    async def main() -> None:
        async for event in session.stream("Hi"):
            if event.type == "text_delta":
                break
        await session.ask("And?")
        gc.collect()
        await asyncio.sleep(0)

    with driver.runner:
        driver.runner.run(main())
    assert [message["role"] for message in wire.requests[1]["messages"]] == ["user", "assistant", "user"]
    assert all(body.closed for body in wire.bodies)


def test_a_keyboard_interrupt_cancels_the_reply() -> None:
    driver = SyncDriver()
    wire = Wire([Body(OK.frames[:5], KeyboardInterrupt()), OK])
    session = driver.session({"anthropic": wire})
    with pytest.raises(KeyboardInterrupt):
        driver.stream(session, "Hi")
    assert last_status(session) == (*CANCELLED, "All is w")
    assert wire.bodies[0].closed

    def interrupt() -> None:
        for event in session.stream("And?"):
            if event.type == "text_delta":
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert last_status(session) == (*CANCELLED, "All ")
    assert len(session.messages) == 4


def test_an_interrupt_before_any_content_leaves_no_trace() -> None:
    """There is no content to continue from, so the question may be repeated."""
    driver = SyncDriver()
    session = driver.session({"anthropic": Wire([Body([], KeyboardInterrupt()), OK])})
    with pytest.raises(KeyboardInterrupt):
        driver.stream(session, "Hi")
    assert session.messages == ()


def test_an_interrupted_tool_keeps_the_call() -> None:
    """The round is not answered, and the next request says that it was interrupted."""

    def interrupt() -> None:
        """Interrupt."""
        raise KeyboardInterrupt

    driver = SyncDriver()
    wire = Wire([handwritten_anthropic(Call("t1", "interrupt")), OK])
    session = driver.session({"anthropic": wire}, tools=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        session.ask("Go")
    assert texts(session) == [("user", "Go"), ("assistant", "interrupt()")]
    assert session.ask("And?").text == "All is well."


@pytest.mark.parametrize("frames", [0, 1, 3, 4], ids=["nothing", "opening", "empty block", "text"])
def test_cancelling_the_task_keeps_the_partial_reply(frames: int) -> None:
    """A task that waits for the next chunk is cancelled: the partial reply is kept, and the connection is closed."""
    driver = AsyncDriver()
    wire = Wire([Body(OK.frames[:frames], "stall"), AGAIN])
    session = driver.session({"anthropic": wire})

    async def read() -> None:
        async for _ in session.stream("Hi"):
            pass

    async def main() -> None:
        task = asyncio.create_task(read())
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert wire.bodies[0].closed
        assert texts(session) == ([("user", "Hi"), ("assistant", "All ")] if frames == 4 else [])
        assert (await session.ask("And?")).text == "Again."

    with driver.runner:
        driver.runner.run(main())


def test_cancelling_ask_leaves_the_history_as_it_was() -> None:
    """An unfinished reply that is not streamed leaves nothing."""
    driver = AsyncDriver()
    wire = Wire([Body([], "stall"), AGAIN])
    session = driver.session({"anthropic": wire})

    async def main() -> None:
        task = asyncio.create_task(session.ask("Hi"))
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.messages == ()
        assert (await session.ask("Hi")).text == "Again."

    with driver.runner:
        driver.runner.run(main())


def test_two_tasks_cannot_ask_one_session_at_once() -> None:
    """The second one gets a typed error, and the first one continues."""
    driver = AsyncDriver()
    wire = Wire([OK, AGAIN])
    session = driver.session({"anthropic": wire})

    async def read(prompt: str) -> str:
        return [event.type async for event in session.stream(prompt)][-1]

    async def main() -> tuple[Any, Any]:
        return await asyncio.gather(read("1"), read("2"), return_exceptions=True)

    with driver.runner:
        first, second = driver.runner.run(main())
    assert first == "message_complete"
    assert isinstance(second, ConfigurationError)
    assert texts(session) == [("user", "1"), ("assistant", "All is well.")]


def test_sessions_are_context_managers() -> None:
    """Leaving the block releases the connections; the history stays readable."""
    driver, async_driver = SyncDriver(), AsyncDriver()
    with driver.session({"anthropic": Wire([OK])}) as session:
        assert isinstance(session, Session)
        session.ask("Hi")

    async def main() -> AsyncSession:
        async with async_driver.session({"anthropic": Wire([OK])}) as other:
            await other.ask("Hi")
        return other

    with async_driver.runner:
        assert async_driver.runner.run(main()).messages == session.messages


def test_abandoned_streams_release_their_connections(driver: Driver) -> None:
    """Over real sockets, with a provider that never ends its stream: every abandoned connection is closed."""

    def script(received: ReceivedRequest) -> ServerReply:
        streamed = b'"stream":true' in received.body
        return sse_reply(*OK.frames[:4], STALL) if streamed else json_reply(json.loads(AGAIN.body))

    with FaultyServer(script) as server:
        session = driver.session({}, providers={"anthropic": {"base_url": server.url, "api_key": "k"}})
        for number in range(10):
            driver.stream(session, f"{number}", until="text_delta")
        assert server.wait_until_closed() == 0
        assert driver.ask(session, "And?").text == "Again."
        assert [m.metadata.status for m in session.messages if m.role == "assistant"][:-1] == [CANCELLED[0]] * 10
        assert server.wait_until_closed(1) <= 1  # The connection of the last answer is kept for the next one.
        driver.close(session)
