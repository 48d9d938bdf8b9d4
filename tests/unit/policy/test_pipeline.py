"""The pipeline: order, modes, failures and limits, without await and with."""

import asyncio
import logging
import pickle
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, DragomanError
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.policy import (
    Capability,
    DataPolicy,
    Extensions,
    HttpExtension,
    Pipeline,
    PipelineResult,
    Plugin,
    PluginResult,
    PolicyDeniedError,
    PolicyError,
    SecurityExtension,
    Step,
    TierViolation,
    Violation,
    called_tools,
    check_data_use,
    hook,
    labels_of,
    with_labels,
)

HI = Message.user("Hi", session_id="s")
Run = Callable[..., PipelineResult]


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Run:
    """Both drivers."""
    if request.param == "sync":
        return lambda pipeline, message=HI, extensions=None, **how: pipeline.run(
            how.pop("at", "evaluate"), message, extensions, **how
        )
    return lambda pipeline, message=HI, extensions=None, **how: asyncio.run(
        pipeline.run_async(how.pop("at", "evaluate"), message, extensions, **how)
    )


def noting(order: list[str], name: str, **declared: Any) -> Plugin:
    def note(step: Step) -> None:
        order.append(name)

    return hook("evaluate", name=name, **declared)(note)


def writing(text: str, **declared: Any) -> Plugin:
    def write(step: Step) -> Message:
        text_after = step.message.text + text
        return step.message.model_copy(update={"content": (TextBlock(text=text_after),)})

    return hook("evaluate", name=f"writing {text}", **declared)(write)


def test_plugins_run_by_mode_then_priority_then_place(run: Run) -> None:
    """Whatever the order in which they are given."""
    order: list[str] = []
    plugins = [
        noting(order, "aside", mode="concurrent", priority=1),
        noting(order, "audit", mode="audit", priority=1),
        noting(order, "change", mode="transform", priority=1),
        noting(order, "late", priority=200),
        noting(order, "one"),
        noting(order, "two"),
        noting(order, "early", priority=-5),
    ]
    run(Pipeline(plugins))
    assert order == ["early", "one", "two", "late", "change", "audit", "aside"]


def test_only_the_hooks_that_were_named_are_asked(run: Run) -> None:
    """By name or by member; without any plugin there the very same message and extensions come back."""
    order: list[str] = []
    whole = Extensions()
    pipeline = Pipeline([noting(order, "n")])
    outcome = run(pipeline, HI, whole, at="cmf.llm_input")
    assert (order, outcome.message is HI, outcome.extensions is whole) == ([], True, True)
    assert pipeline.has_plugins("evaluate")
    assert not pipeline.has_plugins("cmf.llm_input")


def test_changes_add_up(run: Run) -> None:
    """Each plugin sees what the one before it left; what it cannot see stays."""
    outcome = run(Pipeline([writing("a"), writing("b", mode="transform"), writing("0", priority=1)]))
    assert outcome.message.text == "Hi0ab"
    assert outcome.message.id == HI.id


@pytest.mark.parametrize("mode", ["sequential", "concurrent"])
def test_a_violation_stops_the_step(run: Run, mode: str) -> None:
    """The error bears hook, plugin, code, reason and description, and survives pickling; nobody after it is asked."""
    order: list[str] = []

    @hook("evaluate", mode=mode)
    def stop(step: Step) -> Violation:
        return Violation("it is late", code="late", description="Come back tomorrow.")

    last = noting(order, "after", mode="concurrent" if mode == "sequential" else "fire_and_forget")
    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([stop, last]))
    for error in (denied.value, pickle.loads(pickle.dumps(denied.value))):
        assert (error.hook, error.plugin, error.code, error.reason) == ("evaluate", "stop", "late", "it is late")
        assert error.description == "Come back tomorrow."
        assert isinstance(error, PolicyError)
        assert isinstance(error, DragomanError)
    assert order == []


def test_the_first_by_priority_names_a_refusal_of_several(run: Run) -> None:
    """Though they run side by side, and another one may be faster."""

    def stop(name: str, wait: float) -> Plugin:
        def check(step: Step) -> Violation:
            time.sleep(wait)
            return Violation("no", code=name)

        return hook("evaluate", name=name, mode="concurrent")(check)

    with pytest.raises(PolicyDeniedError, match=r"\(slow\)"):
        run(Pipeline([stop("slow", 0.02), stop("fast", 0)]))


