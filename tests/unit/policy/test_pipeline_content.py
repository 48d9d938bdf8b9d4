"""What plugins in a pipeline may see and change."""

import asyncio
from collections.abc import Callable

import pytest

from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.policy import (
    Capability,
    DataPolicy,
    Extensions,
    HttpExtension,
    Pipeline,
    Plugin,
    PluginResult,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    TierViolation,
    hook,
)
from dragoman.policy.data_policy import check_data_use
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.views import called_tools
from tests.unit.policy.pipelines import HI, Run, appending_plugin, recording_plugin


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
    """Only its content may change, and no call or result is added."""
    message = Message.assistant([ToolUseBlock(id="t", name="f", input={"a": 1})], session_id="s")
    with pytest.raises(PolicyDeniedError) as denied:
        run(Pipeline([hook("evaluate", name="forging")(lambda step: forge(step.message))]), message)
    cause = denied.value.__cause__
    assert isinstance(cause, TierViolation)
    assert (cause.plugin, cause.tier) == ("forging", "immutable")
    assert cause.slot.startswith("message.")


def test_arguments_and_calls_may_change_or_go(run: Run) -> None:
    """The result is a copy: later changes by the plugin have no effect."""
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


def test_a_message_seen_before_cannot_change(run: Run) -> None:
    """Plugins of mode transform do not run; others may deny, and are refused if they change it."""
    assert run(Pipeline([appending_plugin("a", mode="transform")]), already_seen=True).message is HI
    with pytest.raises(PolicyDeniedError, match="cannot_change"):
        run(Pipeline([appending_plugin("a")]), already_seen=True)
    same = hook("evaluate", name="same")(lambda step: step.message)
    assert run(Pipeline([same]), already_seen=True).message is HI


@pytest.mark.parametrize("on_error", ["deny", "ignore"])
def test_a_plugin_may_fail_when_it_judges_its_own_result(run: Run, on_error: str) -> None:
    """A plugin that changes a message again is asked about its own result. A failure there counts as any other."""
    texts: list[str] = []

    @hook("evaluate", name="first", on_error=on_error)
    def first(step: Step) -> Message:
        texts.append(step.message.text)
        if len(texts) == 3:
            raise ValueError("what the plugin read")
        return step.message.model_copy(update={"content": (TextBlock(text=step.message.text + "a"),)})

    pipeline = Pipeline([first, appending_plugin("b", mode="transform")])
    if on_error == "ignore":
        assert run(pipeline).message.text == "Hiab"
    else:
        with pytest.raises(PolicyDeniedError, match="plugin_error") as denied:
            run(pipeline)
        assert "what the plugin read" not in str(denied.value)
    assert texts == ["Hi", "Hiab", "Hia"]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_plugin_that_is_awaited_is_not_asked_about_its_own_result(is_plain: bool) -> None:
    """Another change of it is refused, also if a plain function returns the coroutine."""

    async def append(step: Step) -> Message:
        return step.message.model_copy(update={"content": (TextBlock(text=step.message.text + "a"),)})

    check = (lambda step: append(step)) if is_plain else append
    pipeline = Pipeline([hook("evaluate", name="first")(check), appending_plugin("b", mode="transform")])
    with pytest.raises(PolicyDeniedError, match="cannot_change"):
        asyncio.run(pipeline.run_async("evaluate", HI))


def test_a_change_drops_signed_thinking_after_it(run: Run) -> None:
    """Signed thinking before it stays; or the step is denied."""
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


def test_unknown_parts_can_be_dropped(run: Run) -> None:
    """The other parts are judged, at any depth."""
    native = ProviderBlock(provider="p", kind="k", data={})
    message = Message.assistant([TextBlock(text="Hi"), native], session_id="s")
    kept = run(Pipeline([recording_plugin([], "n")], unknown="drop"), message).message
    assert kept.content == (TextBlock(text="Hi"),)
    with pytest.raises(PolicyDeniedError, match="unknown_part"):
        run(Pipeline([recording_plugin([], "n")], unknown="drop"), message, already_seen=True)


def test_marks_on_single_blocks_cover_all_if_blocks_move(run: Run) -> None:
    """A critical block stays critical, though its index now means another block."""
    metadata = MessageMetadata(critical=(1,), provider_raw={"by": "p"})
    message = Message.assistant([TextBlock(text="a"), TextBlock(text="b")], session_id="s", metadata=metadata)
    first = hook("evaluate", name="first")(
        lambda step: step.message.model_copy(update={"content": step.message.content[1:]})
    )
    changed = run(Pipeline([first]), message).message
    assert (changed.text, changed.metadata.critical, changed.metadata.provider_raw) == ("b", True, None)


@pytest.mark.parametrize("granted", [[], *([each] for each in Capability)])
def test_a_plugin_sees_what_it_was_granted(run: Run, granted: list[Capability]) -> None:
    """A plugin sees what it was granted in every mode; extending its own list later grants nothing."""
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


def test_labels_of_concurrent_plugins_are_united(run: Run) -> None:
    """With append_labels; an audit needs it too, and one without it breaks the rules."""

    def labelling(label: str, mode: str, *capabilities: str) -> Plugin:
        def check(step: Step) -> PluginResult:
            return PluginResult(extensions=with_labels(step.extensions, {label}))

        return hook("evaluate", name=label, mode=mode, capabilities=capabilities)(check)

    plugins = [labelling(label, mode, "append_labels") for label, mode in zip("abc", ["concurrent"] * 2 + ["audit"])]  # noqa: B905
    assert labels_of(run(Pipeline(plugins)).extensions) == {"a", "b", "c"}
    with pytest.raises(PolicyDeniedError, match="tier_violation"):
        run(Pipeline([labelling("d", "audit")]))


def test_data_are_labelled_on_entry(run: Run) -> None:
    """With the labels of their policy, before any plugin sees them; at other hooks they are not."""
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


def test_any_policy_may_refuse_an_action() -> None:
    """Denied takes precedence over allowed, None allows the others, an empty list nothing."""
    denying, allowing = DataPolicy(denied_actions=["export"]), DataPolicy(allowed_actions=["read"])
    assert check_data_use(["forward"], [denying]) is None
    assert check_data_use(["read"], [denying, allowing]) is None
    for actions, policies in ((["read", "export"], [denying]), (["forward"], [denying, allowing])):
        found = check_data_use(actions, policies)
        assert found is not None
        assert found.code == "data_policy"
    assert check_data_use(["read"], [DataPolicy(allowed_actions=[])]) is not None


def test_the_repr_of_a_step_shows_no_content() -> None:
    """A plugin does not see provider_raw either."""
    metadata = MessageMetadata(provider_raw={"by": "p", "raw": "hunter2"})
    message = Message.assistant("hunter2", session_id="s", metadata=metadata)
    step = Step("evaluate", message, capabilities=["read_agent"], partial=True)
    assert repr(step) == "Step(evaluate, assistant, partial)"
    assert step.message == message
    assert step.message.metadata.provider_raw is None
