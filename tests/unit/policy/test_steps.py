"""What a plugin reaches from a step: copies and read-only values, and nothing that its capabilities hide."""

import copy
import pickle
from collections.abc import Callable, Iterator
from threading import Barrier
from types import MappingProxyType
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions.extensions import AgentExtension, ConversationContext
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.message_view.context import UnreadableError
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy import Capability, Extensions, Mode, OnError, Pipeline, PolicyDeniedError, Step, Violation, hook
from dragoman.policy.labels import labels_of, with_labels
from dragoman.policy.views import CalledTool
from dragoman.session import Session
from dragoman.testing import ScriptedProvider
from tests.unit.canonical.extensions.samples import full
from tests.unit.policy.grants import GATED, grant_for, texts

CALLS = {"tu_1": CalledTool("execute_sql", "db-server"), "tu_2": CalledTool("other")}
METADATA = MessageMetadata(
    user_id="message.user_id", team_id="message.team_id", provider_raw={"raw": ["message.provider_raw"]}
)
CONTENT: list[ContentBlock] = [
    TextBlock(text="Hello."),
    ToolUseBlock(id="tu_1", name="execute_sql", input={"query": ["SELECT 1"]}),
    ToolResultBlock(tool_use_id="tu_2", content=(TextBlock(text="ok"),)),
]
MESSAGE = Message.assistant(CONTENT, session_id="message.session_id", metadata=METADATA)
HIDDEN = {
    "message.session_id": Capability.READ_AGENT,
    "message.user_id": Capability.READ_SUBJECT,
    "message.team_id": Capability.READ_TEAMS,
}


def extensions() -> Extensions:
    known = full()
    conversation = ConversationContext(history=[MESSAGE], summary="agent.summary")
    agent = (known.agent or AgentExtension()).model_copy(update={"conversation": conversation})
    return known.model_copy(update={"agent": agent})


def new_step(*capabilities: Capability) -> Step:
    return Step("cmf.llm_input", MESSAGE, extensions(), capabilities, calls=CALLS)


