"""The end of a gateway: a signal, the drain, and what is booked and stored of requests that take longer."""

import asyncio
import json
import signal
import socket
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import httpx
import pytest
import uvicorn
from sqlalchemy import select
from starlette.applications import Starlette

from dragoman import AsyncClient, Store
from dragoman.testing.faults.server import STALL, FaultyServer, HttpReply, sse_reply
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import reservations, spend
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.ledger_entries import Amount
from dragoman_gateway.keys.records import Allowance
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.server import process
from dragoman_gateway.server.process import Server
from dragoman_gateway.server.protocol import Protocol
from dragoman_gateway.turn import answer
from tests.gateway.app.test_bad_night import cut
from tests.gateway.keyed import Cents
from tests.gateway.upstream import PATHS, PATIENCE, question


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other gateway of the test run ends with this one, and its garbage collection stays as it is."""
    monkeypatch.setattr(Gateway, "running", WeakSet())
    monkeypatch.setattr(process, "tune_memory", lambda: None)


def new_server(app: Starlette) -> Server:
    config = uvicorn.Config(app, http=Protocol, ws="none", lifespan="on", log_config=None, timeout_graceful_shutdown=0)
    return Server(config)


async def end_while_it_streams(app: Starlette, path: str, body: Any, headers: dict[str, str]) -> bytes:
    """Send the signal to end when a word of a stream has arrived, and return all of it until the server has ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    server, received = new_server(app), b""
    ended = asyncio.create_task(server.serve([listener]))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}{path}"
    async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
        with suppress(httpx.RemoteProtocolError):
            async with client.stream("POST", url, json=body, headers=headers) as reply:
                async for data in reply.aiter_raw():
                    has_word, received = b"word3" in received, received + data
                    if not has_word and b"word3" in received:
                        server.handle_exit(signal.SIGTERM, None)
    await ended
    return received


@pytest.mark.parametrize(
    ("wire", "stores"), [("messages", False), ("chat", False), ("messages", True)], ids=["through", "read", "stored"]
)
def test_a_stream_that_is_cut_at_the_end_of_the_drain_is_booked_and_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, wire: str, stores: bool
) -> None:
    """What the provider had reported is the lower bound of what it bills."""
    place = f"sqlite:///{tmp_path / 'gateway.db'}"
    database = Database(place)
    key, secret = KeyStore(database).create(allowance=Allowance((parse_budget("100000"),)))
    with FaultyServer(sse_reply(cut("messages"), STALL)) as provider, Store(f"sqlite:///{tmp_path / 's.db'}") as store:
        client = AsyncClient(
            providers={"anthropic": {"base_url": provider.url, "api_key": "sk"}},
            prices=Cents(),
            store=store if stores else None,
        )
        settings = GatewaySettings(models={"house": "anthropic:m"}, database=place, drain_seconds=0.01)
        app = create_app(settings, client=client)
        body, headers = question(wire, "house", stream=True), {"authorization": f"Bearer {secret}"}
        received = asyncio.run(end_while_it_streams(app, PATHS[wire], body, headers))
        sessions = len(store.list().sessions)
    rows = database.run(lambda connection: connection.execute(select(spend).where(spend.c.day > 0)).all())
    left = database.run(lambda connection: connection.execute(select(reservations)).all())
    database.close()
    assert b"word3" in received
    assert b"try again" in received[received.rindex(b"data: ") :]  # in the client's wire
    assert not any(end in received for end in (b"message_stop", b"[DONE]"))
    assert not [line for line in caplog.records if line.exc_info]
    assert [(row.scope, row.requests, row.tokens > 0) for row in rows] == [(f"key:{key.id}", 1, True)]
    assert left == []
    assert sessions == stores


