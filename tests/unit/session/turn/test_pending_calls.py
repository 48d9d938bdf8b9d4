"""Calls whose results come from elsewhere: they wait, in any process, until somebody answers them."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import AuthenticationError, CallNotPendingError, PendingCallsError, RequestError
from dragoman.canonical.blocks import ImageBlock, MediaSource, ToolResultBlock
from dragoman.canonical.tools import ToolDefinition
from dragoman.events import EventBus
from dragoman.policy import Pipeline
from dragoman.session import tool
from dragoman.store import ConflictError, Store
from dragoman.tools import CallDeferred, Deferred
from tests.unit.session.drivers import OLLAMA, Driver, SyncDriver, Wire, texts, types
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import RecordingPlugin

PAY = ToolDefinition(
    name="pay",
    description="Pays a bill.",
    input_schema={"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
)
TWO_CALLS = handwritten_anthropic(Call("toolu_1", "pay", {"amount": 3}), Call("toolu_2", "look", {"at": "a"}))


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


@tool
def deploy(version: int) -> str:
    """Deploy a version."""
    raise CallDeferred(f"version {version} needs a review")


def waiting_session(driver: Driver, *replies: Any, **settings: Any) -> tuple[Any, Wire]:
    """A session whose model has called pay, which waits, and look, which ran."""
    wire = Wire([TWO_CALLS, *(replies or (handwritten_anthropic("Paid."),))])
    session = driver.session({"anthropic": wire}, **{"tools": [PAY, look], **settings})
    driver.ask(session, "Pay 3 and look at a.")
    return session, wire


def answer(driver: Driver, session: Any, results: Any, **options: Any) -> Any:
    if isinstance(driver, SyncDriver):
        return session.answer(results, **options)

    async def main() -> Any:
        return await session.answer(results, **options)

    return driver.runner.run(main())


def stream_answer(driver: Driver, session: Any, results: Any) -> list[str]:
    if isinstance(driver, SyncDriver):
        with session.stream_answer(results) as events:
            return types(list(events))

    async def main() -> list[str]:
        return types([event async for event in session.stream_answer(results)])

    return driver.runner.run(main())


def results_of(session: Any) -> list[ToolResultBlock]:
    return [result for message in session.messages for result in message.tool_results]


def test_a_definition_waits_for_its_result(driver: Driver) -> None:
    """The turn ends with the message; the other tools of the round ran, and their results are kept."""
    wire = Wire([TWO_CALLS, handwritten_anthropic("Paid.")])
    session = driver.session({"anthropic": wire}, tools=[PAY, look])
    reply = driver.ask(session, "Pay 3 and look at a.")
    (call,) = session.pending
    assert (call.name, call.input) == ("pay", {"amount": 3})
    assert reply.pending == session.pending
    assert len(wire.requests) == 1
    with pytest.raises(PendingCallsError, match="pay"):
        _ = reply.output
    answered = answer(driver, session, {call.id: {"receipt": 7}})
    assert (answered.text, answered.output, session.pending) == ("Paid.", "Paid.", ())
    sent = wire.requests[1]["messages"][-1]["content"]
    assert {block["tool_use_id"]: block["content"] for block in sent} == {
        "toolu_1": '{"receipt":7}',
        "toolu_2": "a: fine",
    }


def test_a_tool_may_suspend_its_call(driver: Driver) -> None:
    """The reason is known in this process."""
    wire = Wire([handwritten_anthropic(Call("toolu_1", "deploy", {"version": 2})), handwritten_anthropic("Deployed.")])
    session = driver.session({"anthropic": wire}, tools=[deploy])
    driver.ask(session, "Deploy 2.")
    (call,) = session.pending
    assert session.pending_reasons == {call.id: "version 2 needs a review"}
    assert answer(driver, session, {call.id: "done"}).text == "Deployed."
    assert session.pending_reasons == {}


@pytest.mark.parametrize("decision", [Deferred, Deferred("ask the owner")])
def test_an_approval_may_come_later(driver: Driver, decision: Any) -> None:
    """The call is not run; an error of the answer reaches the model as one."""
    wire = Wire([handwritten_anthropic(Call("toolu_1", "look", {"at": "a"})), handwritten_anthropic("As you like.")])
    session = driver.session({"anthropic": wire}, tools=[look], approve=lambda call, definition: decision)
    driver.ask(session, "Look at a.")
    (call,) = session.pending
    answer(driver, session, {call.id: PermissionError("the owner says no")})
    (sent,) = wire.requests[1]["messages"][-1]["content"]
    assert (sent["is_error"], sent["content"]) == (True, "the owner says no")


def test_a_stream_ends_with_the_waiting_message_and_goes_on_as_one(driver: Driver) -> None:
    wire = Wire([TWO_CALLS, handwritten_anthropic("Paid.")])
    session = driver.session({"anthropic": wire}, tools=[PAY, look])
    first = types(driver.stream(session, "Pay 3 and look at a."))
    assert first[-2:] == ["message_complete", "tool_answered"]
    second = stream_answer(driver, session, {session.pending[0].id: "ok"})
    assert (second[0], second[-1]) == ("tool_answered", "message_complete")
    assert texts(session)[-1] == ("assistant", "Paid.")


def test_a_partly_answered_round_is_kept(driver: Driver) -> None:
    """Nothing is sent until the last call has its result."""
    calls = [Call(f"toolu_{number}", "pay", {"amount": number}) for number in (1, 2)]
    wire = Wire([handwritten_anthropic(*calls), handwritten_anthropic("Paid.")])
    session = driver.session({"anthropic": wire}, tools=[PAY])
    driver.ask(session, "Pay 1 and 2.")
    first, second = session.pending
    reply = answer(driver, session, {second.id: "two"})
    assert (reply.pending, session.pending, len(wire.requests)) == ((first,), (first,), 1)
    assert [message.role for message in reply.messages] == ["assistant", "tool"]
    assert stream_answer(driver, session, {first.id: "one"})[-1] == "message_complete"
    assert {block["content"] for block in wire.requests[1]["messages"][-1]["content"]} == {"one", "two"}


def test_results_take_every_form(driver: Driver) -> None:
    """What a tool may return, a result, and an exception."""
    image = ImageBlock(source=MediaSource(kind="base64", data="aGVsbG8="), media_type="image/png")
    forms = ["text", {"a": [1]}, image, ToolResultBlock(tool_use_id="any", content="no", is_error=True), ValueError()]
    calls = [Call(f"toolu_{number}", "pay", {"amount": number}) for number in range(len(forms))]
    wire = Wire([handwritten_anthropic(*calls), handwritten_anthropic("Done.")])
    session = driver.session({"anthropic": wire}, tools=[PAY])
    driver.ask(session, "Pay.")
    pending = session.pending
    answer(driver, session, {call.id: form for call, form in zip(pending, forms, strict=True)})
    found = results_of(session)
    assert [each.tool_use_id for each in found] == [call.id for call in pending]
    assert [each.is_error for each in found] == [False, False, False, True, True]
    assert found[2].content == (image,)
    assert found[4].content[0].text == "ValueError"  # type: ignore[union-attr]  # an error is one text


def test_a_wrong_answer_changes_nothing(driver: Driver) -> None:
    """A call that is unknown or has its result, no results at all, and a value that is not a result."""
    session, wire = waiting_session(driver)
    before = session.messages
    answered = results_of(session)[0].tool_use_id
    (call,) = session.pending
    with pytest.raises(CallNotPendingError, match="has its result already") as caught:
        answer(driver, session, {call.id: "ok", answered: "again"})
    assert (caught.value.answered, caught.value.tool_use_id, caught.value.pending) == (True, answered, (call.id,))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.answered, again.pending) == (str(caught.value), True, (call.id,))
    with pytest.raises(CallNotPendingError, match="does not wait for a result") as caught:
        answer(driver, session, {"tu_nobody": "ok"})
    assert not caught.value.answered
    for wrong in ({}, None, {call.id: object()}):
        with pytest.raises(RequestError):
            answer(driver, session, wrong)
    assert session.messages == before
    assert len(wire.requests) == 1
    answer(driver, session, {call.id: "ok"})
    with pytest.raises(CallNotPendingError, match="no call waits"):
        answer(driver, session, {call.id: "ok"})


def test_a_failing_request_keeps_the_results(driver: Driver) -> None:
    """The turn goes on with ask(None), and the results are not lost."""
    session, _ = waiting_session(driver, httpx.Response(401, json={}), handwritten_anthropic("Paid."))
    with pytest.raises(AuthenticationError):
        answer(driver, session, {session.pending[0].id: "ok"})
    assert session.pending == ()
    assert driver.ask(session, None).text == "Paid."


def test_a_new_prompt_gives_the_calls_up(driver: Driver) -> None:
    """The model is told that they were interrupted."""
    session, wire = waiting_session(driver)
    driver.ask(session, "Never mind.")
    assert session.pending == ()
    assert "interrupted" in str(wire.requests[1]["messages"]).lower()


def test_calls_with_wrong_arguments_do_not_wait(driver: Driver) -> None:
    """The model gets the error at once, as for any tool."""
    wire = Wire([handwritten_anthropic(Call("toolu_1", "pay", {"amount": "x"})), handwritten_anthropic("Sorry.")])
    session = driver.session({"anthropic": wire}, tools=[PAY])
    assert driver.ask(session, "Pay.").text == "Sorry."
    assert session.pending == ()


def test_two_programs_answer_the_same_call(driver: Driver, tmp_path: Path) -> None:
    """One wins. The other is told before it sends anything."""
    with Store(f"sqlite:///{tmp_path / 'chats.db'}") as store:
        session, _ = waiting_session(driver, store=store)
        (call,) = session.pending
        wires = [Wire([handwritten_anthropic(text)]) for text in ("First.", "Second.")]
        first, second = (_resumed(driver, session.session_id, store, wire) for wire in wires)
        assert first.pending == second.pending == (call,)
        answer(driver, first, {call.id: "paid by the first"})
        with pytest.raises(ConflictError):
            answer(driver, second, {call.id: "paid by the second"})
        assert (len(wires[0].requests), len(wires[1].requests)) == (1, 0)
        assert store.load(session.session_id).messages[-1].text == "First."


def _resumed(driver: Driver, session_id: str, store: Store, wire: Wire) -> Any:
    fresh = driver.session({"anthropic": wire})
    if isinstance(driver, SyncDriver):
        return type(fresh).resume(session_id, store, providers=fresh.providers)

    async def main() -> Any:
        return await type(fresh).resume(session_id, store, providers=fresh.providers)  # type: ignore[misc]  # async here

    return driver.runner.run(main())


def test_policy_and_telemetry_see_the_answer(driver: Driver) -> None:
    """A result from elsewhere is judged as a tool's, and the call is not reported as cancelled."""
    plugin, bus = RecordingPlugin(), EventBus()
    seen: list[str] = []
    bus.subscribe(lambda event: seen.append(event.type))
    session, _ = waiting_session(driver, policy=Pipeline([plugin]), events=bus)
    assert bus.flush()
    assert [name for name in seen if name.startswith("tool.")] == ["tool.called", "tool.called", "tool.completed"]
    seen.clear()
    answer(driver, session, {session.pending[0].id: "ok"})
    assert bus.flush()
    assert [name for name in seen if name.startswith("tool.")] == ["tool.called", "tool.completed"]
    assert plugin.at("cmf.tool_post_invoke") == ["a: fine", "ok"]


