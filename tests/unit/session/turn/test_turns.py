"""Turns: asking, streaming, and rounds of tools, with sessions of both kinds."""

import asyncio
import json
import threading
from typing import Any

import httpx
import pytest

from dragoman.adapter.contract import AdapterOptions, NamedTool
from dragoman.adapter.errors import ConfigurationError, RequestError, TurnLimitError
from dragoman.canonical import rules
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import Message, StopReason
from dragoman.server_tools import WebSearch
from dragoman.session import AsyncSession, Session, ToolAnswered, tool
from tests.unit.session.drivers import ANTHROPIC, Driver, FakeTime, SyncDriver, Wire, texts, types
from tests.unit.session.handwritten_replies import (
    Call,
    Part,
    Reply,
    Thought,
    anthropic_event,
    handwritten_anthropic,
)


@tool(side_effects="none")
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects="none")
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def anthropic(*rounds: tuple[Part, ...], **settings: Any) -> dict[str, Wire]:
    return {"anthropic": Wire([handwritten_anthropic(*parts, **settings) for parts in rounds])}


def test_ask_keeps_the_prompt_and_the_reply(driver: Driver) -> None:
    """One question, one answer, and a history that obeys the invariants."""
    wires = anthropic(("Hello ", "there."))
    session = driver.session(wires, system="Be brief.")
    reply = driver.ask(session, "Hi")
    assert reply.text == "Hello there."
    assert texts(session) == [("system", "Be brief."), ("user", "Hi"), ("assistant", "Hello there.")]
    assert session.messages[-1] == reply.message
    assert rules.check(session.messages) == []
    assert [message["role"] for message in wires["anthropic"].requests[0]["messages"]] == ["user"]
    assert "stream" not in wires["anthropic"].requests[0]


def test_stream_shows_the_turn_as_it_happens(driver: Driver) -> None:
    """A stream's events are those of each reply in order, with the tools' answers between them."""
    wires = anthropic((Thought("Hm."), "Adding.", Call("toolu_1", "add", {"a": 2, "b": 3})), ("It is 5.",))
    session = driver.session(wires, tools=[add])
    events = driver.stream(session, "2 + 3?")
    assert types(events) == [
        "message_start", "usage_update", "thinking_delta", "text_delta", "tool_use_start", "tool_use_input_delta",
        "tool_use_end", "usage_update", "message_complete", "tool_answered",
        "message_start", "usage_update", "text_delta", "usage_update", "message_complete",
    ]  # fmt: skip
    answered = [event for event in events if isinstance(event, ToolAnswered)]
    assert [(event.tool_name, event.result.content) for event in answered] == [("add", (TextBlock(text="5"),))]
    assert texts(session) == [
        ("user", "2 + 3?"), ("assistant", "Adding. add()"), ("tool", "5"), ("assistant", "It is 5."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "answers"),
    [
        ([Call("t1", "add", {"a": 1})], ["2"]),
        ([Call("t1", "add", {"a": 1}), Call("t2", "add", {"a": 5, "b": 5})], ["2", "10"]),
        ([Call("t1", "fail", {"why": "no disk"})], ["!ValueError: no disk"]),
        ([Call("t1", "fail", {"why": "x"}), Call("t2", "add", {"a": 0})], ["!ValueError: x", "1"]),
        ([Call("t1", "subtract", {})], ["!There is no tool 'subtract'. Known tools: add, fail."]),
        ([Call("t1", "add", {"a": "1"})], ['!The arguments do not match the schema: a: "1" is not of type "integer"']),
    ],
    ids=["one", "two", "failing", "one of two failing", "unknown", "invalid"],
)
def test_calls_are_answered_in_order(driver: Driver, calls: list[Call], answers: list[str]) -> None:
    """The results have the order of the calls, valid or not, and errors are marked as errors."""
    session = driver.session(anthropic(tuple(calls), ("Done.",)), tools=[add, fail])
    assert driver.ask(session, "Go").text == "Done."
    results = [result for message in session.messages for result in message.tool_results]
    assert [("!" if result.is_error else "") + result.content[0].text for result in results] == answers  # type: ignore[union-attr]
    assert rules.check(session.messages) == []


def test_malformed_arguments_are_answered_and_not_run(driver: Driver) -> None:
    """A call with incomplete arguments does not run, and its result says why."""
    ran: list[str] = []

    def delete(path: str) -> None:
        """Delete a file."""
        ran.append(path)

    cut = Call("t1", "delete", raw='{"path": "/tm')
    wires = {"anthropic": Wire([handwritten_anthropic(cut, stop="max_tokens"), handwritten_anthropic("Sorry.")])}
    session = driver.session(wires, tools=[delete])
    driver.stream(session, "Go")
    assert not ran
    assert texts(session)[2] == ("tool", "The arguments were not a complete JSON object, so the tool was not run.")


