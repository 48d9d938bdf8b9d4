"""Nothing leaves without the credential that its provider needs: on every road, the error comes before a connection."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from importlib.metadata import entry_points
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from dragoman import AsyncClient, Client, MissingKeyError, set_default_client
from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import NetworkError
from dragoman.adapter.registry import get_adapter, providers
from dragoman.cli.app import app
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving

KEYLESS = {"compatible", "llamacpp", "lmstudio", "local", "mistralrs", "ollama", "ollama-openai", "text-completion",
           "vllm"}  # fmt: skip
"""Models and servers of the caller's own: a key is sent if there is one."""
PROVIDERS = [provider for provider in providers() if provider not in KEYLESS]
VERTEX = "google-vertex:gemini-2.5-flash"
Way = Callable[[str, dict[str, Any]], object]


class SilentServer:
    """Counts connections, and answers none. ``url`` is its address."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[SilentServer]:
    for provider in PROVIDERS:
        for variable in get_adapter(f"{provider}:m").endpoint.key_variables:
            monkeypatch.delenv(variable, raising=False)
    with closing(SilentServer()) as silent:
        yield silent


def drain(events: Any) -> None:
    with events as opened:
        for _ in opened:
            pass


async def drain_async(events: Any) -> None:
    async with events as opened:
        async for _ in opened:
            pass


def call(way: Callable[[Client, str], object]) -> Way:
    def run(model: str, settings: dict[str, Any]) -> None:
        with Client(providers=settings) as client:
            way(client, model)

    return run


def call_async(way: Callable[[AsyncClient, str], Awaitable[object]]) -> Way:
    def run(model: str, settings: dict[str, Any]) -> None:
        async def main() -> None:
            async with AsyncClient(providers=settings) as client:
                await way(client, model)

        asyncio.run(main())

    return run


def submit(client: Client, model: str) -> None:
    with client.batches(model) as batches:
        batches.submit({"one": "Hi"})


async def submit_async(client: AsyncClient, model: str) -> None:
    async with client.batches(model) as batches:
        await batches.submit({"one": "Hi"})


def use_services(name: str, *arguments: Any) -> Callable[[Client, str], None]:
    def way(client: Client, model: str) -> None:
        with client.services(model) as services:
            if name not in services.offers:
                raise NotOfferedError
            getattr(services, name)(*arguments)

    return way


def upload(client: Client, model: str) -> None:
    with client.services(model) as services:
        if "files" not in services.offers:
            raise NotOfferedError
        services.upload(b"words", name="words.txt")


def use_async_services(name: str, *arguments: Any) -> Callable[[AsyncClient, str], Awaitable[None]]:
    async def way(client: AsyncClient, model: str) -> None:
        async with client.services(model) as services:
            if name not in services.offers:
                raise NotOfferedError
            await getattr(services, name)(*arguments)

    return way


def ask_command(client: Client, model: str) -> None:
    """The command's main function prints the error."""
    set_default_client(client)
    try:
        run = CliRunner().invoke(app, ["ask", model, "Hi"])
    finally:
        set_default_client(None)
    assert run.exception is not None
    raise run.exception


class NotOfferedError(Exception):
    """The provider has no such service."""


WAYS: dict[str, Way] = {
    "ask": call(lambda client, model: client.ask(model, "Hi")),
    "stream": call(lambda client, model: drain(client.stream(model, "Hi"))),
    "ask async": call_async(lambda client, model: client.ask(model, "Hi")),
    "stream async": call_async(lambda client, model: drain_async(client.stream(model, "Hi"))),
    "session": call(lambda client, model: client.session(model).ask("Hi")),
    "session, streamed": call(lambda client, model: drain(client.session(model).stream("Hi"))),
    "bulk": call(lambda client, model: client.bulk(["Hi"], model)),
    "bulk async": call_async(lambda client, model: client.bulk(["Hi"], model)),
    "bulk in batches": call(lambda client, model: client.bulk(["Hi"], model, batch=True)),
    "batch": call(submit),
    "batch async": call_async(submit_async),
    "embed": call(lambda client, model: client.embed(model, ["Hi"])),
    "embed async": call_async(lambda client, model: client.embed(model, ["Hi"])),
    "models": call(use_services("models")),
    "models async": call_async(use_async_services("models")),
    "count_tokens": call(use_services("count_tokens", "Hi")),
    "count_tokens async": call_async(use_async_services("count_tokens", "Hi")),
    "files": call(use_services("files")),
    "upload": call(upload),
    "command": call(ask_command),
}
OFFERED: dict[str, Callable[[Adapter], object]] = {
    "bulk in batches": lambda adapter: adapter.batch_api,
    "batch": lambda adapter: adapter.batch_api,
    "batch async": lambda adapter: adapter.batch_api,
    "embed": lambda adapter: adapter.embeddings,
    "embed async": lambda adapter: adapter.embeddings,
}
"""The ways that not every provider has."""


