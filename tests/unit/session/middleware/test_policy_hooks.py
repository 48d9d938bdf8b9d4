"""A session with a policy: all input and output passes the plugins, and denied content goes nowhere."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import DocumentBlock, MediaSource, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus
from dragoman.events import EventBus
from dragoman.policy import (
    DataPolicy,
    Extensions,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    SubjectExtension,
    SubjectType,
    Violation,
    hook,
)
from dragoman.routing import Router
from dragoman.session import AsyncSession, Session, tool
from dragoman.store import Store
from tests.packaging.systems import needs_files
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, SyncDriver, Wire, texts
from tests.unit.session.handwritten_replies import (
    Call,
    Reply,
    Thought,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RecordingPlugin, RedactingPlugin

INPUT, OUTPUT = "cmf.llm_input", "cmf.llm_output"


def look(path: str) -> str:
    """Reads a file."""
    return f"The password of {path} is {SECRET}."


def replies() -> list[Reply | Any]:
    return [
        handwritten_anthropic("I look.", Call("toolu_1", "look", {"path": "a.txt"})),
        handwritten_anthropic("Done."),
    ]


def test_every_input_and_output_passes_its_hook_once(driver: Driver) -> None:
    """Prompts, answers, calls and results pass their hooks, in the order in which they happen."""
    recording = RecordingPlugin()
    session = driver.session(
        {"anthropic": Wire(replies())}, tools=[look], policy=Pipeline([recording]), system="Be brief."
    )
    driver.ask(session, "Look at a.txt")
    assert [(at, role) for at, role, _ in recording.seen] == [
        (INPUT, "system"),
        (INPUT, "user"),
        ("request", "user"),
        (OUTPUT, "assistant"),
        ("cmf.tool_pre_invoke", "assistant"),
        ("cmf.tool_post_invoke", "tool"),
        (INPUT, "tool"),
        ("request", "user"),
        (OUTPUT, "assistant"),
    ]
    assert recording.at("cmf.tool_pre_invoke") == ['{"path": "a.txt"}']


def test_redacted_input_stays_redacted(driver: Driver) -> None:
    """History, requests and answers hold the changed text, and the next request repeats the bytes of the last one."""
    wire = Wire([*replies(), handwritten_anthropic(f"It was {SECRET}.")])
    session = driver.session({"anthropic": wire}, tools=[look], policy=Pipeline([RedactingPlugin()]))
    driver.ask(session, f"I say {SECRET}")
    driver.ask(session, "Again?")
    assert SECRET not in json.dumps(wire.requests)
    assert SECRET not in repr(session.messages)
    assert texts(session)[0] == ("user", "I say ***")
    assert texts(session)[2] == ("tool", "The password of a.txt is ***.")
    assert texts(session)[-1] == ("assistant", "It was ***.")
    first, second, third = (request["messages"] for request in wire.requests)
    assert json.dumps(second).startswith(json.dumps(first)[:-2])
    assert len(third) == len(second) + 2


def test_nothing_is_sent_after_a_denial(driver: Driver) -> None:
    """The error says who denied what, and the history is as before."""
    wire = Wire([handwritten_anthropic("Never.")])
    session = driver.session({"anthropic": wire}, policy=Pipeline([DenyingPlugin(SECRET)]))
    with pytest.raises(PolicyDeniedError) as denied:
        driver.ask(session, f"I say {SECRET}")
    error = denied.value
    assert (error.hook, error.plugin, error.code) == (INPUT, "denying", "word")
    assert SECRET not in str(error)
    assert (wire.requests, session.messages) == ([], ())


def test_a_denied_call_runs_nothing(driver: Driver) -> None:
    """The other calls of the reply do not run either, and nothing is sent back."""
    ran: list[str] = []

    def note(word: str) -> str:
        ran.append(word)
        return "ok"

    calls = (Call("toolu_1", "note", {"word": "fine"}), Call("toolu_2", "note", {"word": SECRET}))
    wire = Wire([handwritten_anthropic(*calls)])
    deny = DenyingPlugin(SECRET, hooks=["cmf.tool_pre_invoke"])
    session = driver.session({"anthropic": wire}, tools=[note], policy=Pipeline([deny]))
    with pytest.raises(PolicyDeniedError, match="tool_pre_invoke"):
        driver.ask(session, "Go")
    assert (ran, len(wire.requests)) == ([], 1)


def test_a_denied_call_may_be_answered_with_an_error(driver: Driver) -> None:
    """If the pipeline allows it: the model reads the code, and the turn continues; the other calls run."""
    ran: list[str] = []

    def note(word: str) -> str:
        ran.append(word)
        return "ok"

    calls = (Call("toolu_1", "note", {"word": SECRET}), Call("toolu_2", "note", {"word": "fine"}))
    wire = Wire([handwritten_anthropic(*calls), handwritten_anthropic("I see.")])
    policy = Pipeline([DenyingPlugin(SECRET, hooks=["cmf.tool_pre_invoke"])], denied_calls="answer")
    session = driver.session({"anthropic": wire}, tools=[note], policy=policy)
    driver.ask(session, "Go")
    assert ran == ["fine"]
    assert texts(session)[2:4] == [("tool", "This call was denied by policy (word)."), ("tool", "ok")]


def test_arguments_may_be_changed_for_the_run_alone(driver: Driver) -> None:
    """The tool gets the changed arguments; the history has the model's own."""
    got: list[str] = []

    def note(word: str) -> str:
        got.append(word)
        return "ok"

    wire = Wire([handwritten_anthropic(Call("toolu_1", "note", {"word": SECRET})), handwritten_anthropic("Done.")])
    redacting = RedactingPlugin(hooks=["cmf.tool_pre_invoke"])
    session = driver.session({"anthropic": wire}, tools=[note], policy=Pipeline([redacting]))
    driver.ask(session, "Go")
    assert got == ["***"]
    assert session.messages[1].tool_uses[0].input == {"word": SECRET}


