"""A reply that broke may have cost something: it is an attempt with an unknown cost, and never free."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from dragoman import AsyncSession, Session
from dragoman.canonical.usage import CostStatus
from dragoman.errors import DragomanError
from tests.unit.session.drivers import Body

MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai": "openai:gpt-5.1",
    "openai-chat": "openai-chat:gpt-5.1",
    "google": "google:gemini-2.5-flash",
}
JSON, EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


DELTAS = {
    "anthropic": sse(
        {"type": "message_start", "message": {"id": "m", "model": "claude-opus-5-5", "role": "assistant",
                                              "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    ),
    "openai": sse(
        {"type": "response.created", "response": {"id": "r", "model": "gpt-5.1", "output": []}},
        {"type": "response.output_item.added", "output_index": 0,
         "item": {"type": "message", "id": "i", "role": "assistant", "content": []}},
        {"type": "response.content_part.added", "output_index": 0, "content_index": 0, "item_id": "i",
         "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "i", "delta": "Hel"},
    ),
    "openai-chat": sse({"id": "c", "model": "gpt-5.1", "choices": [{"index": 0, "delta": {"content": "Hel"}}]}),
    "google": sse({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hel"}]}}]}),
}  # fmt: skip
ENDINGS: dict[str, Callable[[str], Body]] = {
    "deltas, then an end": lambda name: Body([DELTAS[name]]),
    "deltas, then a broken connection": lambda name: Body([DELTAS[name]], httpx.ReadError("reset by peer")),
    "deltas, then what cannot be read": lambda name: Body([DELTAS[name], b'data: {"typ\n\n']),
    "what cannot be read": lambda name: Body([b'data: {"typ\n\n']),
}


def check_cost(session: Session | AsyncSession) -> None:
    assert session.messages == ()
    assert session.cost.usd is None
    assert session.cost.status is CostStatus.UNPRICED
    assert session.cost.replies == len(session.attempts) == 1
    assert str(session.cost) == "unknown (the provider reported no tokens)"
    (attempt,) = session.attempts
    assert str(attempt.metadata.model).startswith(str(attempt.metadata.provider))


def ask(name: str, answer: Callable[[], httpx.Response], *, stream: bool) -> None:
    """Ask once with each kind of session, and check what it cost."""

    def settings(client: Any) -> dict[str, Any]:
        return {name: {"client": client, "api_key": "key-of-nobody", "max_retries": 0}}

    def respond(_: httpx.Request) -> httpx.Response:
        return answer()

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        session = Session(MODELS[name], providers=settings(client))
        with contextlib.suppress(DragomanError):
            if stream:
                session.stream("Hi").get_reply()
            else:
                session.ask("Hi")
        check_cost(session)

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
            session = AsyncSession(MODELS[name], providers=settings(client))
            with contextlib.suppress(DragomanError):
                if stream:
                    await session.stream("Hi").get_reply()
                else:
                    await session.ask("Hi")
            check_cost(session)

    asyncio.run(main())


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", MODELS)
def test_a_broken_stream_has_an_unknown_cost(name: str, ending: str) -> None:
    """Whatever arrived before it broke, and whatever broke it."""
    ask(name, lambda: httpx.Response(200, headers=EVENTS, stream=ENDINGS[ending](name)), stream=True)


@pytest.mark.parametrize(
    "body", [b"<html>", b"[1]", b'{"choices": 7, "content": 7, "output": 7, "candidates": 7}', b""]
)
@pytest.mark.parametrize("name", MODELS)
def test_an_unreadable_reply_has_an_unknown_cost(name: str, body: bytes) -> None:
    """The provider answered with success: it may have sent a bill as well."""
    ask(name, lambda: httpx.Response(200, headers=JSON, content=body), stream=False)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_a_refusal_costs_nothing(name: str, stream: bool) -> None:
    """A failing status is not a reply."""

    def respond(_: httpx.Request) -> httpx.Response:
        return httpx.Response(429, json={"error": {"message": "slow down", "type": "rate_limit_error"}})

    with httpx.Client(transport=httpx.MockTransport(respond)) as client:
        providers = {name: {"client": client, "api_key": "key-of-nobody", "max_retries": 0}}
        session = Session(MODELS[name], providers=providers)
        with contextlib.suppress(DragomanError):
            _ = session.stream("Hi").get_reply() if stream else session.ask("Hi")
        assert session.attempts == ()
        assert session.cost.status is CostStatus.FREE