def test_a_model_that_calls_tools_nobody_has_is_stopped(driver: Driver) -> None:
    """In a session without tools, two rounds are paid and answered; then a typed error says why."""
    wires = anthropic(*[(Call(f"t{number}", "search", {}),) for number in range(20)])
    session = driver.session(wires)
    with pytest.raises(TurnLimitError, match="in 2 rounds, but the session has none"):
        driver.ask(session, "Go")
    assert len(wires["anthropic"].requests) == 2
    assert [text for role, text in texts(session) if role == "tool"] == [
        "There is no tool 'search'. Known tools: none."
    ] * 2
    assert rules.check(session.messages) == []


@pytest.mark.parametrize("stop", ["refusal", "model_context_window_exceeded"])
def test_calls_of_a_finished_reply_do_not_run(driver: Driver, stop: str) -> None:
    """After a refusal, or with a full context, calls do not run, and the next request answers them as interrupted."""
    ran: list[int] = []

    def act(n: int) -> None:
        """Act."""
        ran.append(n)

    first = handwritten_anthropic(Call("t1", "act", {"n": 1}), stop=stop)
    wire = Wire([first, handwritten_anthropic("Ok.")])
    session = driver.session({"anthropic": wire}, tools=[act])
    assert driver.ask(session, "Go").pending
    assert not ran
    driver.ask(session, "And now?")
    kinds = [part["type"] for message in wire.requests[1]["messages"][2:] for part in message["content"]]
    assert kinds == ["tool_result", "text"]


def test_async_tools_run_in_an_async_session() -> None:
    """Coroutines, objects with an async call and plain functions all answer, and none blocks the other."""
    met: asyncio.Event
    loop: asyncio.AbstractEventLoop

    class Doubler:
        __name__ = "double"

        async def __call__(self, n: int) -> int:
            """Double."""
            return 2 * n

    async def wait_for_other(n: int) -> str:
        """Wait for the plain tool."""
        await asyncio.wait_for(met.wait(), 60)
        return f"met {n}"

    def plain(n: int) -> str:
        """Run in a thread."""
        loop.call_soon_threadsafe(met.set)
        return f"{threading.current_thread() is threading.main_thread()}"

    calls = (Call("t1", "wait_for_other", {"n": 1}), Call("t2", "double", {"n": 4}), Call("t3", "plain", {"n": 0}))

    async def main() -> list[tuple[str, str]]:
        nonlocal met, loop
        met, loop = asyncio.Event(), asyncio.get_running_loop()
        wire = Wire([handwritten_anthropic(*calls), handwritten_anthropic("Ok.")])
        client = httpx.AsyncClient(transport=httpx.MockTransport(wire))
        settings = {"anthropic": {"client": client, "api_key": "k"}}
        async with AsyncSession(ANTHROPIC, tools=[wait_for_other, Doubler(), plain], providers=settings) as session:
            await session.ask("Go")
            return texts(session)

    assert asyncio.run(main())[2:5] == [("tool", "met 1"), ("tool", "8"), ("tool", "False")]


def test_a_sync_session_refuses_coroutines() -> None:
    """An async tool, or an async approval, is refused when the session is created; a disguised one when it runs."""

    async def fetch(url: str) -> str:
        """Fetch."""
        return url

    async def approve(call: object, definition: object) -> bool:
        return True

    with pytest.raises(ConfigurationError, match="fetch: coroutines need an AsyncSession"):
        Session(ANTHROPIC, tools=[fetch])
    with pytest.raises(ConfigurationError, match="approve: coroutines"):
        Session(ANTHROPIC, approve=approve)

    def disguised(url: str) -> Any:
        """Fetch later."""
        return fetch(url)

    driver = SyncDriver()
    session = driver.session(anthropic((Call("t1", "disguised", {"url": "u"}),), ("Ok.",)), tools=[disguised])
    session.ask("Go")
    assert texts(session)[2] == ("tool", "TypeError: the tool must be awaited, which only an AsyncSession can do")


def test_rounds_are_limited_and_the_turn_can_continue(driver: Driver) -> None:
    """After max_rounds rounds the turn stops, all rounds are kept, and ask(None) continues it."""
    again = (Call("t1", "add", {"a": 1}),)
    session = driver.session(anthropic(again, again, ("At last.",)), tools=[add], max_rounds=2)
    with pytest.raises(TurnLimitError, match="after 2 rounds"):
        driver.ask(session, "Go")
    assert [role for role, _ in texts(session)] == ["user", "assistant", "tool", "assistant", "tool"]
    assert driver.ask(session, None).text == "At last."
    assert [role for role, _ in texts(session)].count("user") == 1
    with pytest.raises(ConfigurationError, match="at least 1"):
        Session(ANTHROPIC, max_rounds=0)