def test_a_denied_result_is_neither_kept_nor_sent(driver: Driver) -> None:
    """The tool ran, but its result is used nowhere."""
    wire = Wire(replies())
    deny = DenyingPlugin(SECRET, hooks=["cmf.tool_post_invoke"])
    session = driver.session({"anthropic": wire}, tools=[look], policy=Pipeline([deny]))
    with pytest.raises(PolicyDeniedError, match="tool_post_invoke"):
        driver.ask(session, "Look")
    assert len(wire.requests) == 1
    assert SECRET not in repr(session.messages)


@pytest.mark.parametrize("window", [None, 8])
def test_a_denied_reply_is_not_kept_but_paid_for(driver: Driver, window: int | None) -> None:
    policy = Pipeline([DenyingPlugin(SECRET, hooks=[OUTPUT], window=window)])
    for streamed in (False, True):
        session = driver.session({"anthropic": Wire([handwritten_anthropic(f"It is {SECRET}.")])}, policy=policy)
        with pytest.raises(PolicyDeniedError, match="llm_output"):
            (driver.stream if streamed else driver.ask)(session, "Tell me")
        assert session.messages == ()
        assert [attempt.content for attempt in session.attempts] == [()]
        assert session.cost.status in (CostStatus.PRICED, CostStatus.PARTIAL)
        assert session.cost.usd


def test_a_retry_and_a_fallback_are_judged_too(driver: Driver) -> None:
    """Each try of a request passes the plugins, with the model that it goes to."""
    models_seen: list[str | None] = []

    @hook(INPUT)
    def models(step: Step) -> None:
        models_seen.append(step.extensions.llm.model_id if step.extensions.llm else None)

    wires = {"anthropic": Wire([[handwritten_overloaded()]] * 3), "ollama": Wire([handwritten_ollama("Here.")])}
    router = Router(workspace_default=ANTHROPIC, global_default=OLLAMA)
    session = driver.session(wires, None, router=router, policy=Pipeline([models]))
    driver.stream(session, "Hi")
    assert models_seen == [None, ANTHROPIC, ANTHROPIC, ANTHROPIC, OLLAMA]


def test_old_messages_are_judged_once_per_model(driver: Driver) -> None:
    """New messages are judged with every request; a model's own messages are not judged again."""
    recording = RecordingPlugin(hooks=[INPUT])
    wires = {
        "anthropic": Wire([handwritten_anthropic("One."), handwritten_anthropic("Two.")]),
        "ollama": Wire([handwritten_ollama("Three.")]),
    }
    session = driver.session(wires, policy=Pipeline([recording]))
    driver.ask(session, "1?")
    driver.ask(session, "2?")
    assert recording.at(INPUT) == ["1?", "2?"]
    session.swap(OLLAMA)
    driver.ask(session, "3?")
    assert recording.at(INPUT) == ["1?", "2?", "3?", "1?", "One.", "2?", "Two."]


