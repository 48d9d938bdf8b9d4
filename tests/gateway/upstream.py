"""A gateway in front of a scripted server: providers of several wires at one address."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

from dragoman import AsyncClient
from dragoman.testing.faults.server import (
    FaultyServer,
    HttpReply,
    ReplyStep,
    ServerAnswer,
    ServerScript,
    json_reply,
    sse_reply,
)
from dragoman.transport import RetryPolicy
from dragoman_gateway import GatewaySettings, create_app
from tests.benchmarks.wires import WIRES
from tests.gateway.serving import serving

PROVIDERS = {"messages": "anthropic", "chat": "openai-chat", "responses": "openai"}
PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
KEY = "sk-of-the-gateway-0123456789"
PATIENCE = 120.0
"""Seconds that a test waits for what must happen: a busy machine is slow, and only what hangs takes that long."""


@contextmanager
def gateway_before(
    script: ServerScript | ServerAnswer,
    *,
    client: dict[str, Any] | None = None,
    provider: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[tuple[str, FaultyServer]]:
    """Yield the address of a gateway, and the server behind it. Requests are not retried, unless ``provider``, the
    settings of all providers, says so."""
    with FaultyServer(script) as server:
        base = {"api_key": KEY, "retry": RetryPolicy(max_retries=0), **(provider or {})}
        providers = {
            "anthropic": {**base, "base_url": server.url},
            "openai": {**base, "base_url": f"{server.url}/v1"},
            "openai-chat": {**base, "base_url": f"{server.url}/v1"},
            "google": {**base, "base_url": server.url},
            "ollama": {**base, "base_url": server.url},
            "cohere": {**base, "base_url": server.url},
            "mistral": {**base, "base_url": f"{server.url}/v1"},
        }
        app = create_app(GatewaySettings(**settings), client=AsyncClient(providers=providers, **(client or {})))
        with serving(app) as url:
            yield url, server


def question(wire: str, model: str, **more: Any) -> dict[str, Any]:
    """Return a short request of the wire."""
    if wire == "responses":
        return {"model": model, "input": "Where is Bern?", **more}
    extra = {"max_tokens": 100} if wire == "messages" else {}
    return {"model": model, "messages": [{"role": "user", "content": "Where is Bern?"}], **extra, **more}


def whole_reply(wire: str, text: str = "In Switzerland.") -> HttpReply:
    return json_reply(WIRES[wire].text_reply(text))


def streamed_reply(wire: str, *texts: str) -> HttpReply:
    return sse_reply(b"".join(WIRES[wire].text_stream(list(texts) or ["In ", "Switzerland."])))


def waiting_reply(
    go: Event, *steps: ReplyStep, before: bytes = b"", media_type: str = "text/event-stream"
) -> HttpReply:
    """Return a stream that stops behind the bytes ``before`` until a test lets it go on. It can be sent once."""

    def steps_after_wait() -> Iterator[ReplyStep]:
        yield before
        go.wait(PATIENCE)
        yield from steps

    return HttpReply(headers={"content-type": media_type}, steps=cast("Sequence[ReplyStep]", steps_after_wait()))


def stream_bytes(wire: str, *texts: str) -> bytes:
    return b"".join(WIRES[wire].text_stream(list(texts) or ["In ", "Switzerland."]))
