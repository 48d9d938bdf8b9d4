"""Laws of sessions: the history does not depend on the driver or on how bytes arrive."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.registry import get_adapter
from dragoman.canonical import rules
from dragoman.canonical.message import Message
from dragoman.session import AsyncSession, Session, tool
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, AsyncDriver, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, Part, Reply, Thought, handwritten_anthropic, handwritten_ollama


@tool(side_effects="none")
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects="none")
def fail(why: str) -> str:
    """Fail."""
    raise ValueError(why)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
arguments = st.sampled_from([{"a": 1}, {"a": 2, "b": 3}, {"a": "x"}, {"why": "so"}, {}])
call_ids = st.sampled_from(["toolu_1", "toolu_2", "call_1"])
"""Few, so that they repeat: providers do so."""
names = st.sampled_from(["add", "fail", "nobody"])
calls = st.builds(Call, id=call_ids, name=names, input=arguments)
thoughts = st.builds(Thought, text=words)
speech: st.SearchStrategy[list[Part]] = st.lists(words, min_size=1, max_size=2).map(list)
# Ollama knows one order only: thinking, text, calls. Scripts keep to it, so both wires can express them.
answers: st.SearchStrategy[list[Part]] = st.tuples(st.lists(thoughts, max_size=1), words).map(lambda t: [*t[0], t[1]])
rounds: st.SearchStrategy[list[Part]] = st.tuples(answers, st.lists(calls, min_size=1, max_size=3)).map(
    lambda t: [*t[0], *t[1]]
)
turns = st.tuples(st.lists(rounds, max_size=2), answers).map(lambda t: [*t[0], t[1]])
"""The replies of one turn: rounds of tools, then an answer."""
scripts = st.lists(st.tuples(st.sampled_from([ANTHROPIC, OLLAMA]), turns), min_size=1, max_size=3)
"""The model of each turn, and whether it streams."""

Script = list[tuple[str, list[list[Part]]]]


def write_reply(model: str, parts: list[Part]) -> Reply:
    return handwritten_anthropic(*parts) if model == ANTHROPIC else handwritten_ollama(*parts)


def play_script(
    driver: Driver, script: Script, *, streamed: bool, chunk: int | None = None
) -> tuple[Any, dict[str, Wire]]:
    """The session after the script, and the requests that its providers received."""
    replies: dict[str, list[Reply]] = {"anthropic": [], "ollama": []}
    for model, turn_parts in script:
        replies[model.partition(":")[0]] += [write_reply(model, parts) for parts in turn_parts]
    wires = {provider: Wire(turn_parts, chunk=chunk) for provider, turn_parts in replies.items()}
    session = driver.session(wires, tools=[add, fail], system="Be brief.")
    for number, (model, _) in enumerate(script):
        session.swap(model)
        (driver.stream if streamed else driver.ask)(session, f"Question {number}")
    return session, wires


@given(scripts)
def test_ask_and_stream_give_equal_histories(script: Script) -> None:
    """The result of a turn does not depend on whether it is streamed."""
    asked_session, ask_wires = play_script(SyncDriver(), script, streamed=False)
    streamed_session, streamed_wires = play_script(SyncDriver(), script, streamed=True)
    assert asked_session.messages == streamed_session.messages
    assert asked_session.tool_ids.dump() == streamed_session.tool_ids.dump()
    assert asked_session.cost == streamed_session.cost
    for provider, wire in ask_wires.items():
        request_messages = [request["messages"] for request in wire.requests]
        assert request_messages == [request["messages"] for request in streamed_wires[provider].requests]


@given(scripts, st.booleans())
def test_sync_and_async_give_equal_histories(script: Script, streamed: bool) -> None:
    """The two drivers of the turn differ only in their awaits, also in what they send."""
    session, wires = play_script(SyncDriver(), script, streamed=streamed)
    driver = AsyncDriver()
    with driver.runner:
        other, other_wires = play_script(driver, script, streamed=streamed)
    assert session.messages == other.messages
    assert session.dump() == other.dump()
    assert {name: wire.requests for name, wire in wires.items()} == {
        name: wire.requests for name, wire in other_wires.items()
    }


@given(scripts, st.integers(1, 64))
def test_chunk_sizes_make_no_difference(script: Script, chunk: int) -> None:
    """Chunks of any size give the same history as one event per chunk."""
    whole, _ = play_script(SyncDriver(), script, streamed=True)
    cut, _ = play_script(SyncDriver(), script, streamed=True, chunk=chunk)
    assert whole.messages == cut.messages


@given(scripts)
def test_histories_obey_the_invariants_and_only_grow(script: Script) -> None:
    """Every turn appends, every call is answered once, and each request continues the one before it."""
    session, wires = play_script(SyncDriver(), script, streamed=False)
    assert rules.check(session.messages) == []
    assert [m.text for m in session.messages if m.role == "user"] == [f"Question {n}" for n in range(len(script))]
    for wire in wires.values():
        for before, after in zip(wire.requests, wire.requests[1:], strict=False):
            assert after["messages"][: len(before["messages"])] == before["messages"]


@given(scripts)
def test_a_stored_session_continues_like_the_original(script: Script) -> None:
    """After dump and load the next request, to either provider, is the same to the byte."""
    session, _ = play_script(SyncDriver(), script, streamed=False)
    back = Session.load(session.dump())
    assert back.messages == session.messages
    for model in (ANTHROPIC, OLLAMA):
        assert _request(session, model) == _request(back, model)


def _request(session: Session | AsyncSession, model: str) -> bytes:
    context = RequestContext(model=model, session_id=session.session_id, tool_ids=session.tool_ids)
    options = session.options.with_context(context)
    messages = [*session.messages, Message.user("Next?", id="0" * 26)]
    return get_adapter(model).to_wire(messages, (), options).body


@given(scripts, st.integers(0, 40))
def test_an_abandoned_stream_leaves_what_its_events_reported(script: Script, after: int) -> None:
    """After any number of events, the history holds every finished message that was reported, in order, and at most one
    cancelled reply more; and the next turn can be sent.
    """
    model, turn_parts = script[0]
    provider = model.partition(":")[0]
    histories = []
    for driver in (SyncDriver(), AsyncDriver()):
        wire = Wire([write_reply(model, parts) for parts in turn_parts])
        session = driver.session({provider: wire}, model, tools=[add, fail])
        seen = (
            asyncio.run(_leave_after(session, after)) if isinstance(driver, AsyncDriver) else _left_sync(session, after)
        )
        complete = [event.message for event in seen if event.type == "message_complete"]
        kept = [m for m in session.messages if m.role == "assistant" and m.metadata.status == "complete"]
        assert kept == complete
        cancelled = [m for m in session.messages if m.metadata.status == "cancelled"]
        assert cancelled == list(session.messages[-1:]) * len(cancelled)
        assert "".join(m.text for m in cancelled).startswith(_unfinished_text(seen))
        assert rules.check(session.messages) == []
        assert all(body.closed for body in wire.bodies)
        assert _request(session, model)
        histories.append(session.messages)
    assert histories[0] == histories[1]


def _unfinished_text(seen: list[Any]) -> str:
    """The reported text of a reply whose end was not reported."""
    text = ""
    for event in seen:
        text = (
            "" if event.type == "message_complete" else text + getattr(event, "text", "") * (event.type == "text_delta")
        )
    return text


def _left_sync(session: Any, after: int) -> list[Any]:
    events = session.stream("Go")
    seen = [event for _, event in zip(range(after), events, strict=False)]
    events.close()
    return seen


async def _leave_after(session: Any, after: int) -> list[Any]:
    events = session.stream("Go")
    seen: list[Any] = []
    while len(seen) < after and (event := await anext(events, None)) is not None:
        seen.append(event)
    await events.aclose()
    return seen