def test_imported_history_is_included(driver: Driver) -> None:
    """Its messages are changed like new ones, before anything is sent; signed thinking after a change is dropped."""
    wire = Wire([handwritten_anthropic("Fine.")])
    signed = ThinkingBlock(text="Hm.", signature="c2lnbmVk")
    history = [
        Message.user("Hello."),
        Message.assistant([signed, TextBlock(text="Hi.")]),
        Message.user(f"I say {SECRET}"),
        Message.assistant([signed, TextBlock(text="I see.")]),
    ]
    session = driver.session({"anthropic": wire}, messages=history, policy=Pipeline([RedactingPlugin()]))
    driver.ask(session, "Go on")
    assert SECRET not in json.dumps(wire.requests)
    assert [message.thinking for message in session.messages] == ["", "Hm.", "", "", "", ""]


@pytest.mark.parametrize("streamed", [False, True])
def test_signed_thinking_is_dropped_or_the_step_denied(driver: Driver, streamed: bool) -> None:
    """Changed content cannot stay signed: it is dropped, with the signed thinking after it, or the step is denied."""
    reply = handwritten_anthropic(Thought(f"It is {SECRET}."), "The answer.")

    def session(**rules: Any) -> Any:
        return driver.session({"anthropic": Wire([reply])}, policy=Pipeline([RedactingPlugin()], **rules))

    kept = session()
    (driver.stream if streamed else driver.ask)(kept, "Tell me")
    assert [block.type for block in kept.messages[-1].content] == ["text"]
    with pytest.raises(PolicyDeniedError, match="signed_thinking"):
        (driver.stream if streamed else driver.ask)(session(signed="deny"), "Tell me")


@needs_files
def test_files_are_judged_as_they_are_sent(driver: Driver, tmp_path: Path) -> None:
    """The history names the file; its content passes the plugins, and stays as they changed it."""
    (tmp_path / "a.txt").write_text(f"The word is {SECRET}.")
    recording = RecordingPlugin(hooks=[INPUT])

    @hook(INPUT, mode="transform")
    def blank(step: Step) -> Message:
        content = [
            block.model_copy(update={"source": MediaSource(kind="text", data="***")})
            if isinstance(block, DocumentBlock) and SECRET in block.source.data
            else block
            for block in step.message.content
        ]
        return step.message.model_copy(update={"content": tuple(content)})

    wire = Wire([handwritten_anthropic("Read."), handwritten_anthropic("Read again.")])
    session = driver.session({"anthropic": wire}, workspace=tmp_path, policy=Pipeline([blank, recording]))
    driver.ask(session, DocumentBlock(source=MediaSource(kind="file_ref", data="a.txt")))
    driver.ask(session, "Again?")
    assert SECRET not in json.dumps(wire.requests)
    assert wire.requests[0]["messages"] == wire.requests[1]["messages"][:1]
    assert any(SECRET in text or "***" in text for text in recording.at(INPUT))


def test_labels_of_a_result_spread_to_all_that_follows(driver: Driver, tmp_path: Path) -> None:
    """Through later messages, a summary, a store, and a program that continues the session."""
    host = Extensions(security=SecurityExtension(data={"look": DataPolicy(apply_labels=["PII"])}))
    seen: list[tuple[str, frozenset[str]]] = []

    @hook(INPUT, OUTPUT, "cmf.tool_post_invoke", capabilities=["read_labels"])
    def labels(step: Step) -> None:
        seen.append((step.hook, step.extensions.security.labels if step.extensions.security else frozenset()))

    def settings() -> dict[str, Any]:
        return {"policy": Pipeline([labels]), "extensions": host, "tools": [look]}

    wire = Wire([*replies(), handwritten_anthropic("A summary."), handwritten_anthropic("More.")])
    with Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        session = driver.session({"anthropic": wire}, store=store, **settings())
        driver.ask(session, "Look at a.txt")
        assert [labels for _, labels in seen] == [frozenset(), frozenset(), {"PII"}, {"PII"}, {"PII"}]
        driver.compact(session, keep_last=1)
        found = store.load("sess_1").extensions
        assert {labelled["security"]["labels"][0] for labelled in found.values()} == {"PII"}
        kept = session.dump()
        again = type(session).load(kept, providers=session.providers, policy=Pipeline([labels]))
        seen.clear()
        driver.ask(again, "And now?")
        assert {frozenset(labels) for _, labels in seen} == {frozenset({"PII"})}
        unguarded = type(session).load(kept, labels_without_policy="allow")
        assert json.loads(unguarded.dump())["extensions"] == json.loads(kept)["extensions"]


