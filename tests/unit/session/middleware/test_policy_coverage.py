"""Nothing bypasses the plugins: they see all text to and from models and tools before it is used.

A recording plugin sits on all hooks. Wires, tools and callers compare what reaches them with what it has seen by then.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import dragoman
from dragoman.adapter.errors import ProviderError
from dragoman.canonical.blocks import (
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptResultBlock,
    ResourceBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.events import MessageComplete
from dragoman.canonical.message import Message
from dragoman.policy import Pipeline
from dragoman.routing import Router
from dragoman.store import Store
from tests.packaging.systems import READS_FILES
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import (
    Call,
    Thought,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)
from tests.unit.session.middleware.word_tracker import CheckedEvents, CheckedWire, WordTracker, check_history

Replies = list[Any]

SMALL = "ollama:phi3:mini"


class WatchedSession:
    """A recorded session, its two providers, and a caller."""

    def __init__(self, driver: Driver, folder: Path) -> None:
        self.way = driver
        self.folder = folder
        self.plugin = WordTracker()
        self.ran: list[str] = []
        self.session: Any = None

    def begin(self, anthropic: Replies, ollama: Replies = (), model: str | None = ANTHROPIC, **settings: Any) -> Any:  # type: ignore[assignment]
        wires: dict[str, Wire] = {
            "anthropic": CheckedWire(self.plugin, ANTHROPIC, anthropic),
            "ollama": CheckedWire(self.plugin, model if model == SMALL else OLLAMA, ollama),
        }
        given = {"policy": Pipeline([self.plugin]), "tools": [self.look, self.fail], **settings}
        self.session = self.way.session(wires, model, **given)
        return self.session

    def look(self, path: str) -> str:
        """Looks."""
        assert self.plugin.unseen(path, "cmf.tool_pre_invoke") == set()
        self.ran.append(path)
        return f"found1 {path}"

    def fail(self, path: str) -> str:
        """Fails."""
        raise ValueError(f"broken1 {path}")

    def ask(self, prompt: Any = "question1") -> None:
        CheckedEvents(self.plugin).append(MessageComplete(self.way.ask(self.session, prompt).message))
        check_history(self.plugin, self.session.messages)

    def stream(self, prompt: Any = "question2", until: str | None = None) -> None:
        self.way.stream(self.session, prompt, seen=CheckedEvents(self.plugin), until=until)
        check_history(self.plugin, self.session.messages)


def reply_of(*parts: Any) -> Any:
    return handwritten_anthropic(*parts)


CALLS = (Call("toolu_1", "look", {"path": "path1"}), Call("toolu_2", "fail", {"path": "path2"}))


def tools(watched: WatchedSession) -> None:
    """Calls, results, errors, thinking; whole and streamed."""
    reply = [Thought("thought1 before1"), "I3 look4", *CALLS]
    watched.begin(
        [reply_of(*reply), reply_of("answer1"), reply_of(*reply), reply_of(Thought("thought2"), "answer2")],
        system="system1",
    )
    watched.ask()
    watched.stream()
    assert watched.ran == ["path1", "path1"]


def bad_calls(watched: WatchedSession) -> None:
    """A tool that does not exist, arguments that do not fit, a call that is not approved."""
    calls = (Call("toolu_1", "other", {"path": "path1"}), Call("toolu_2", "look", {"way": "path2"}), *CALLS[:1])
    renamed = Call("toolu_3", "look", {"path": "path3"})
    watched.begin([reply_of(*calls[:2], renamed), reply_of("answer1")], approve=lambda call, definition: False)
    watched.ask()
    assert watched.ran == []


def blocks(watched: WatchedSession) -> None:
    """All kinds of content, at any depth, including a file of the workspace."""
    (watched.folder / "notes.txt").write_text("file1 inside2")
    file = DocumentBlock(source=MediaSource(kind="file_ref", data="notes.txt"), media_type="text/plain")
    parts = [
        TextBlock(text="text1"),
        ImageBlock(source=MediaSource(kind="base64", data="aW1hZ2U1"), media_type="image/png"),
        *([file] if READS_FILES else []),
        ResourceBlock(resource_request_id="r", uri="note://a", resource_type="uri", content="resource1"),
        PromptResultBlock(prompt_request_id="p", prompt_name="n", messages=(), content="prompt1"),
    ]
    watched.begin([reply_of("answer1"), reply_of("answer2")], workspace=watched.folder)
    watched.ask(parts)
    watched.stream(Message.user([TextBlock(text="text2")]))


def compaction(watched: WatchedSession) -> None:
    """The summarized messages, the instructions, the summary and the next request; in pieces, and for another model."""
    watched.begin(
        [reply_of("answer1"), reply_of("answer2"), reply_of("summary1"), reply_of("answer3")],
        [handwritten_ollama("answer4")],
    )
    watched.ask()
    watched.stream()
    watched.way.compact(watched.session, keep_last=1, instructions="instruct1")
    check_history(watched.plugin, watched.session.messages)
    assert watched.session.messages[-1].metadata.summary_of
    watched.ask("question3")
    watched.session.swap(OLLAMA)
    watched.ask("question4")


def summary_of_summaries(watched: WatchedSession) -> None:
    """A history that is summarized in pieces: each summary is part of the next request."""
    history = [Message.user(f"story{number} " + "word " * 2000) for number in range(12)]
    watched.begin(
        [], [handwritten_ollama(f"summary{number}") for number in range(20)], model=SMALL, messages=history, tools=[]
    )
    watched.way.compact(watched.session, keep_last=1)
    check_history(watched.plugin, watched.session.messages)
    assert sum(bool(message.metadata.summary_of) for message in watched.session.messages) > 1


def another_model(watched: WatchedSession) -> None:
    """A retry and a fallback: each one is judged separately."""
    router = Router(workspace_default=ANTHROPIC, global_default=OLLAMA)
    down = [[handwritten_overloaded()]] * 3
    watched.begin([reply_of("answer1"), *down], [handwritten_ollama("answer2")], model=None, router=router)
    watched.ask()
    watched.stream()
    assert len(watched.session.messages) == 4


def given_history(watched: WatchedSession) -> None:
    """A history from elsewhere, with an unanswered call, and a reply for the model to continue."""
    history = [
        Message.user("old1"),
        Message.assistant([TextBlock(text="old2"), ToolUseBlock(id="tu_1", name="look", input={"path": "old3"})]),
        Message.user([ToolResultBlock(tool_use_id="tu_1", content=(TextBlock(text="old4"),))]),
        Message.assistant([ToolUseBlock(id="tu_2", name="look", input={"path": "old5"})]),
    ]
    watched.begin([reply_of("answer1"), reply_of("answer2")], messages=history, system="system1")
    watched.ask()
    watched.ask(Message.assistant("prefill1"))


def stored_session(watched: WatchedSession) -> None:
    """From a store, and from a dump."""
    with Store(f"sqlite:///{watched.folder / 'chats.db'}", synchronous="normal") as store:
        first = watched.begin([reply_of(*CALLS), reply_of("answer1")], store=store)
        watched.ask()
        found = store.load("sess_1").messages
        check_history(watched.plugin, found)
    watched.plugin = WordTracker()
    second = watched.begin(
        [reply_of("answer2"), reply_of("answer3")], session_id=first.session_id, messages=first.messages
    )
    watched.stream()
    loaded = type(second).load(
        second.dump(), providers=second.providers, policy=Pipeline([watched.plugin]), tools=[watched.look]
    )
    watched.session = loaded
    watched.ask()


def abandoned_stream(watched: WatchedSession) -> None:
    """A stream that its caller leaves before the next turn."""
    watched.begin([reply_of("many1 words2 of3 it4"), reply_of("answer1")])
    watched.stream(until="text_delta")
    watched.ask(None)


def broken_stream(watched: WatchedSession) -> None:
    """A stream that breaks: the error has the partial message."""
    frames = [*reply_of("many1 words2 of3 it4").frames[:5], handwritten_overloaded()]
    watched.begin([frames, reply_of("answer1")])
    with pytest.raises(ProviderError) as raised:
        watched.stream()
    assert raised.value.partial is not None
    check_history(watched.plugin, [raised.value.partial])
    watched.ask()


def unusable_summary(watched: WatchedSession) -> None:
    """A whole reply that cannot be read: the error has no part of its content."""
    body = reply_of("half1").body[:-20]
    answer = httpx.Response(200, headers={"content-type": "application/json"}, content=body)
    watched.begin([answer] * 3 + [reply_of("answer1")])
    with pytest.raises(ProviderError) as raised:
        watched.ask()
    assert raised.value.partial is None or watched.plugin.unseen(raised.value.partial.text, "cmf.llm_output") == set()


def denied_call_answered(watched: WatchedSession) -> None:
    """If a denied call is answered, the plugins see the answer like any other."""
    from tests.unit.session.middleware.policy_plugins import DenyingPlugin

    policy = Pipeline([watched.plugin, DenyingPlugin("path1", hooks=["cmf.tool_pre_invoke"])], denied_calls="answer")
    watched.begin([reply_of(*CALLS), reply_of("answer1")], policy=policy)
    watched.ask()
    assert watched.ran == []


WAYS = (tools, bad_calls, blocks, compaction, summary_of_summaries, another_model, given_history, stored_session,
abandoned_stream, broken_stream,
        unusable_summary, denied_call_answered)  # fmt: skip


@pytest.mark.parametrize("through", WAYS, ids=lambda through: through.__name__)
def test_everything_passes_the_policy(
    driver: Driver, tmp_path: Path, through: Callable[[WatchedSession], None]
) -> None:
    """In both kinds of sessions: all that is sent, run, shown and stored was seen before."""
    through(WatchedSession(driver, tmp_path))


def test_a_gap_in_the_hooks_would_be_noticed(driver: Driver, tmp_path: Path) -> None:
    """A plugin that sees only some hooks is caught: by the wire, by the tool, by the caller."""
    for blind in ("cmf.llm_input", "cmf.llm_output", "cmf.tool_pre_invoke", "cmf.tool_post_invoke"):
        watched = WatchedSession(driver, tmp_path)
        watched.plugin.hooks = tuple(each for each in WordTracker.hooks if each != blind)
        watched.begin([reply_of("I3", *CALLS), reply_of("answer1")])
        caught = False
        try:
            watched.stream()
        except (AssertionError, ProviderError):
            caught = True
        results = [block for message in watched.session.messages for block in message.tool_results]
        caught = caught or any("AssertionError" in str(result.content) for result in results)
        assert caught, blind


def test_sessions_send_requests_in_known_places_only() -> None:
    """Sessions build requests in one place and send them in two: a further place must be judged, and tested here."""
    found: dict[str, set[str]] = {}
    for path in (Path(dragoman.__file__).parent / "session").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        pattern = r"\.to_wire\(|transport(?:\([\w.]*\))?\.(?:send|stream)\b|runner\.(?:run|report)\b"
        for call in re.findall(pattern, source):
            found.setdefault(call, set()).add(path.name)
    driver, following = {"driver.py"}, {"background.py"}  # a reply that was asked for, and is not complete
    assert found == {
        ".to_wire(": {"driver.py", "preview.py"},  # a preview is not sent
        "transport.send": driver,
        "transport.stream": driver,
        "transport(send.adapter).send": following,
        "transport(adapter).send": following,
        "runner.run": driver,
        "runner.report": driver,
    }