def reach(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Yield everything that is reached through public attributes and iteration."""
    if id(value) in seen or isinstance(value, type):
        return
    seen[id(value)] = value
    yield value
    if isinstance(value, (dict, MappingProxyType)):
        inner: list[Any] = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = [*value]
    elif isinstance(value, BaseModel):
        inner = [*value.__dict__.values(), *(value.model_extra or {}).values()]
    elif isinstance(value, (Step, MessageView)):
        inner = [read for name in dir(value) if not name.startswith("_") for read in readable(value, name)]
        inner += [
            call() for call in (getattr(value, name, None) for name in ("views", "inner_views", "to_dict")) if call
        ]
        inner = [each for each in inner if not callable(each)]
        inner = [[*each] if isinstance(each, Iterator) else each for each in inner]
    else:
        inner = []
    for each in inner:
        yield from reach(each, seen)


def readable(value: Any, name: str) -> list[Any]:
    """Return the attribute, or nothing if a capability hides it."""
    try:
        return [getattr(value, name)]
    except UnreadableError:
        return []


def everything(step: Step) -> list[Any]:
    return list(reach(step, {}))


@pytest.mark.parametrize("how", ["public names", "copy", "deepcopy", "pickle", "pickled views"])
def test_nothing_hidden_is_reached_without_a_capability(how: str) -> None:
    """By no way: not through attributes, copies or pickles, and not in the messages of the conversation."""
    step = new_step()
    ways: dict[str, Callable[[], Any]] = {
        "public names": lambda: everything(step),
        "copy": lambda: [everything(copy.copy(step)), pickle.dumps(copy.copy(step))],
        "deepcopy": lambda: [everything(copy.deepcopy(step)), pickle.dumps(copy.deepcopy(step))],
        "pickle": lambda: [everything(pickle.loads(pickle.dumps(step)))],
        "pickled views": lambda: [pickle.dumps(pickle.loads(pickle.dumps(each))) for each in step.views()],
    }
    words = str(ways[how]()) + str(pickle.dumps(step)) + str(pickle.dumps(step.views()))
    for hidden in (*HIDDEN, "message.provider_raw", *GATED):
        if hidden != "http.":  # a part of other words
            assert hidden not in words.replace("db-server", ""), hidden


@pytest.mark.parametrize("capability", Capability)
def test_each_capability_shows_its_own_words_and_no_other(capability: Capability) -> None:
    step = new_step(capability)
    found = pickle.loads(pickle.dumps(step))
    granted = found._capabilities
    words = texts(found.extensions.model_dump(mode="json")) | texts(found.message.model_dump(mode="json"))
    for word in words:
        needed = HIDDEN.get(word, grant_for(word))
        assert needed is None or needed in granted, word
    for word, needed in HIDDEN.items():
        assert (word in words) is (needed in granted)


def test_nothing_mutable_is_shared_with_the_session() -> None:
    """With every capability: no dict, list or model of the original is reached."""
    original = extensions()
    calls = dict(CALLS)
    step = Step("cmf.llm_input", MESSAGE, original, Capability, calls=calls)
    own = {
        id(each) for each in (*reach(MESSAGE, {}), *reach(original, {})) if isinstance(each, (dict, list, BaseModel))
    }
    kept = everything(step)
    shared = [each for each in kept if id(each) in own | {id(calls)}]
    assert shared == []


def test_empty_extensions_are_shared_with_nobody() -> None:
    """What a plugin forces into them reaches no other plugin, not even one of another pipeline."""
    Step("cmf.llm_input", Message.user("Hi"), Extensions()).extensions.__dict__["custom"] = {"forced": True}
    assert Step("cmf.llm_input", Message.user("Hi"), Extensions()).extensions.custom is None


def test_a_plugin_cannot_change_the_tools_of_the_session() -> None:
    """In no mode: the names of the tools decide which labels and which rules apply."""
    for mode in Mode:

        @hook("cmf.tool_post_invoke", mode=mode)
        def rename(step: Step) -> None:
            renaming: Any = step.calls
            with pytest.raises(TypeError):
                renaming["tu_1"] = CalledTool("x")
            dict.clear(renaming)

        calls = dict(CALLS)
        Pipeline([rename]).run("cmf.tool_post_invoke", MESSAGE, calls=calls)
        assert calls == CALLS


def test_a_message_without_its_hidden_ids_may_be_returned() -> None:
    """The ids stay as they were; a plugin that invents one is stopped."""

    @hook("evaluate", name="shorter")
    def shorten(step: Step) -> Message:
        assert (step.message.session_id, step.message.metadata.user_id) == ("", None)
        return step.message.model_copy(update={"content": step.message.content[:1]})

    result = Pipeline([shorten]).run("evaluate", MESSAGE).message
    assert result == MESSAGE.model_copy(update={"content": MESSAGE.content[:1]})

    @hook("evaluate")
    def forge(step: Step) -> Message:
        return step.message.model_copy(update={"session_id": "forged"})

    with pytest.raises(Exception, match=r"message\.session_id"):
        Pipeline([forge]).run("evaluate", MESSAGE)


QUESTIONS = {
    "has_label": "read_labels",
    "has_role": "read_roles",
    "has_permission": "read_permissions",
    "has_header": "read_headers",
    "get_header": "read_headers",
}


@pytest.mark.parametrize(("question", "capability"), QUESTIONS.items())
@pytest.mark.parametrize("on_error", OnError)
def test_a_question_without_its_capability_is_an_error(question: str, capability: str, on_error: OnError) -> None:
    """And not the answer "no", also if failures of the plugin are ignored; with the capability it is answered."""

    def ask(step: Step) -> Violation | None:
        (view,) = step.views()
        return Violation("found") if getattr(view, question)("PII") else None

    message = Message.user("Hello.")
    plugin = hook("evaluate", name="asker", on_error=on_error)(ask)
    with pytest.raises(ConfigurationError, match=f"'asker': {question} needs the capability {capability}"):
        Pipeline([plugin]).run("evaluate", message, full())
    granted = hook("evaluate", on_error=on_error, capabilities=[capability])(ask)
    assert Pipeline([granted]).run("evaluate", message, full()).message == message


def test_inner_and_pickled_views_know_their_capabilities() -> None:
    view = new_step().views()[2]
    (inner,) = view.inner_views()
    for each in (view, inner, copy.copy(view), pickle.loads(pickle.dumps(inner))):
        with pytest.raises(UnreadableError):
            each.has_label("PII")
    (unbound,) = Message.user("Hello.").iter_views(extensions=full())
    assert not unbound.has_label("PII")


def test_a_kept_step_shows_what_was_true_when_it_ran() -> None:
    """Also what its plugin reads for the first time afterwards, when the labels are others."""
    kept: list[Step] = []

    @hook("cmf.llm_input", name="keeper", capabilities=["read_labels"])
    def keep(step: Step) -> None:
        kept.append(step)

    @hook("cmf.llm_input", name="labeller", priority=200, capabilities=["append_labels"])
    def label(step: Step) -> Extensions:
        return with_labels(step.extensions, {f"SEEN-{len(kept)}"})

    with ScriptedProvider("One.", "Two.") as provider:
        session = Session(provider.model, policy=Pipeline([keep, label]))
        session.ask("1")
        session.ask("2")
        assert session.labels == {"SEEN-1", "SEEN-2"}
    assert [sorted(each.views()[0].labels) for each in kept] == [[], ["SEEN-1"]]
    assert [labels_of(each.extensions) for each in kept] == [frozenset(), {"SEEN-1"}]


def test_threads_that_read_a_view_together_see_the_same() -> None:
    """Concurrent plugins share their views, whose extensions are built when the first one reads them."""
    barrier = Barrier(8)

    def look(step: Step) -> Violation | None:
        (view,) = step.views()
        barrier.wait(60)
        return None if view.roles == roles else Violation("other roles")

    known = full()
    assert known.security is not None
    assert known.security.subject is not None
    roles = known.security.subject.roles
    plugins = [hook("evaluate", name=f"{n}", mode="concurrent", capabilities=["read_roles"])(look) for n in range(8)]
    assert Pipeline(plugins).run("evaluate", Message.user("Hello."), known).extensions is known


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("labels", "read_labels"), ("roles", "read_roles"), ("permissions", "read_permissions"),
        ("teams", "read_teams"), ("headers", "read_headers"), ("subject", "read_subject"),
    ],
)  # fmt: skip
def test_what_a_capability_hides_is_not_shown_as_empty(name: str, capability: str) -> None:
    """A plugin that forgets the capability fails, and the step is denied: "no labels" would let it pass."""

    @hook("llm_input")
    def forgets(step: Step) -> Violation | None:
        return Violation("found") if any(getattr(view, name) for view in step.views()) else None

    with pytest.raises(ConfigurationError, match=capability):
        Pipeline([forgets]).run("llm_input", MESSAGE, extensions(), calls=CALLS)
    remembers = hook("llm_input", capabilities=[capability])(forgets)
    with pytest.raises(PolicyDeniedError, match="found"):
        Pipeline([remembers]).run("llm_input", MESSAGE, extensions(), calls=CALLS)