@pytest.mark.parametrize("choice", ["required", NamedTool("add")])
def test_a_forced_tool_choice_applies_to_the_first_reply_only(choice: Any) -> None:
    """If every request forced a call, the model could never answer."""
    driver = SyncDriver()
    wires = anthropic((Call("t1", "add", {"a": 1}),), ("2.",))
    session = driver.session(
        wires, "anthropic:claude-sonnet-5", tools=[add], options=AdapterOptions(tool_choice=choice)
    )
    assert session.ask("Go").text == "2."
    assert ["tool_choice" in request for request in wires["anthropic"].requests] == [True, False]


def test_options_of_a_turn_override_those_of_the_session(driver: Driver) -> None:
    """The options of ask apply to that turn; a misspelt option is a TypeError, before anything is sent."""
    wires = anthropic(("a",), ("b",))
    session = driver.session(wires, options=AdapterOptions(max_output_tokens=50, effort="low"))
    driver.ask(session, "1", max_output_tokens=9)
    driver.ask(session, "2")
    sent = [(request["max_tokens"], request["output_config"]) for request in wires["anthropic"].requests]
    assert sent == [(9, {"effort": "low"}), (50, {"effort": "low"})]
    with pytest.raises(ConfigurationError, match="max_tokens"):
        driver.ask(session, "3", max_tokens=9)
    with pytest.raises(ConfigurationError, match="max_tokens"):
        driver.stream(session, "3", max_tokens=9)
    assert len(session.messages) == 4


IMAGE = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")


@pytest.mark.parametrize(
    ("prompt", "types_"),
    [
        ("Hi", ["text"]),
        (TextBlock(text="Hi"), ["text"]),
        ([TextBlock(text="What is this?"), IMAGE], ["text", "image"]),
        (Message.user("Hi"), ["text"]),
        (Message.user([IMAGE], session_id="sess_other"), ["image"]),
    ],
    ids=["text", "block", "blocks", "message", "foreign message"],
)
def test_a_prompt_may_be_text_blocks_or_a_message(driver: Driver, prompt: Any, types_: list[str]) -> None:
    """Every form becomes one user message, which belongs to the session unless it belonged to another."""
    session = driver.session(anthropic(("Ok.",)))
    driver.ask(session, prompt)
    assert [block.type for block in session.messages[0].content] == types_
    assert session.messages[0].session_id == (getattr(prompt, "session_id", "") or "sess_1")


def test_a_paused_reply_continues_by_itself(driver: Driver) -> None:
    """It goes back as it came, without a word of ours; the turn has both parts."""
    wire = Wire([handwritten_anthropic("Half", stop="pause_turn"), handwritten_anthropic(" and half.")])
    session = driver.session({"anthropic": wire}, "anthropic:claude-opus-4-5")
    reply = driver.ask(session, "Go")
    assert [message.text for message in reply.messages] == ["Go", "Half", " and half."]
    assert [message["role"] for message in wire.requests[1]["messages"]] == ["user", "assistant"]


ON_DEMAND = {"anthropic": {"compaction": {"type": "summarize"}}}
AUTOMATIC = {
    "anthropic": {"context_management": {"edits": [{"type": "compact_20260112", "pause_after_compaction": True}]}}
}


def compacted() -> Reply:
    """A reply that is nothing but a compaction, whole and streamed, as the documentation of the beta describes it."""
    summary = {"type": "compaction", "content": "They greeted.", "encrypted_content": None, "signature": "c2ln"}
    reply = json.loads(handwritten_anthropic("x", stop="compaction").body) | {"content": [summary]}
    events = [
        {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**summary, "content": None, "signature": None}},
        {"type": "content_block_delta", "index": 0, "delta": {**summary, "type": "compaction_delta"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "compaction"}, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]
    return Reply(json.dumps(reply).encode(), tuple(map(anthropic_event, events)), "text/event-stream")


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_a_compaction_on_demand_is_the_whole_turn(driver: Driver, streamed: bool) -> None:
    """The request compacts and nothing follows, so each further one would compact again, and cost as much."""
    wire = Wire([compacted(), handwritten_anthropic("Good day.")])
    session = driver.session({"anthropic": wire}, "anthropic:claude-opus-4-5")
    (driver.stream if streamed else driver.ask)(session, "Go", extra=ON_DEMAND)
    assert len(wire.requests) == 1
    last = session.messages[-1]
    assert (last.stop_reason, [block.type for block in last.content]) == (StopReason.END_TURN, ["provider"])
    assert driver.ask(session, "Hi").text == "Good day."
    sent = wire.requests[1]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"][0]["signature"] == "c2ln"


@pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])
def test_a_pause_after_an_automatic_compaction_continues_by_itself(driver: Driver, streamed: bool) -> None:
    """The question is still to be answered."""
    wire = Wire([compacted(), handwritten_anthropic("Good day.")])
    session = driver.session({"anthropic": wire}, "anthropic:claude-opus-4-5")
    (driver.stream if streamed else driver.ask)(session, "Go", extra=AUTOMATIC)
    assert len(wire.requests) == 2
    assert session.messages[-1].text == "Good day."


def test_a_reply_that_never_ends_is_no_endless_turn(driver: Driver) -> None:
    """What had arrived stays in the history, and the conversation can go on."""
    wire = Wire([handwritten_anthropic("So", stop="pause_turn")] * 3 + [handwritten_anthropic("Done.")])
    session = driver.session({"anthropic": wire}, "anthropic:claude-opus-4-5", max_rounds=3, tools=[WebSearch()])
    with pytest.raises(TurnLimitError, match="still pauses after 3 rounds"):
        driver.ask(session, "Go")
    assert [message.text for message in session.messages] == ["Go", "So", "So", "So"]
    assert driver.ask(session, None).text == "Done."


def test_a_tool_cannot_ask_its_own_session(driver: Driver) -> None:
    """One turn at a time: a nested one gets a typed error, and the outer one continues."""
    session: Any = None

    def ask_again(text: str) -> str:
        """Ask the session itself."""
        next(iter(session.stream(text)))
        return "never"

    async def ask_again_async(text: str) -> str:
        """Ask the session itself."""
        return str(await session.ask(text))

    nested = ask_again if driver.name == "sync" else ask_again_async
    calls = (Call("t1", nested.__name__, {"text": "x"}),)
    session = driver.session(anthropic(calls, ("Ok.",)), tools=[nested], fake_time=FakeTime())
    assert driver.ask(session, "Go").text == "Ok."
    assert "ConfigurationError: the session is in the middle of a turn" in texts(session)[2][1]


def test_unknown_settings_of_a_provider_are_named(driver: Driver) -> None:
    """A misspelt provider or setting is refused where it is written, with the nearest name."""
    for providers, hint in (
        ({"anthropic": {"api_kee": "x"}}, r"providers\['anthropic'\]: 'api_kee'; did you mean 'api_key'"),
        ({"antropic": {"api_key": "x"}}, r"'antropic'; did you mean 'anthropic'"),
    ):
        with pytest.raises(ConfigurationError, match=hint):
            driver.session({}, providers=providers)


def test_a_time_limit_is_sent_with_each_request(driver: Driver) -> None:
    """Whole or streamed; without a setting the transport's own limit applies; None means no limit."""
    limits: list[float | None] = []

    class Watched(Wire):
        def __call__(self, request: httpx.Request) -> httpx.Response:
            limits.append(request.extensions["timeout"]["read"])
            return super().__call__(request)

    def session(**settings: Any) -> Any:
        driven = driver.session({"anthropic": Watched([handwritten_anthropic("Ok.")] * 2)})
        providers = {"anthropic": {**driven.providers["anthropic"], **settings}}
        return type(driven)("anthropic:claude-sonnet-4-6", providers=providers)

    driver.ask(session(), "1")
    limited = session(timeout=7.5)
    driver.ask(limited, "2")
    driver.stream(limited, "3")
    driver.ask(session(timeout=None), "4")
    assert limits == [600.0, 7.5, 7.5, None]


def test_a_given_history_comes_after_the_system_prompt(driver: Driver) -> None:
    """messages= accepts any history; messages without a session get this session's id."""
    wires = anthropic(("Three.",))
    history = [Message.user("One?"), Message.assistant("Two.")]
    session = driver.session(wires, system="Count.", messages=history)
    driver.ask(session, "And?")
    assert [message["role"] for message in wires["anthropic"].requests[0]["messages"]] == ["user", "assistant", "user"]
    assert wires["anthropic"].requests[0]["system"] == "Count."
    assert {message.session_id for message in session.messages} == {"sess_1"}


def test_an_unserialisable_option_is_refused_before_sending(driver: Driver) -> None:
    """A value that is not JSON raises RequestError and leaves no trace."""
    wires = anthropic(("never",))
    session = driver.session(wires)
    with pytest.raises(RequestError):
        driver.ask(session, "Hi", extra={"anthropic": {"metadata": float("nan")}})
    assert not wires["anthropic"].requests
    assert session.messages == ()