def test_concurrent_plugins_run_at_the_same_time() -> None:
    """Each waits for the other: one after the other they would never end."""
    barrier = threading.Barrier(2, timeout=10)

    def meet(step: Step) -> None:
        barrier.wait()

    Pipeline([hook("evaluate", name=name, mode="concurrent")(meet) for name in "ab"]).run("evaluate", HI)


def test_concurrent_coroutines_run_at_the_same_time() -> None:
    """As tasks of one loop."""

    async def main() -> None:
        barrier = asyncio.Barrier(2)

        async def meet(step: Step) -> None:
            await asyncio.wait_for(barrier.wait(), 10)

        plugins = [hook("evaluate", name=name, mode="concurrent")(meet) for name in "ab"]
        await Pipeline(plugins).run_async("evaluate", HI)

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["raises", "returns nonsense", "is forged"])
def test_a_failure_denies(run: Run, kind: str) -> None:
    """With the failure as its cause, and without what it said, which may quote anything."""

    @hook("evaluate")
    def broken(step: Step) -> Any:
        if kind == "raises":
            raise ValueError("hunter2")
        return False if kind == "returns nonsense" else Message.user("Hi", session_id="s")

    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([broken]))
    assert "hunter2" not in str(denied.value)
    assert denied.value.code == ("tier_violation" if kind == "is forged" else "plugin_error")
    assert isinstance(denied.value.__cause__, (ValueError, TypeError, TierViolation))