def test_a_client_that_reads_nothing_does_not_delay_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not hear the error of its stream, and its request ends all the same."""
    monkeypatch.setattr(answer, "_LAST_WORD_SECONDS", 0.01)
    waits, bodies = asyncio.Event(), []

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.body":
            bodies.append(message["body"])
            waits.set()
            await asyncio.Event().wait()

    async def scenario(app: Starlette) -> None:
        asked = [json.dumps(question("chat", "house", stream=True)).encode()]

        async def receive() -> dict[str, Any]:
            if not asked:
                await asyncio.Event().wait()
            return {"type": "http.request", "body": asked.pop()}

        scope = {"type": "http", "method": "POST", "path": PATHS["chat"], "query_string": b"", "headers": []}
        answering = asyncio.create_task(app(scope, receive, send))
        await waits.wait()
        app.state.gateway.drain()
        answering.cancel()
        await answering

    with FaultyServer(sse_reply(cut("messages"), STALL)) as provider:
        client = AsyncClient(providers={"anthropic": {"base_url": provider.url, "api_key": "sk"}})
        asyncio.run(scenario(create_app(GatewaySettings(models={"house": "anthropic:m"}), client=client)))
    assert b"try again" in bodies[-1]


@pytest.mark.parametrize("wire", PATHS)
@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_waits_at_the_end_of_the_drain_is_told_to_ask_again(
    caplog: pytest.LogCaptureFixture, wire: str, *, stream: bool
) -> None:
    """Nothing was sent yet, so the answer is a status in the client's wire. The end leaves no traceback in the log."""

    async def scenario() -> httpx.Response:
        listener = socket.create_server(("127.0.0.1", 0))
        server = new_server(app)
        ended = asyncio.create_task(server.serve([listener]))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}{PATHS[wire]}"
        async with httpx.AsyncClient(timeout=PATIENCE, trust_env=False) as client:
            asked = asyncio.create_task(client.post(url, json=question(wire, "house", stream=stream)))
            while not provider.requests:
                await asyncio.sleep(0.01)
            server.handle_exit(signal.SIGTERM, None)
            reply = await asked
        await ended
        return reply

    with FaultyServer(HttpReply(before=STALL)) as provider:
        client = AsyncClient(providers={"anthropic": {"base_url": provider.url, "api_key": "sk"}})
        app = create_app(GatewaySettings(models={"house": "anthropic:m"}, drain_seconds=0.01), client=client)
        reply = asyncio.run(scenario())
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "2"
    assert reply.headers["x-dragoman-request-id"].startswith("req_")
    assert "try again" in reply.json()["error"]["message"]
    assert not [line for line in caplog.records if line.exc_info]


def test_the_gateway_closes_when_the_requests_that_were_cut_have_ended(tmp_path: Path) -> None:
    """The server does not wait for them, and some take a while to leave their provider."""
    database = f"sqlite:///{tmp_path / 'gateway.db'}"
    gateway = create_app(GatewaySettings(database=database), client=AsyncClient()).state.gateway

    async def scenario() -> None:
        cut_off = gateway.enter()
        ended = asyncio.create_task(gateway.close())
        await asyncio.sleep(0.02)
        gateway.services.admission.ledger.book("one", ["key:a"], Amount(tokens=7))
        await cut_off.leave()
        await ended

    asyncio.run(scenario())
    opened = Database(database)
    assert opened.run(lambda connection: connection.execute(select(spend.c.tokens)).scalars().all()) == [7]
    opened.close()


def test_a_gateway_without_requests_takes_none_after_the_signal() -> None:
    """One that began then would be cut long before the end of the drain."""
    app = create_app(GatewaySettings(), client=AsyncClient())
    server = new_server(app)
    server.handle_exit(signal.SIGTERM, None)
    assert app.state.gateway.draining
    assert asyncio.run(server.on_tick(1))


def test_a_signal_that_arrives_twice_at_once_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal sends it to the whole group of processes, and the first one passes it on to its workers."""
    now = [100.0]
    monkeypatch.setattr(process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    app = create_app(GatewaySettings(), client=AsyncClient())
    app.state.gateway.current.in_flight = 1
    server = new_server(app)
    for _ in range(2):
        server.handle_exit(signal.SIGINT, None)
    assert not asyncio.run(server.on_tick(1))
    assert not server.force_exit
    now[0] += 2
    server.handle_exit(signal.SIGINT, None)
    assert asyncio.run(server.on_tick(1))
    assert server.force_exit


def test_old_objects_are_looked_at_when_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search stops all threads. It waits for a moment without requests, but not for ever."""
    found: list[tuple[int, bool]] = []
    for searches in (1, 20, 100):
        for is_busy in (False, True):
            monkeypatch.setattr(process.gc, "get_count", lambda searches=searches: (0, 0, searches))
            monkeypatch.setattr(process.gc, "collect", lambda case=(searches, is_busy): found.append(case))
            process.collect_old_objects(is_busy=is_busy)
    assert found == [(20, False), (100, False), (100, True)]
