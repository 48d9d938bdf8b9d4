"""Reply and ReplyStream: the messages, usage, cost, losses and pending calls of a whole turn."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import httpx
import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError, ServerError, TurnLimitError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.message import MessageStatus, StopReason
from dragoman.canonical.usage import CostStatus
from dragoman.session import Reply, tool
from tests.unit.session.drivers import ANTHROPIC, AsyncDriver, Body, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

ANSWER = handwritten_anthropic("It is ", "blue.")


@tool(side_effects="none")
def look(at: str) -> str:
    """Look."""
    return f"{at}: blue"


def test_a_reply_has_the_whole_turn(driver: Driver) -> None:
    """All messages, the usage and the cost of both requests, and the last response."""
    wires = {"anthropic": Wire([handwritten_anthropic(Call("t1", "look", {"at": "sky"})), ANSWER])}
    session = driver.session(wires, tools=[look])
    driver.ask(driver.session({"anthropic": Wire([ANSWER])}), "Another session costs nothing here.")
    reply = driver.ask(session, "Which colour?")
    assert reply.text == reply.output == str(reply) == "It is blue."
    assert reply.message == session.messages[-1]
    assert reply.messages == session.messages
    assert reply.usage == session.usage
    assert reply.cost == session.cost
    assert reply.cost.replies == 2
    assert reply.stop_reason is StopReason.END_TURN
    assert (reply.pending, reply.losses, reply.attempts) == ((), (), ())
    second = driver.ask(driver.session({"anthropic": Wire([ANSWER])}, messages=session.messages), "And now?")
    assert len(second.messages) == 2
    assert second.cost.replies == 1


def test_a_reply_is_one_line(driver: Driver) -> None:
    """The repr says how it ended and what it cost, and shortens a long text."""
    reply = driver.ask(driver.session({"anthropic": Wire([handwritten_anthropic("word " * 100)])}), "Hi")
    assert "\n" not in repr(reply)
    assert len(repr(reply)) < 160
    assert repr(reply).startswith("Reply('word word")
    assert str(reply.cost) in repr(reply)


def test_a_billed_attempt_counts(driver: Driver) -> None:
    """A broken reply that was retried counts in the usage of the turn, and its cost makes the sum a lower bound."""
    session = driver.session({"anthropic": Wire([Body(ANSWER.frames[:1]), ANSWER])})
    (reply,) = (_stream(driver, session, "Hi"),)
    assert len(reply.attempts) == 1
    assert reply.cost.status is CostStatus.PARTIAL
    assert reply.usage == session.usage
    assert reply.response is not None
    assert [attempt.error_class for attempt in reply.response.attempts] == ["network", None]


def test_the_response_is_described(driver: Driver) -> None:
    """The response is described: its status, the provider's request id, and the remaining quota."""
    headers = {"request-id": "req_7", "anthropic-ratelimit-requests-remaining": "4", "set-cookie": "secret=1"}
    answer = httpx.Response(200, headers=headers, content=ANSWER.body)
    reply = driver.ask(driver.session({"anthropic": Wire([answer])}), "Hi")
    assert reply.response is not None
    assert (reply.response.status, reply.response.request_id) == (200, "req_7")
    assert (reply.response.remaining_requests, reply.response.remaining_tokens) == (4, None)
    assert reply.response.seconds == 0
    assert "secret" not in repr(reply.response)


def test_the_chosen_model_and_the_snapshot_that_served_are_kept(driver: Driver) -> None:
    """The provider answers with the dated name of an alias: the message has that, its routing record the alias."""
    dated = replace(ANSWER, body=ANSWER.body.replace(b"claude-opus-5-5", b"claude-opus-5-5-20261001"))
    reply = driver.ask(driver.session({"anthropic": Wire([dated])}), "Hi")
    assert reply.message.metadata.model == f"{ANTHROPIC}-20261001"
    assert reply.message.metadata.routing is not None
    assert reply.message.metadata.routing.chosen_model == ANTHROPIC
    assert list(reply.cost.by_model) == [f"{ANTHROPIC}-20261001"]


def test_losses_are_listed_once(driver: Driver) -> None:
    """A loss of every request of the turn is one loss of the turn."""
    wires = {"anthropic": Wire([handwritten_anthropic(Call("t1", "look", {"at": "sky"})), ANSWER])}
    session = driver.session(wires, tools=[look], options=AdapterOptions(seed=3))
    assert [loss.kind for loss in driver.ask(session, "Which colour?").losses] == [LossKind.OPTION]


def test_calls_without_a_result_are_pending(driver: Driver) -> None:
    """Calls of a refusal do not run: they are pending."""
    refused = handwritten_anthropic(Call("t1", "look", {"at": "sky"}), stop="refusal")
    reply = driver.ask(driver.session({"anthropic": Wire([refused])}, tools=[look]), "Look.")
    assert [call.name for call in reply.pending] == ["look"]


