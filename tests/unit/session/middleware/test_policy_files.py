"""A policy and the files of a conversation: no request of any turn contains what a plugin took out of a file.

The history names a file, and the request holds its content, so what a plugin changed is not in the history. It must be
sent in place of the content for as long as the session lives, and be changed again in every session that goes on.
"""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ProviderError
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, ImageBlock, MediaSource, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.policy import Pipeline, Step, hook
from dragoman.routing import Router
from dragoman.store import Store
from dragoman.transport.fetch import FetchedMedia
from tests.packaging.systems import needs_files
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import (
    Call,
    handwritten_anthropic,
    handwritten_ollama,
    handwritten_overloaded,
)
from tests.unit.session.middleware.policy_plugins import SECRET

INPUT = "cmf.llm_input"
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
SONNET = "anthropic:claude-sonnet-5"
SEES = "ollama:qwen3-vl:8b"
"""A model that takes images, but none by URL."""
PICTURE, REDACTED_PICTURE = f"A picture of {SECRET}.", "A picture of ***."


def file_block(name: str) -> DocumentBlock:
    return DocumentBlock(source=MediaSource(kind="file_ref", data=name))


def open_file(name: str) -> DocumentBlock:
    """Opens a file."""
    return file_block(name)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _redact(block: ContentBlock) -> ContentBlock:
    if isinstance(block, ToolResultBlock):
        return block.model_copy(update={"content": tuple(map(_redact, block.content))})
    if isinstance(block, ImageBlock) and block.source == MediaSource(kind="base64", data=_encode(PICTURE)):
        return block.model_copy(update={"source": MediaSource(kind="base64", data=_encode(REDACTED_PICTURE))})
    if isinstance(block, DocumentBlock) and SECRET in block.source.data:
        text = block.source.data.replace(SECRET, "***")
        return block.model_copy(update={"source": MediaSource(kind="text", data=text)})
    return block


@hook(INPUT, mode="transform")
def redact_files(step: Step) -> Message:
    content = tuple(map(_redact, step.message.content))
    return step.message.model_copy(update={"content": content})


@dataclass
class Conversation:
    """A session whose files hold a secret, and the requests that two providers received."""

    driver: Driver
    folder: Path
    streamed: bool
    wires: dict[str, Wire] = field(default_factory=dict)
    session: Any = None

    def begin(self, anthropic: list[Any], ollama: list[Any] | None = None, **settings: Any) -> Any:
        for name in ("a", "b", "c"):
            (self.folder / f"{name}.txt").write_text(f"In {name} the word is {SECRET}.")
        self.wires = {"anthropic": Wire(anthropic), "ollama": Wire(ollama or [])}
        self.session = self.driver.session(self.wires, **{**self.settings, **settings})
        return self.session

    @property
    def settings(self) -> dict[str, Any]:
        return {"workspace": self.folder, "policy": Pipeline([redact_files])}

    def ask(self, prompt: Any, session: Any = None) -> None:
        (self.driver.stream if self.streamed else self.driver.ask)(session or self.session, prompt)

    def resume(self, session_id: str, **settings: Any) -> Any:
        resumed = type(self.session).resume(session_id, **settings)
        return resumed if isinstance(self.driver, SyncDriver) else self.driver.runner.run(resumed)

    def down(self) -> Any:
        """An overloaded provider: before its reply, or in it."""
        return [handwritten_overloaded()] if self.streamed else httpx.Response(529, json=OVERLOADED)

    def check(self, *names: str) -> None:
        """The last request holds these files as the plugin left them, and no request holds the secret."""
        requests = [request for wire in self.wires.values() for request in wire.requests]
        assert SECRET not in json.dumps(requests)
        last = json.dumps(next(wire.requests[-1] for wire in reversed(self.wires.values()) if wire.requests))
        assert [name for name in "abc" if f"In {name} the word is ***." in last] == list(names)


def said(text: str = "Read.") -> Any:
    return handwritten_anthropic(text)


