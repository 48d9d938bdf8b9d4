"""A request leaves nothing behind that refers to itself: such objects stay until the collector looks for them."""

import asyncio
import json
from typing import Any

import pytest

from dragoman import AsyncClient
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway import scripted
from tests.gateway.serving import serving
from tests.unit.client.garbage import our_garbage


@pytest.mark.usefixtures("quick_gc")
@pytest.mark.parametrize("model", ["chat-model", "messages-model"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_leaves_nothing_for_the_collector(stream: bool, model: str) -> None:
    with serving(scripted.Upstream()) as provider:
        assert asyncio.run(_garbage_of(provider, model, stream=stream)) == []


async def _garbage_of(provider: str, model: str, *, stream: bool) -> list[str]:
    """Return the names of our objects that only the collector finds after a request."""
    bases = scripted.provider_bases(provider)
    client = AsyncClient(providers={name: {"base_url": base, "api_key": "sk"} for name, base in bases.items()})
    app = create_app(GatewaySettings(models=scripted.MODELS), client=client)
    await _ask(app, model, stream=stream)  # what stays is made
    with our_garbage() as found:
        await _ask(app, model, stream=stream)
        await asyncio.sleep(0)
    await client.close()
    return found


async def _ask(app: Any, model: str, *, stream: bool) -> None:
    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "What is the weather?"}]}
    waiting = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    sent: list[Any] = []
    ended = asyncio.Event()

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            ended.set()

    path = "/v1/chat/completions"
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": []}
    await app(scope, receive, send)
    assert sent[0]["status"] == 200