def test_a_denied_action_is_enforced_downstream(driver: Driver) -> None:
    """Data without export goes to no tool with outside effects; data without forwarding stays with its provider."""
    reached: list[str] = []

    @tool(side_effects="network")
    def post(text: str) -> str:
        reached.append(text)
        return "sent"

    def session(*denied: str, replies: list[Any]) -> Any:
        data = {"look": DataPolicy(denied_actions=list(denied))}
        host = Extensions(security=SecurityExtension(data=data))
        wires = {"anthropic": Wire(replies), "ollama": Wire([handwritten_ollama("No.")])}
        return driver.session(wires, tools=[look, post], policy=Pipeline(), extensions=host)

    looks, posts = Call("toolu_1", "look", {"path": "a"}), Call("toolu_2", "post", {"text": "x"})
    exporting = [handwritten_anthropic(looks), handwritten_anthropic(posts), handwritten_anthropic("Done.")]
    with pytest.raises(PolicyDeniedError, match="data_policy"):
        driver.ask(session("export", replies=exporting), "Go")
    assert reached == []
    driver.ask(session("forward", replies=exporting), "Go")
    assert reached == ["x"]
    staying = session("forward", replies=replies())
    driver.ask(staying, "Go")
    staying.swap(OLLAMA)
    with pytest.raises(PolicyDeniedError, match="forward"):
        driver.ask(staying, "And?")
    assert session("forward", replies=[handwritten_anthropic("x")]).swap(OLLAMA).fits


def test_a_denial_is_reported_to_the_bus(driver: Driver) -> None:
    events: list[Any] = []
    with EventBus(strict=True) as bus:
        bus.subscribe(events.append, types="policy.*")
        policy = Pipeline([DenyingPlugin(SECRET)])
        session = driver.session({"anthropic": Wire([])}, policy=policy, events=bus)
        with pytest.raises(PolicyDeniedError):
            driver.ask(session, SECRET)
    (event,) = events
    assert (event.payload.plugin, event.payload.code, event.payload.hook) == ("denying", "word", INPUT)
    assert event.turn_id is not None


def test_the_bus_gets_answers_as_plugins_left_them(driver: Driver) -> None:
    """Handlers of the bus, such as a trace with content, never see removed content."""
    witness = BusWitness()
    with EventBus(strict=True) as bus:
        bus.subscribe(witness)
        wires = {"anthropic": Wire(replies())}
        driver.ask(
            driver.session(wires, tools=[look], policy=Pipeline([RedactingPlugin()]), events=bus), "Look at a.txt"
        )
    kinds = [event.type for event in witness.events]
    assert kinds.index("tool.called") < kinds.index("tool.completed") < len(kinds) - 1
    assert "***" in repr(witness.attachment)
    assert SECRET not in repr(witness.attachment)


class BusWitness:
    """A handler that checks every event it gets."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.attachment: list[Any] = []

    def on_emit(self, event: Any, attachment: object) -> None:
        self.attachment.append(attachment)

    def __call__(self, event: Any) -> None:
        self.events.append(event)


def test_plugins_receive_the_user_and_the_input(driver: Driver) -> None:
    """The user's input, the session, the turn, the model, the tool, and how a reply ended."""
    extensions_at: dict[str, Any] = {}
    capabilities = ["read_subject", "read_agent"]

    @hook(INPUT, OUTPUT, "cmf.tool_pre_invoke", capabilities=capabilities)
    def note(step: Step) -> None:
        extensions_at.setdefault(step.hook, step.extensions)

    subject = SubjectExtension(id="u1", type=SubjectType.USER)
    host = Extensions(security=SecurityExtension(subject=subject))
    session = driver.session({"anthropic": Wire(replies())}, tools=[look], policy=Pipeline([note]), extensions=host)
    driver.ask(session, "Look at a.txt")
    at_input, at_output, at_call = extensions_at[INPUT], extensions_at[OUTPUT], extensions_at["cmf.tool_pre_invoke"]
    assert at_input.security.subject.id == "u1"
    assert (at_input.agent.session_id, at_input.agent.turn, at_input.agent.input) == ("sess_1", 0, "Look at a.txt")
    assert at_input.llm.model_id == ANTHROPIC
    assert "tool_use" in at_input.llm.capabilities
    assert (at_output.completion.stop_reason, at_output.completion.tokens.total_tokens) == ("call", 17)
    assert at_call.mcp.tool.name == "look"
    assert at_call.mcp.tool.annotations == {"sideEffects": "execute", "readOnlyHint": False}