def next_turn(conversation: Conversation) -> None:
    """A file of the second turn is judged, and that of the first one stays as it was judged."""
    conversation.begin([said(), said(), said()])
    conversation.ask(file_block("a.txt"))
    conversation.ask(file_block("b.txt"))
    conversation.ask([TextBlock(text="And this?"), file_block("c.txt")])
    conversation.check("a", "b", "c")
    first, second, third = (request["messages"] for request in conversation.wires["anthropic"].requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second


def retry(conversation: Conversation) -> None:
    """The second attempt of the first and of a later turn."""
    conversation.begin([conversation.down(), said(), conversation.down(), said()])
    conversation.ask(file_block("a.txt"))
    conversation.ask("Again?")
    conversation.check("a")
    messages = [request["messages"] for request in conversation.wires["anthropic"].requests]
    assert messages[0] == messages[1]
    assert messages[2] == messages[3]


def swap(conversation: Conversation) -> None:
    """Another model of the provider, another provider, and the way back."""
    session = conversation.begin([said(), said(), said()], [handwritten_ollama("Read."), handwritten_ollama("Read.")])
    conversation.ask(file_block("a.txt"))
    session.swap(SONNET)
    conversation.ask("And you?")
    session.swap(ANTHROPIC)
    conversation.ask("Back.")
    session.swap(OLLAMA)
    conversation.ask(file_block("b.txt"))
    conversation.ask("Again?")
    conversation.check("a", "b")


def fallback(conversation: Conversation) -> None:
    """The model that answers after an error, in the second turn."""
    router = Router(workspace_default=ANTHROPIC, global_default=OLLAMA)
    down = [conversation.down() for _ in range(3)]
    conversation.begin([said(), *down], [handwritten_ollama("Read.")], model=None, router=router)
    conversation.ask(file_block("a.txt"))
    conversation.ask(file_block("b.txt"))
    conversation.check("a", "b")


def tool_result(conversation: Conversation) -> None:
    """A file that a tool returned: in the turn of the call, and in the next one."""
    calls = (Call("toolu_1", "open_file", {"name": "a.txt"}), Call("toolu_2", "open_file", {"name": "b.txt"}))
    opened = [handwritten_anthropic(calls[0]), handwritten_anthropic(calls[1]), said(), said()]
    conversation.begin(opened, tools=[open_file])
    conversation.ask("Open them.")
    conversation.check("a", "b")
    conversation.ask(file_block("c.txt"))
    conversation.check("a", "b", "c")


def abandoned(conversation: Conversation) -> None:
    """The turn after one whose stream its caller left."""
    conversation.begin([said("One two three."), said()])
    conversation.driver.stream(conversation.session, file_block("a.txt"), until="text_delta")
    conversation.ask(file_block("b.txt"))
    conversation.check("a", "b")


def failed_turn(conversation: Conversation) -> None:
    """The same prompt again, after a turn that failed."""
    conversation.begin([said(), *[conversation.down() for _ in range(3)], said()])
    conversation.ask(file_block("a.txt"))
    with pytest.raises(ProviderError):
        conversation.ask(file_block("b.txt"))
    conversation.ask(file_block("b.txt"))
    conversation.check("a", "b")


def compaction(conversation: Conversation) -> None:
    """The request for a summary, and the turn after it."""
    session = conversation.begin([said(), said(), said("A summary."), said()])
    conversation.ask(file_block("a.txt"))
    conversation.ask(file_block("b.txt"))
    conversation.driver.compact(session, keep_last=2)
    conversation.check("a")
    conversation.ask(file_block("c.txt"))
    conversation.check("b", "c")


def fetched(conversation: Conversation) -> None:
    """Content of an address, which the session fetches for a model that takes no address."""
    picture = FetchedMedia(PICTURE.encode(), "image/png")
    session = conversation.begin([said()], [handwritten_ollama("Seen.")] * 4, model=SEES, fetch=lambda url: picture)
    image = ImageBlock(source=MediaSource(kind="url", data="https://files.test/a.png"))
    conversation.ask(image)
    conversation.ask([image, file_block("b.txt")])
    session.swap(ANTHROPIC)
    conversation.ask("And you?")
    session.swap(SEES)
    conversation.ask(image)
    pictures = [
        [image for message in request["messages"] for image in message.get("images", ())]
        for request in conversation.wires["ollama"].requests
    ]
    assert pictures == [[_encode(REDACTED_PICTURE)] * count for count in (1, 2, 3)]
    conversation.check("b")


def loaded(conversation: Conversation) -> None:
    """A session that is loaded from its dump, as another process does."""
    session = conversation.begin([said(), said(), said()])
    conversation.ask(file_block("a.txt"))
    again = type(session).load(session.dump(), providers=session.providers, **conversation.settings)
    conversation.ask(file_block("b.txt"), again)
    conversation.check("a", "b")
    conversation.ask("Again?", again)
    conversation.check("a", "b")


def stored(conversation: Conversation) -> None:
    """A session that is resumed from a store, and a fork of it."""
    with Store(f"sqlite:///{conversation.folder / 'chats.db'}", synchronous="normal") as store:
        session = conversation.begin([said()] * 5, store=store)
        conversation.ask(file_block("a.txt"))
        settings = {"providers": session.providers, **conversation.settings}
        again = conversation.resume("sess_1", store=store, **settings)
        conversation.ask(file_block("b.txt"), again)
        conversation.check("a", "b")
        conversation.ask("Again?", again)
        fork = store.fork("sess_1", again.messages[1].id)
        forked = conversation.resume(fork.id, store=store, **settings)
        conversation.ask(file_block("c.txt"), forked)
        conversation.ask("Again?", forked)
        conversation.check("a", "c")


ROADS = (next_turn, retry, swap, fallback, tool_result, abandoned, failed_turn, compaction, fetched, loaded, stored)


@needs_files
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.__name__)
def test_a_redacted_file_stays_redacted(
    driver: Driver, tmp_path: Path, road: Callable[[Conversation], None], streamed: bool
) -> None:
    """In every later request, whichever model it goes to and whoever continues the conversation."""
    road(Conversation(driver, tmp_path, streamed))
