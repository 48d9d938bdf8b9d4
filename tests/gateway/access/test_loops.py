"""A gateway never asks itself: a request whose base URL leads back to it is refused when it comes back."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from dragoman import AsyncClient, Client
from dragoman.testing.faults.server import FaultyServer
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving
from tests.gateway.upstream import PATHS, PATIENCE, gateway_before, question, whole_reply

HOPS = "x-dragoman-hops"
TEXT = {"contents": [{"role": "user", "parts": [{"text": "Where is Bern?"}]}]}
POSTS: dict[str, dict[str, Any]] = {
    **{path: question(wire, "house") for wire, path in PATHS.items()},
    "/v1/messages/count_tokens": question("messages", "house"),
    "/v1/responses/compact": question("responses", "house"),
    "/v1/embeddings": {"model": "house", "input": "Bern"},
    "/v1beta/models/house:generateContent": TEXT,
    "/api/chat": question("chat", "house", stream=False),
}
PROVIDERS = ("anthropic", "openai-chat", "openai", "google", "ollama")


class Counting:
    """An application that counts the requests which ask a model."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.posts = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.posts += scope["type"] == "http" and scope["method"] == "POST"
        await self.app(scope, receive, send)


def gateway(base: str, model: str, **settings: Any) -> Counting:
    """Return a gateway whose providers are all at that address."""
    bases = {name: f"{base}/v1" if name.startswith("openai") else base for name in PROVIDERS}
    client = AsyncClient(providers={name: {"api_key": "sk-x", "base_url": each} for name, each in bases.items()})
    return Counting(create_app(GatewaySettings(models={"house": model}, **settings), client=client))


@contextmanager
def address() -> Iterator[tuple[str, Any]]:
    """Yield an address that something will serve, and what forwards to it."""

    class Later:
        app: Any = None

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                while (message := await receive())["type"] != "lifespan.shutdown":
                    await send({"type": f"{message['type']}.complete"})
                await send({"type": "lifespan.shutdown.complete"})
                return
            await self.app(scope, receive, send)

    later = Later()
    with serving(later) as url:
        yield url, later


@pytest.mark.parametrize("model", [f"{name}:house" for name in PROVIDERS])
@pytest.mark.parametrize("path", POSTS)
def test_a_gateway_that_is_its_own_provider_asks_once(path: str, model: str) -> None:
    """The first request goes out and comes back; the second one is refused, and not retried."""
    with address() as (url, later):
        later.app = gateway(url, model)
        reply = httpx.post(url + path, json=POSTS[path])
        assert later.app.posts <= 2
    assert reply.status_code in (200, 400), reply.text  # an estimate of tokens asks nobody
    if reply.status_code == 400 and later.app.posts == 2:
        assert "base_url" in reply.text


def test_under_another_name_too() -> None:
    """The address of the same gateway by the name of this computer."""
    with address() as (url, later):
        later.app = gateway(url.replace("127.0.0.1", "localhost"), "openai-chat:house")
        reply = httpx.post(f"{url}/v1/chat/completions", json=POSTS["/v1/chat/completions"])
        assert (reply.status_code, later.app.posts) == (400, 2)
    assert "base_url" in reply.text


@pytest.mark.parametrize("stream", [False, True])
def test_two_gateways_that_ask_each_other_stop(stream: bool) -> None:
    with ExitStack() as stack:
        (first, one), (second, two) = (stack.enter_context(address()) for _ in range(2))
        one.app, two.app = gateway(second, "anthropic:house"), gateway(first, "openai:house")
        reply = httpx.post(f"{first}/v1/messages", json=question("messages", "house", stream=stream))
        assert (one.app.posts, two.app.posts) == (2, 1)
    assert reply.status_code == 400
    assert "base_url" in reply.text


def test_a_row_of_gateways_asks_the_provider() -> None:
    """Each leaves its mark, so that the provider sees one of each, and a client's own mark goes on."""
    with ExitStack() as stack:
        running = gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"})
        inner, server = stack.enter_context(running)
        outer = stack.enter_context(serving(gateway(inner, "openai-chat:house")))
        body = question("chat", "house")
        assert httpx.post(f"{outer}/v1/chat/completions", json=body).status_code == 200
        assert httpx.post(f"{outer}/v1/chat/completions", json=body, headers={HOPS: "elsewhere"}).status_code == 200
        assert httpx.post(f"{inner}/v1/chat/completions", json=body).status_code == 200
    marks = [request.headers[HOPS].split(", ") for request in server.requests]
    assert [len(each) for each in marks] == [2, 3, 1]
    assert marks[1] == ["elsewhere", *marks[0]]
    assert marks[2] == marks[0][1:]


def test_a_row_without_end_is_refused() -> None:
    """A row without end is refused, as gateways that restart with each request would make it."""
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}) as (url, server):
        for value in (", ".join(f"g{number}" for number in range(40)), "x" * 5_000, "a b", "\xe9"):
            reply = httpx.post(
                f"{url}/v1/chat/completions", json=question("chat", "house"), headers={HOPS: value.encode("latin-1")}
            )
            assert reply.status_code == 400, value
    assert server.requests == []


class Forwarder:
    """An application that sends each request on to another address, as a proxy does."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.posts = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        self.posts += 1
        headers = [each for each in request.headers.items() if each[0] not in ("host", "content-length")]
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            reply = await client.post(self.target + request.url.path, content=await request.body(), headers=headers)
        await Response(reply.content, reply.status_code, media_type=reply.headers["content-type"])(scope, receive, send)


@pytest.mark.exhaustive
def test_the_workers_of_one_command_are_one_gateway(tmp_path: Path) -> None:
    """Whichever of them gets the request that comes back, here through a proxy."""
    file = tmp_path / "dragoman.toml"
    with address() as (proxy, later):
        provider = f'[providers.openai-chat]\nbase_url = "{proxy}/v1"\n'
        settings = '[gateway]\nport = 0\ndatabase = "sqlite://"\nmodels = {house = "openai-chat:house"}\n'
        file.write_text(provider + settings)
        process = subprocess.Popen(
            [sys.executable, "-c", "from dragoman_gateway.server.command import serve; serve(workers=2)"],
            env={**os.environ, "DRAGOMAN_CONFIG": str(file), "OPENAI_API_KEY": "sk-of-the-gateway"},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            url = process.stderr.readline().rpartition(": ")[2].strip()
            later.app = Forwarder(url)
            for number in range(1, 7):
                reply = httpx.post(f"{url}/v1/chat/completions", json=question("chat", "house"), timeout=PATIENCE)
                assert (reply.status_code, later.app.posts) == (400, number), reply.text
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def test_a_background_response_ends_too() -> None:
    with address() as (url, later), httpx.Client(base_url=url) as client:
        later.app = gateway(url, "openai:house")
        started = client.post("/v1/responses", json=question("responses", "house", background=True)).json()
        while (found := client.get(f"/v1/responses/{started['id']}").json())["status"] in ("queued", "in_progress"):
            pass
        assert (found["status"], later.app.posts) == ("failed", 2)


def test_a_client_that_is_not_a_gateway_leaves_no_mark() -> None:
    """The header says something of gateways alone: a program's own requests are without it."""
    with FaultyServer(lambda _: whole_reply("chat")) as server:
        providers = {"openai-chat": {"api_key": "sk-x", "base_url": f"{server.url}/v1"}}
        with Client(providers=providers) as client:
            client.ask("openai-chat:m", "Hi")
    assert HOPS not in server.requests[0].headers