@pytest.mark.parametrize("mode", ["sequential", "transform", "audit", "concurrent"])
def test_failing_open_takes_a_declaration(run: Run, mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Then the step goes on without the plugin, and a warning says so; in every mode that is waited for."""

    def broken(step: Step) -> None:
        raise ValueError("hunter2")

    with pytest.raises(PolicyDeniedError, match="plugin_error"):
        run(Pipeline([hook("evaluate", mode=mode)(broken)]))
    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert run(Pipeline([hook("evaluate", mode=mode, on_error="ignore")(broken)])).message is HI
    assert "continues without the plugin broken" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("mode", ["sequential", "concurrent"])
def test_a_plugin_that_takes_too_long_is_left_behind(run: Run, mode: str) -> None:
    """A plain function in its thread, a coroutine in its task; the step is denied, or goes on as declared."""
    done = threading.Event()

    @hook("evaluate", timeout=0.02, mode=mode)
    def slow(step: Step) -> None:
        done.wait(10)

    try:
        with pytest.raises(PolicyDeniedError, match=r"\(timeout\)"):
            run(Pipeline([slow]))
    finally:
        done.set()

    @hook("evaluate", timeout=0.02, on_error="ignore", mode=mode)
    async def waiting(step: Step) -> None:
        await asyncio.sleep(10)

    assert asyncio.run(Pipeline([waiting]).run_async("evaluate", HI)).message is HI


def test_a_plugin_in_time_answers(run: Run) -> None:
    """From its thread, with the context of its caller."""

    @hook("evaluate", timeout=10)
    def quick(step: Step) -> Violation:
        return Violation("no", code=threading.current_thread().name)

    with pytest.raises(PolicyDeniedError, match="policy-quick"):
        run(Pipeline([quick]))


def test_coroutines_are_awaited_and_refused_without_await() -> None:
    """Nothing that has to be awaited is taken for an answer."""

    @hook("evaluate")
    async def stop(step: Step) -> Violation:
        return Violation("no")

    pipeline = Pipeline([stop])
    assert pipeline.async_names == ("stop",)
    with pytest.raises(PolicyDeniedError):
        asyncio.run(pipeline.run_async("evaluate", HI))
    with pytest.raises(ConfigurationError, match="AsyncSession"):
        pipeline.run("evaluate", HI)


def test_fire_and_forget_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    """It is started, its answer is heard by nobody, and its failure is logged."""
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    @hook("evaluate", mode="fire_and_forget")
    def slow(step: Step) -> Violation:
        begun.set()
        may_end.wait(10)
        ended.set()
        return Violation("no")

    assert Pipeline([slow]).run("evaluate", HI).message is HI
    assert begun.wait(10)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(10)

    async def main() -> list[str]:
        called: list[str] = []

        @hook("evaluate", mode="fire_and_forget")
        async def failing(step: Step) -> None:
            called.append(step.hook)
            raise ValueError("hunter2")

        await Pipeline([failing]).run_async("evaluate", HI)
        assert called == []
        await asyncio.sleep(0.01)
        return called

    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert asyncio.run(main()) == ["evaluate"]
    assert "the plugin failing failed at evaluate: ValueError" in caplog.text


@pytest.mark.parametrize(
    ("mode", "answer", "code"),
    [
        ("transform", Violation("no"), "tier_violation"),
        ("audit", "change", "tier_violation"),
        ("concurrent", "change", "tier_violation"),
    ],
)
def test_a_mode_keeps_to_its_rights(run: Run, mode: str, answer: Any, code: str) -> None:
    """What it may not do is a fault of the plugin, which denies as any other."""

    @hook("evaluate", mode=mode)
    def overreaching(step: Step) -> Any:
        return step.message.model_copy(update={"content": ()}) if answer == "change" else answer

    with pytest.raises(PolicyDeniedError, match=code):
        run(Pipeline([overreaching]))


def test_an_audit_that_objects_is_logged(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """It stops nothing."""

    @hook("evaluate", mode="audit")
    def objecting(step: Step) -> Violation:
        return Violation("hunter2", code="odd")

    with caplog.at_level(logging.WARNING, "dragoman.policy"):
        assert run(Pipeline([objecting])).message is HI
    assert "would deny evaluate: odd" in caplog.text


@pytest.mark.parametrize(
    "forge",
    [
        lambda message: message.model_copy(update={"role": "system"}),
        lambda message: message.model_copy(update={"id": "other"}),
        lambda message: message.model_copy(update={"session_id": "other"}),
        lambda message: message.model_copy(update={"channel": "final"}),
        lambda message: message.model_copy(update={"metadata": MessageMetadata(model="a:b")}),
        lambda message: message.model_copy(update={"content": (ToolUseBlock(id="new", name="f"),)}),
        lambda message: message.model_copy(update={"content": (ToolUseBlock(id="t", name="rm"),)}),
        lambda message: message.model_copy(update={"content": message.content * 2}),
        lambda message: message.model_copy(update={"content": (ToolResultBlock(tool_use_id="t", content="ok"),)}),
    ],
)
def test_a_message_keeps_its_identity(run: Run, forge: Callable[[Message], Message]) -> None:
    """Its content alone may change, and no call or result is made up in it."""
    message = Message.assistant([ToolUseBlock(id="t", name="f", input={"a": 1})], session_id="s")
    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([hook("evaluate", name="forging")(lambda step: forge(step.message))]), message)
    cause = denied.value.__cause__
    assert isinstance(cause, TierViolation)
    assert (cause.plugin, cause.tier) == ("forging", "immutable")
    assert cause.slot.startswith("message.")


def test_arguments_and_answers_may_change_or_go(run: Run) -> None:
    """What the plugin still holds of them is not what is taken over."""
    kept_messages: list[Message] = []

    @hook("evaluate")
    def blank(step: Step) -> Message:
        use = step.message.tool_uses[0].model_copy(update={"input": {"a": {"b": "***"}}})
        kept_messages.append(step.message.model_copy(update={"content": (use,)}))
        return kept_messages[0]

    message = Message.assistant(
        [ToolUseBlock(id="t", name="f", input={"a": 1}), ToolUseBlock(id="u", name="g")], session_id="s"
    )
    outcome = run(Pipeline([blank]), message)
    kept_messages[0].tool_uses[0].input["a"]["b"] = "mine"
    assert [use.input for use in outcome.message.tool_uses] == [{"a": {"b": "***"}}]


def test_what_is_again_cannot_change(run: Run) -> None:
    """Plugins of mode transform are not asked; others may deny, and are refused where they want a change."""
    assert run(Pipeline([writing("a", mode="transform")]), already_seen=True).message is HI
    with pytest.raises(PolicyDeniedError, match="cannot_change"):
        run(Pipeline([writing("a")]), already_seen=True)
    same = hook("evaluate", name="same")(lambda step: step.message)
    assert run(Pipeline([same]), already_seen=True).message is HI


def test_a_change_voids_what_was_signed_behind_it(run: Run) -> None:
    """That is dropped; what was signed before stays; or the step is denied."""
    signed = [ThinkingBlock(text=text, signature="c2ln") for text in ("before", "behind")]
    message = Message.assistant([signed[0], TextBlock(text="Hi"), signed[1], TextBlock(text="So")], session_id="s")

    @hook("evaluate")
    def change(step: Step) -> Message:
        first, _, *rest = step.message.content
        return step.message.model_copy(update={"content": (first, TextBlock(text="***"), *rest)})

    outcome = run(Pipeline([change]), message)
    assert outcome.message.content == (signed[0], TextBlock(text="***"), TextBlock(text="So"))
    with pytest.raises(PolicyDeniedError, match="signed_thinking"):
        run(Pipeline([change], signed="deny"), message)


def test_unknown_parts_are_left_out_where_that_is_declared(run: Run) -> None:
    """Beside those that can be judged, at any depth."""
    native = ProviderBlock(provider="p", kind="k", data={})
    message = Message.assistant([TextBlock(text="Hi"), native], session_id="s")
    kept = run(Pipeline([noting([], "n")], unknown="drop"), message).message
    assert kept.content == (TextBlock(text="Hi"),)
    with pytest.raises(PolicyDeniedError, match="unknown_part"):
        run(Pipeline([noting([], "n")], unknown="drop"), message, already_seen=True)


def test_marks_on_single_blocks_hold_for_all_where_blocks_move(run: Run) -> None:
    """What may not be lost stays so, though its index means another block now."""
    metadata = MessageMetadata(critical=(1,), provider_raw={"by": "p"})
    message = Message.assistant([TextBlock(text="a"), TextBlock(text="b")], session_id="s", metadata=metadata)
    first = hook("evaluate", name="first")(
        lambda step: step.message.model_copy(update={"content": step.message.content[1:]})
    )
    changed = run(Pipeline([first]), message).message
    assert (changed.text, changed.metadata.critical, changed.metadata.provider_raw) == ("b", True, None)


def test_a_condition_decides_whether_a_plugin_is_asked(run: Run) -> None:
    """And its failure is the plugin's."""
    order: list[str] = []
    run(Pipeline([noting(order, "never", when=lambda step: False), noting(order, "ever", when=lambda step: True)]))
    assert order == ["ever"]
    with pytest.raises(PolicyDeniedError, match="plugin_error"):
        run(Pipeline([noting(order, "broken", when=lambda step: 1 / 0 > 0)]))


@pytest.mark.parametrize("granted", [[], *([each] for each in Capability)])
def test_a_plugin_sees_what_it_was_granted(run: Run, granted: list[Capability]) -> None:
    """In every mode; growing its own list later gives it nothing."""
    seen: list[Extensions] = []

    class Greedy(Plugin):
        hooks = ("evaluate",)

        def __init__(self) -> None:
            self.capabilities = list(granted)

        def check(self, step: Step) -> None:
            self.capabilities = list(Capability)
            seen.append(step.extensions)

    whole = Extensions(http=HttpExtension(headers={"a": "b"}), security=SecurityExtension(labels=frozenset({"PII"})))
    pipeline = Pipeline([Greedy()])
    for _ in range(2):
        run(pipeline, HI, whole)
    reads = {Capability.READ_HEADERS, Capability.WRITE_HEADERS}
    labels = {Capability.READ_LABELS, Capability.APPEND_LABELS, Capability.DECLASSIFY_LABELS}
    for shown in seen:
        assert (shown.http is not None) == bool(reads & set(granted))
        assert bool(labels_of(shown)) == bool(labels & set(granted))


def test_labels_of_those_who_run_side_by_side_are_united(run: Run) -> None:
    """With append_labels; an audit needs it too, and one without it breaks the rules."""

    def labelling(label: str, mode: str, *capabilities: str) -> Plugin:
        def check(step: Step) -> PluginResult:
            return PluginResult(extensions=with_labels(step.extensions, {label}))

        return hook("evaluate", name=label, mode=mode, capabilities=capabilities)(check)

    plugins = [labelling(label, mode, "append_labels") for label, mode in zip("abc", ["concurrent"] * 2 + ["audit"])]  # noqa: B905
    assert labels_of(run(Pipeline(plugins)).extensions) == {"a", "b", "c"}
    with pytest.raises(PolicyDeniedError, match="tier_violation"):
        run(Pipeline([labelling("d", "audit")]))


def test_data_is_stamped_where_it_comes_in(run: Run) -> None:
    """With the labels of its policy, before any plugin looks at it; elsewhere it is not."""
    call = Message.assistant([ToolUseBlock(id="t", name="look")], session_id="s")
    result = Message.tool("t", "42", session_id="s")
    policy = DataPolicy(apply_labels=["PII"], denied_actions=["export"])
    whole = Extensions(security=SecurityExtension(data={"look": policy}))
    seen: list[frozenset[str]] = []
    look = hook("cmf.tool_post_invoke", capabilities=["read_labels"], name="look")(
        lambda step: seen.append(labels_of(step.extensions))
    )
    outcome = run(Pipeline([look]), result, whole, at="cmf.tool_post_invoke", calls=called_tools([call]))
    assert labels_of(outcome.extensions) == {"PII"}
    assert seen == [{"PII"}]
    assert labels_of(run(Pipeline(), result, whole, at="cmf.llm_input").extensions) == set()


def test_actions_are_refused_by_any_policy() -> None:
    """Denied goes before allowed, None allows the rest, an empty list nothing."""
    denying, allowing = DataPolicy(denied_actions=["export"]), DataPolicy(allowed_actions=["read"])
    assert check_data_use(["forward"], [denying]) is None
    assert check_data_use(["read"], [denying, allowing]) is None
    for actions, policies in ((["read", "export"], [denying]), (["forward"], [denying, allowing])):
        found = check_data_use(actions, policies)
        assert found is not None
        assert found.code == "data_policy"
    assert check_data_use(["read"], [DataPolicy(allowed_actions=[])]) is not None


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        ({"hooks": ()}, "names no hook"),
        ({"hooks": ("cmf.llm_inptu",)}, "did you mean cmf.llm_input"),
        ({"mode": "sequentail"}, "did you mean sequential"),
        ({"on_error": "pass"}, "there are deny, ignore"),
        ({"timeout": 0}, "timeout"),
        ({"window": 0}, "window"),
        ({"capabilities": ["read_everything"]}, "not a capability"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(declared: dict[str, Any], says: str) -> None:
    """When the pipeline is made, with what to write instead."""
    plugin = type("Odd", (Plugin,), {"hooks": ("evaluate",), **declared})()
    with pytest.raises(ConfigurationError, match=says):
        Pipeline([plugin])


def test_a_pipeline_is_made_of_plugins_with_names_of_their_own() -> None:
    """And of rules that exist."""
    with pytest.raises(ConfigurationError, match="is not a plugin"):
        Pipeline([lambda step: None])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="two plugins"):
        Pipeline([noting([], "n"), noting([], "n")])
    for rules in ({"signed": "keep"}, {"unknown": "pass"}, {"denied_calls": "ask"}):
        with pytest.raises(ConfigurationError, match=r": use (drop or deny|raise or answer)"):
            Pipeline(**rules)  # type: ignore[arg-type]


def test_the_window_is_the_largest_that_is_declared() -> None:
    """None where one plugin has to see everything; audits wait for the whole anyway."""
    plugins = [noting([], str(size), window=size) for size in (5, 9)]
    assert Pipeline(plugins).window == 0
    at = [hook("cmf.llm_output", name=str(size), window=size)(lambda step: None) for size in (5, 9)]
    assert Pipeline(at).window == 9
    audit = hook("cmf.llm_output", name="audit", mode="audit")(lambda step: None)
    assert Pipeline([*at, audit]).window == 9
    whole = hook("cmf.llm_output", name="whole")(lambda step: None)
    assert Pipeline([*at, whole]).window is None


def test_a_step_shows_no_content_in_print() -> None:
    """Neither does a plugin's view of what an adapter keeps for itself."""
    metadata = MessageMetadata(provider_raw={"by": "p", "raw": "hunter2"})
    message = Message.assistant("hunter2", session_id="s", metadata=metadata)
    step = Step("evaluate", message, partial=True)
    assert repr(step) == "Step(evaluate, assistant, partial)"
    assert step.message == message
    assert step.message.metadata.provider_raw is None