def test_coroutines_need_an_async_session() -> None:
    """The error comes when the session is created; an AsyncSession awaits them."""

    @hook(INPUT)
    async def slow(step: Step) -> Violation:
        return Violation("no")

    policy = Pipeline([slow])
    with pytest.raises(ConfigurationError, match="slow: coroutines need an AsyncSession"):
        Session(ANTHROPIC, policy=policy)
    assert AsyncSession(ANTHROPIC, policy=policy).messages == ()


def test_extensions_without_a_policy_are_refused() -> None:
    """No plugin would see them."""
    with pytest.raises(ConfigurationError, match="policy=Pipeline"):
        Session(ANTHROPIC, extensions=Extensions())


@pytest.mark.exhaustive
def test_a_session_without_a_policy_loads_none() -> None:
    """Neither the pipeline nor the modules of the session that need it are imported; a policy imports them."""
    program = (
        "import sys; from dragoman import Session; from importlib import import_module; {};"
        "late = ('.policy_hooks', '.stream_filter', '.policy_context', 'canonical.message_view');"
        "print(sorted(name for name in sys.modules if name.startswith('dragoman.policy') or name.endswith(late)))"
    )

    def loaded_modules(setup: str) -> str:
        command = [sys.executable, "-c", program.format(setup)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    assert loaded_modules("Session('anthropic:claude-opus-5-5')") == "[]"
    with_policy = loaded_modules(
        "from dragoman.policy import Pipeline;"
        "Session('anthropic:claude-opus-5-5', policy=Pipeline([]));"
        "import_module('dragoman.policy.conversation.stream_filter')"
    )
    for name in (
        "dragoman.policy",
        "dragoman.canonical.message_view",
        "dragoman.policy.conversation.hooks",
        "dragoman.policy.conversation.stream_filter",
        "dragoman.policy.conversation.context",
    ):
        assert repr(name) in with_policy


def test_a_message_can_be_checked_by_its_own_rule(driver: Driver) -> None:
    """The rule sees the content after the plugins; a refusal is a denial. Without a policy the rule is not called."""

    def apply(session: Session | AsyncSession, **how: Any) -> Message:
        message = Message.user(f"It is {SECRET}.")
        if isinstance(session, AsyncSession):
            return asyncio.run(session.apply_policy("resource_post_fetch", message, **how))
        return session.apply_policy("resource_post_fetch", message, **how)

    session = driver.session({}, policy=Pipeline([RedactingPlugin()]))
    seen: list[str] = []
    checked = apply(session, require=lambda message: seen.append(message.text))
    assert SECRET not in checked.text
    assert (seen, checked.session_id) == ([checked.text], session.session_id)
    with pytest.raises(PolicyDeniedError, match="redirected"):
        apply(session, require=lambda _: "redirected")
    unchanged = apply(driver.session({}), require=lambda _: "redirected")
    assert SECRET in unchanged.text


def test_an_interrupt_in_a_plugin_abandons_the_turn() -> None:
    """At each hook: the session goes on, and a reply that was judged before stays."""
    for place, kept in ((INPUT, 0), (OUTPUT, 0), ("cmf.tool_pre_invoke", 2)):
        interrupts = [KeyboardInterrupt()]

        @hook(place)
        def interrupt(_: Step, interrupts: list[KeyboardInterrupt] = interrupts) -> None:
            if interrupts:
                raise interrupts.pop()

        wire = Wire([*replies(), handwritten_anthropic("Well.")])
        session = SyncDriver().session({"anthropic": wire}, tools=[look], policy=Pipeline([interrupt]))
        with pytest.raises(KeyboardInterrupt):
            session.ask("Look.")
        assert len(session.messages) == kept, place
        wire.replies = [*([Exception()] * len(wire.requests)), handwritten_anthropic("Well.")]
        assert session.ask("And?").text == "Well.", place