_ANSWER_IN_ANOTHER_PROCESS = """
import sys
from dragoman.store import Store
from tests.unit.session.drivers import OLLAMA, SyncDriver, Wire
from tests.unit.session.handwritten_replies import handwritten_ollama
from dragoman.session import Session

wire = Wire([handwritten_ollama("Paid by another model.")])
providers = SyncDriver().session({"ollama": wire}, OLLAMA).providers
with Store(sys.argv[1]) as store, Session.resume("sess_1", store, model=OLLAMA, providers=providers) as session:
    (call,) = session.pending
    reply = session.answer({call.id: {"receipt": 7}})
    print(call.name, call.input, reply.text)
    print([message["role"] for message in wire.requests[0]["messages"]])
"""


@pytest.mark.exhaustive
def test_a_turn_goes_on_in_another_process_on_another_provider(tmp_path: Path) -> None:
    """The store has all that it takes."""
    url = f"sqlite:///{tmp_path / 'chats.db'}"
    with Store(url) as store:
        session, _ = waiting_session(SyncDriver(), store=store)
        session.close()
        run = subprocess.run(
            [sys.executable, "-c", _ANSWER_IN_ANOTHER_PROCESS, url], capture_output=True, text=True, check=False,
            cwd=Path(__file__).parents[4],
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        said, roles = run.stdout.splitlines()
        assert said == "pay {'amount': 3} Paid by another model."
        assert roles == "['user', 'assistant', 'tool', 'tool']"
        found = store.load(session.session_id)
    assert [message.metadata.provider for message in found.messages if message.metadata.provider] == [
        "anthropic", "ollama",
    ]  # fmt: skip
    assert found.model == OLLAMA


def test_a_dumped_session_still_waits(driver: Driver) -> None:
    session, _ = waiting_session(driver)
    fresh = driver.session({"anthropic": Wire([handwritten_anthropic("Paid.")])})
    back = type(fresh).load(session.dump(), providers=fresh.providers)
    assert back.pending == session.pending
    assert answer(driver, back, {back.pending[0].id: "ok"}).text == "Paid."


def test_a_compacted_session_still_waits(driver: Driver) -> None:
    """A summary is not a prompt."""
    replies = handwritten_anthropic("They talked."), handwritten_anthropic("Paid.")
    wire = Wire([handwritten_anthropic("Hello."), handwritten_anthropic("Fine."), TWO_CALLS, *replies])
    session = driver.session({"anthropic": wire}, tools=[PAY, look])
    for prompt in ("Hi.", "How are you?", "Pay 3 and look at a."):
        driver.ask(session, prompt)
    (call,) = session.pending
    driver.compact(session, keep_last=3)
    assert session.pending == (call,)
    assert answer(driver, session, {call.id: "ok"}).text == "Paid."
    sent = wire.requests[-1]["messages"]
    assert {block["tool_use_id"]: block["content"] for block in sent[-1]["content"]} == {
        "toolu_1": "ok",
        "toolu_2": "a: fine",
    }
