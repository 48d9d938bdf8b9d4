"""Nothing passes unseen: each way by which text goes to a model or a tool, or comes from one, passes the plugins first.

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
from tests.systems import READS_FILES
from tests.unit.session.actors import ANTHROPIC, OLLAMA, Way, Wire
from tests.unit.session.handwritten_replies import (
    Call,
    Thought,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)
from tests.unit.session.watching import Shown, WatchedWire, Watching, check_history

Replies = list[Any]

SMALL = "ollama:phi3:mini"


class Talk:
    """A session under watch, its two providers, and a caller."""

    def __init__(self, way: Way, folder: Path) -> None:
        self.way = way
        self.folder = folder
        self.plugin = Watching()
        self.ran: list[str] = []
        self.session: Any = None

    def begin(self, anthropic: Replies, ollama: Replies = (), model: str | None = ANTHROPIC, **settings: Any) -> Any:  # type: ignore[assignment]
        wires: dict[str, Wire] = {
            "anthropic": WatchedWire(self.plugin, ANTHROPIC, anthropic),
            "ollama": WatchedWire(self.plugin, model if model == SMALL else OLLAMA, ollama),
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

    def ask(self, said: Any = "question1") -> None:
        Shown(self.plugin).append(MessageComplete(self.way.ask(self.session, said)))
        check_history(self.plugin, self.session.messages)

    def stream(self, said: Any = "question2", until: str | None = None) -> None:
        self.way.stream(self.session, said, seen=Shown(self.plugin), until=until)
        check_history(self.plugin, self.session.messages)


def said(*parts: Any) -> Any:
    return handwritten_anthropic(*parts)


CALLS = (Call("toolu_1", "look", {"path": "path1"}), Call("toolu_2", "fail", {"path": "path2"}))


def tools(talk: Talk) -> None:
    """Calls, results, errors, thinking; whole and streamed."""
    reply = [Thought("thought1 before1"), "I3 look4", *CALLS]
    talk.begin([said(*reply), said("answer1"), said(*reply), said(Thought("thought2"), "answer2")], system="system1")
    talk.ask()
    talk.stream()
    assert talk.ran == ["path1", "path1"]


def bad_calls(talk: Talk) -> None:
    """A tool that is not there, arguments that do not fit, a call that nobody approves."""
    calls = (Call("toolu_1", "other", {"path": "path1"}), Call("toolu_2", "look", {"way": "path2"}), *CALLS[:1])
    renamed = Call("toolu_3", "look", {"path": "path3"})
    talk.begin([said(*calls[:2], renamed), said("answer1")], approve=lambda call, definition: False)
    talk.ask()
    assert talk.ran == []


def blocks(talk: Talk) -> None:
    """Whatever can be said, at whatever depth, a file of the workspace among it."""
    (talk.folder / "notes.txt").write_text("file1 inside2")
    file = DocumentBlock(source=MediaSource(kind="file_ref", data="notes.txt"), media_type="text/plain")
    parts = [
        TextBlock(text="text1"),
        ImageBlock(source=MediaSource(kind="base64", data="aW1hZ2U1"), media_type="image/png"),
        *([file] if READS_FILES else []),
        ResourceBlock(resource_request_id="r", uri="note://a", resource_type="uri", content="resource1"),
        PromptResultBlock(prompt_request_id="p", prompt_name="n", messages=(), content="prompt1"),
    ]
    talk.begin([said("answer1"), said("answer2")], workspace=talk.folder)
    talk.ask(parts)
    talk.stream(Message.user([TextBlock(text="text2")]))


def compaction(talk: Talk) -> None:
    """What is summarised, the instructions, the summary, and what goes on from it: in pieces, for another model."""
    talk.begin([said("answer1"), said("answer2"), said("summary1"), said("answer3")], [handwritten_ollama("answer4")])
    talk.ask()
    talk.stream()
    talk.way.compact(talk.session, keep_last=1, instructions="instruct1")
    check_history(talk.plugin, talk.session.messages)
    assert talk.session.messages[-1].metadata.summary_of
    talk.ask("question3")
    talk.session.swap(OLLAMA)
    talk.ask("question4")


def summary_of_summaries(talk: Talk) -> None:
    """A history that is told in pieces: each summary goes into the next request."""
    history = [Message.user(f"story{number} " + "word " * 2000) for number in range(12)]
    talk.begin(
        [], [handwritten_ollama(f"summary{number}") for number in range(20)], model=SMALL, messages=history, tools=[]
    )
    talk.way.compact(talk.session, keep_last=1)
    check_history(talk.plugin, talk.session.messages)
    assert sum(bool(message.metadata.summary_of) for message in talk.session.messages) > 1


def another_model(talk: Talk) -> None:
    """A retry, and a model that steps in: each is judged for itself."""
    router = Router(workspace_default=ANTHROPIC, global_default=OLLAMA)
    down = [[handwritten_overloaded()]] * 3
    talk.begin([said("answer1"), *down], [handwritten_ollama("answer2")], model=None, router=router)
    talk.ask()
    talk.stream()
    assert len(talk.session.messages) == 4


def brought_along(talk: Talk) -> None:
    """A history from elsewhere, with a call that nobody answered, and a reply for the model to go on with."""
    history = [
        Message.user("old1"),
        Message.assistant([TextBlock(text="old2"), ToolUseBlock(id="tu_1", name="look", input={"path": "old3"})]),
        Message.user([ToolResultBlock(tool_use_id="tu_1", content=(TextBlock(text="old4"),))]),
        Message.assistant([ToolUseBlock(id="tu_2", name="look", input={"path": "old5"})]),
    ]
    talk.begin([said("answer1"), said("answer2")], messages=history, system="system1")
    talk.ask()
    talk.ask(Message.assistant("prefill1"))


def resumed(talk: Talk) -> None:
    """From a store, and from a dump."""
    with Store(f"sqlite:///{talk.folder / 'chats.db'}", synchronous="normal") as store:
        first = talk.begin([said(*CALLS), said("answer1")], store=store)
        talk.ask()
        found = store.load("sess_1").messages
        check_history(talk.plugin, found)
    talk.plugin = Watching()
    second = talk.begin([said("answer2"), said("answer3")], session_id=first.session_id, messages=first.messages)
    talk.stream()
    loaded = type(second).load(
        second.dump(), providers=second.providers, policy=Pipeline([talk.plugin]), tools=[talk.look]
    )
    talk.session = loaded
    talk.ask()


def left(talk: Talk) -> None:
    """A stream that its caller leaves, and goes on behind."""
    talk.begin([said("many1 words2 of3 it4"), said("answer1")])
    talk.stream(until="text_delta")
    talk.ask(None)


def broken(talk: Talk) -> None:
    """A stream that breaks: what had arrived is with the error."""
    frames = [*said("many1 words2 of3 it4").frames[:5], handwritten_overloaded()]
    talk.begin([frames, said("answer1")])
    with pytest.raises(ProviderError) as raised:
        talk.stream()
    assert raised.value.partial is not None
    check_history(talk.plugin, [raised.value.partial])
    talk.ask()


def useless(talk: Talk) -> None:
    """A whole reply that cannot be read: nothing of it is with the error."""
    body = said("half1").body[:-20]
    answer = httpx.Response(200, headers={"content-type": "application/json"}, content=body)
    talk.begin([answer] * 3 + [said("answer1")])
    with pytest.raises(ProviderError) as raised:
        talk.ask()
    assert raised.value.partial is None or talk.plugin.unseen(raised.value.partial.text, "cmf.llm_output") == set()


def told_of_denial(talk: Talk) -> None:
    """Where a denied call is answered, the answer is seen as any other."""
    from tests.unit.session.policies import Denying

    policy = Pipeline([talk.plugin, Denying("path1", hooks=["cmf.tool_pre_invoke"])], denied_calls="answer")
    talk.begin([said(*CALLS), said("answer1")], policy=policy)
    talk.ask()
    assert talk.ran == []


WAYS = (tools, bad_calls, blocks, compaction, summary_of_summaries, another_model, brought_along, resumed, left, broken,
        useless, told_of_denial)  # fmt: skip


@pytest.mark.parametrize("through", WAYS, ids=lambda through: through.__name__)
def test_nothing_passes_unseen(way: Way, tmp_path: Path, through: Callable[[Talk], None]) -> None:
    """In either session: what is sent, run, shown and kept was seen before."""
    through(Talk(way, tmp_path))


def test_the_watch_would_notice(way: Way, tmp_path: Path) -> None:
    """A plugin that sees only some hooks is caught: by the wire, by the tool, by the caller."""
    for blind in ("cmf.llm_input", "cmf.llm_output", "cmf.tool_pre_invoke", "cmf.tool_post_invoke"):
        talk = Talk(way, tmp_path)
        talk.plugin.hooks = tuple(each for each in Watching.hooks if each != blind)
        talk.begin([said("I3", *CALLS), said("answer1")])
        caught = False
        try:
            talk.stream()
        except (AssertionError, ProviderError):
            caught = True
        results = [block for message in talk.session.messages for block in message.tool_results]
        caught = caught or any("AssertionError" in str(result.content) for result in results)
        assert caught, blind


def test_there_are_no_other_ways() -> None:
    """Sessions make requests in one place, and send them in two: one more has to be judged, and watched here."""
    found: dict[str, set[str]] = {}
    for path in (Path(dragoman.__file__).parent / "session").glob("*.py"):
        for call in re.findall(r"\.to_wire\(|transport\.(?:send|stream)\(|calls\.run(?:_async)?\b", path.read_text()):
            found.setdefault(call, set()).add(path.name)
    sessions = {"session.py", "async_session.py"}
    assert found == {
        ".to_wire(": {"turn.py", "preview.py"},  # a preview is not sent
        "transport.send(": sessions,
        "transport.stream(": sessions,
        "calls.run": {"session.py"},
        "calls.run_async": {"async_session.py"},
    }