def _stream(driver: Driver, session: Any, prompt: str) -> Reply[str]:
    """The reply of a stream that was read to its end."""
    if isinstance(driver, SyncDriver):
        reply: Reply[str] = session.stream(prompt).get_reply()
        return reply

    async def main() -> Reply[str]:
        reply: Reply[str] = await session.stream(prompt).get_reply()
        return reply

    return driver.runner.run(main())


def test_a_stream_ends_with_the_same_reply(driver: Driver) -> None:
    """Text, usage and cost are those of ask; its response also knows when the first event came."""
    session = driver.session({"anthropic": Wire([ANSWER])})
    asked = driver.ask(driver.session({"anthropic": Wire([ANSWER])}), "Hi")
    reply = _stream(driver, session, "Hi")
    assert (reply.text, reply.usage, reply.cost) == (asked.text, asked.usage, asked.cost)
    assert reply.response is not None
    assert reply.response.first_event_seconds == 0


def test_text_accumulates_sync() -> None:
    """stream.text grows with each delta; text_deltas yields the deltas alone."""
    session = SyncDriver().session({"anthropic": Wire([ANSWER, ANSWER])})
    with session.stream("Hi") as stream:
        seen = [stream.text for event in stream if event.type == "text_delta"]
    assert len(seen) > 1
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
    assert seen[-1] == "It is blue."
    with session.stream("Hi") as stream:
        assert "".join(stream.text_deltas()) == "It is blue."
        assert stream.reply.text == stream.text == "It is blue."


def test_text_accumulates_async() -> None:
    session = AsyncDriver().session({"anthropic": Wire([ANSWER])})

    async def main() -> list[str]:
        async with session.stream("Hi") as stream:
            deltas = [text async for text in stream.text_deltas()]
        assert stream.reply.text == "It is blue."
        return deltas

    assert "".join(asyncio.run(main())) == "It is blue."


def test_leaving_a_stream_cancels_it(driver: Driver) -> None:
    """The partial message is the reply, with status cancelled and a cost that is a lower bound."""
    session = driver.session({"anthropic": Wire([Body(ANSWER.frames)])})
    reply = _leave_stream(driver, session)
    assert reply.message.metadata.status is MessageStatus.CANCELLED
    assert "It is blue.".startswith(reply.text)
    assert reply.text not in ("", "It is blue.")
    assert reply.cost.status is CostStatus.PARTIAL
    assert session.messages[-1] == reply.message


def _leave_stream(driver: Driver, session: Any) -> Reply[str]:
    """The reply of a stream that was left at its first text."""
    if isinstance(driver, SyncDriver):
        with session.stream("Hi") as stream:
            next(stream.text_deltas())
        reply: Reply[str] = stream.reply
        return reply

    async def main() -> Reply[str]:
        async with session.stream("Hi") as stream, aclosing(stream.text_deltas()) as deltas:
            await anext(deltas)
        reply: Reply[str] = stream.reply
        return reply

    return driver.runner.run(main())


def test_the_reply_of_an_open_stream_is_refused() -> None:
    """The error says what to do; nothing is sent before the first event is read."""
    wire = Wire([ANSWER])
    session = SyncDriver().session({"anthropic": wire})
    stream = session.stream("Hi")
    with pytest.raises(RequestError, match="get_reply"):
        assert stream.reply
    stream.close()
    with pytest.raises(RequestError, match="before a reply"):
        assert stream.reply
    assert wire.requests == []
    assert session.messages == ()


def test_the_reply_of_a_stream_is_that_of_its_turn() -> None:
    """Neither earlier nor later turns of the session are in it, whenever it is read; a stream that never began has
    none."""
    session = SyncDriver().session({"anthropic": Wire([ANSWER] * 3)})
    session.ask("One.")
    stream = session.stream("Two.")
    for _ in stream:
        pass
    session.ask("Three.")
    assert [message.text for message in stream.reply.messages] == ["Two.", "It is blue."]
    assert stream.reply.cost.replies == 1
    unread = session.stream("Four.")
    unread.close()
    with pytest.raises(RequestError, match="before a reply"):
        assert unread.reply


def test_an_error_ends_the_stream(driver: Driver) -> None:
    """The error of the turn is raised by the loop, and there is no reply."""
    error = {"type": "error", "error": {"type": "api_error", "message": "down"}}
    session = driver.session({"anthropic": Wire([httpx.Response(500, json=error) for _ in range(3)])})
    with pytest.raises(ServerError):
        _stream(driver, session, "Hi")
    assert session.messages == ()


def test_too_many_rounds_leave_the_history(driver: Driver) -> None:
    """ask raises, and ask(None) continues from there."""
    call = handwritten_anthropic(Call("t1", "look", {"at": "sky"}))
    session = driver.session({"anthropic": Wire([call, ANSWER])}, tools=[look], max_rounds=1)
    with pytest.raises(TurnLimitError):
        driver.ask(session, "Look.")
    reply = driver.ask(session, None)
    assert reply.text == "It is blue."
    assert len(reply.messages) == 1
    assert session.cost.usd is not None
    assert session.cost.usd > Decimal(0)
    assert session.model == ANTHROPIC