@pytest.mark.parametrize("way", WAYS)
def test_every_provider_that_needs_a_credential_is_refused(way: str, server: SilentServer) -> None:
    """The error names the provider, and says what to set."""
    refused = set()
    for provider in PROVIDERS:
        model = "bedrock:amazon.titan-embed-text-v2:0" if provider == "bedrock" else f"{provider}:m"
        if way in OFFERED and OFFERED[way](get_adapter(model)) is None:
            continue
        with suppress(NotOfferedError):
            with pytest.raises(MissingKeyError, match=f"no API key for {provider}"):
                WAYS[way](model, {provider: {"base_url": server.url}})
            refused.add(provider)
    assert server.connections == 0
    assert refused & {"google-vertex", "openai"}


def test_the_gateway_sends_nothing_either(server: SilentServer) -> None:
    """The gateway sends nothing either, on the provider's own wire and on another one, whole and streamed."""
    settings = {provider: {"base_url": server.url} for provider in PROVIDERS}
    models = {provider: f"{provider}:m" for provider in PROVIDERS}
    app = create_app(GatewaySettings(models=models), client=AsyncClient(providers=settings))
    with serving(app) as url, httpx.Client(base_url=url, timeout=60) as http:
        for provider in PROVIDERS:
            question = {"model": provider, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 100}
            for path in ("/v1/chat/completions", "/v1/messages"):
                for stream in (False, True):
                    reply = http.post(path, json=question | {"stream": stream})
                    assert reply.status_code >= 400 or "error" in reply.text, (provider, path, reply.text)
            native = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
            assert http.post(f"/v1beta/models/{provider}:generateContent", json=native).status_code >= 400
    assert server.connections == 0


def test_few_providers_need_none() -> None:
    """A new provider is in one of the two lists knowingly."""
    # Other tests of this process may have registered providers of their own.
    own = entry_points(group="dragoman.adapters").names
    assert {each for each in own if not get_adapter(f"{each}:m").endpoint.key_required} == KEYLESS


class TestOwnCredentials:
    """What the caller brings counts, and no key is looked up."""

    @staticmethod
    def ask(headers: dict[str, str] | None = None, **settings: Any) -> httpx.Headers:
        """The headers of the request that a question to Vertex AI sends."""
        seen: list[httpx.Headers] = []

        def answer(request: httpx.Request) -> httpx.Response:
            seen.append(request.headers)
            reply = {
                "candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]
            }
            return httpx.Response(200, json=reply)

        with httpx.Client(transport=httpx.MockTransport(answer), **settings.pop("own", {})) as client:
            provider = {"client": client, "base_url": "http://vertex.invalid/v1", "environ": {}, **settings}
            options = AdapterOptions(headers={"google-vertex": headers or {}})
            with Client(providers={"google-vertex": provider}) as dragoman:
                assert dragoman.ask(VERTEX, "Hi", options=options).text == "Yes."
        return seen[0]

    def test_a_token(self) -> None:
        assert self.ask(api_key="t")["authorization"] == "Bearer t"
        assert self.ask(environ={"GOOGLE_VERTEX_TOKEN": "t"})["authorization"] == "Bearer t"

    def test_a_header_of_the_request(self) -> None:
        assert self.ask({"Authorization": "Bearer mine"})["authorization"] == "Bearer mine"
        express = self.ask({"x-goog-api-key": "mine"}, environ={"GOOGLE_VERTEX_TOKEN": "t"})
        assert express["x-goog-api-key"] == "mine"
        assert "authorization" not in express

    def test_a_client_that_signs(self) -> None:
        assert self.ask(own={"auth": ("user", "secret")})["authorization"].startswith("Basic ")

    def test_a_client_with_a_header(self) -> None:
        """The environment's key does not take its place, and a given one does."""
        own = {"headers": {"Authorization": "Bearer mine"}}
        assert self.ask(own=own)["authorization"] == "Bearer mine"
        assert self.ask(own=own, environ={"GOOGLE_VERTEX_TOKEN": "t"})["authorization"] == "Bearer mine"
        assert self.ask(own=own, api_key="given")["authorization"] == "Bearer given"

    @pytest.mark.parametrize("headers", [{}, {"Authorization": ""}, {"x-api-key": "of another provider"}])
    def test_nothing_that_counts(self, headers: dict[str, str]) -> None:
        """A header without a value is not a credential, and neither is one that the provider does not read."""
        with pytest.raises(MissingKeyError, match="GOOGLE_VERTEX_TOKEN"):
            self.ask(headers)


def test_an_empty_header_does_not_take_the_place_of_the_key() -> None:
    headers = TestOwnCredentials.ask({"Authorization": ""}, api_key="t")
    assert headers["authorization"] == "Bearer t"


@pytest.mark.parametrize("provider", sorted(KEYLESS - {"local"}))
def test_a_server_of_the_callers_own_needs_none(provider: str, server: SilentServer) -> None:
    """The request reaches it."""
    settings = {provider: {"base_url": server.url, "max_retries": 0}}
    with Client(providers=settings) as client, pytest.raises(NetworkError):
        client.ask(f"{provider}:m", "Hi")
    assert server.connections > 0
