"""A program of its own for each part of one conversation: `python -m tests.store.resuming URL PART`.

It prints, as a line of JSON, the bodies that its provider received, the calls that the session then knows, and the
calls in the store. The providers' answers are written by hand.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import httpx

from dragoman.canonical.message import Message
from dragoman.session import Session, tool
from dragoman.store import Store
from tests.store.turns import rows
from tests.unit.session.handwritten_replies import Call, Reply, handwritten_anthropic, handwritten_ollama

ANTHROPIC, OLLAMA = "anthropic:claude-opus-5-5", "ollama:qwen3"
SESSION = "sess_1"


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


class Provider:
    """Gives its replies in order, streamed on request, and records what it received, byte for byte."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.bodies: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.bodies.append(request.content.decode())
        reply = self.replies.pop(0)
        streamed = json.loads(request.content).get("stream")
        kind = reply.content_type if streamed else "application/json"
        return httpx.Response(
            200, headers={"content-type": kind}, content=b"".join(reply.frames) if streamed else reply.body
        )

    @property
    def settings(self) -> dict[str, Any]:
        return {"client": httpx.Client(transport=httpx.MockTransport(self)), "api_key": "test-key-of-nobody"}


def begin(store: Store) -> Provider:
    """Anthropic calls a tool twice. The second time the program ends before the tools have run."""
    provider = Provider(
        handwritten_anthropic("I look.", Call("toolu_1", "look", {"at": "Łódź"})),
        handwritten_anthropic("It is fine."),
        handwritten_anthropic(Call("toolu_2", "look", {"at": "b"}), Call("toolu_3", "look", {"at": "c"})),
    )
    session = Session(
        ANTHROPIC, session_id=SESSION, store=store, tools=[look], providers={"anthropic": provider.settings}
    )
    session.ask("Look at Łódź.")
    for event in session.stream("And at b and c?"):
        if event.type == "message_complete":
            break
    session.close()
    return provider


def _resume(store: Store, name: str, provider: Provider, model: str) -> Session:
    return Session.resume(SESSION, store, model=model, tools=[look], providers={name: provider.settings})


def answer(store: Store) -> Provider:
    """Another provider continues, with the answer to one of the calls, and calls a tool itself; one call stays open."""
    provider = Provider(
        handwritten_ollama("b is fine."),
        handwritten_ollama(Call("", "look", {"at": "d"})),
        handwritten_ollama("d as well."),
    )
    with _resume(store, "ollama", provider, OLLAMA) as session:
        waiting = session.messages[-1].tool_uses[0]
        session.ask(Message.tool(waiting.id, "b: fine"))
        session.ask("And d?")
    return provider


def come_back(store: Store) -> Provider:
    """The first provider again, with everything that happened in between."""
    provider = Provider(handwritten_anthropic("All fine."))
    with _resume(store, "anthropic", provider, ANTHROPIC) as session:
        session.ask("So?")
    return provider


PARTS = {part.__name__: part for part in (begin, answer, come_back)}


def main(arguments: Sequence[str]) -> None:
    url, part = arguments
    with Store(url, synchronous="normal") as store:
        provider = PARTS[part](store)
        stored = store.load(SESSION)
        summary = {
            "bodies": provider.bodies,
            "model": stored.model,
            "calls": [call.id for message in stored.messages for call in message.tool_uses],
            "rows": [list(row) for row in rows(store, "SELECT id, status FROM tool_calls ORDER BY seq, position")],
        }
    sys.stdout.write(json.dumps(summary) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
