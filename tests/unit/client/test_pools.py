"""The shared pools, as sessions see them: their limit, and what becomes of idle connections."""

import asyncio
import gc
import logging
import time
import weakref
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, AsyncSession, Client, Session
from dragoman.adapter.errors import RequestTimeoutError
from dragoman.testing.faults.server import STALL, FaultyServer, HttpReply, ReceivedRequest, sse_reply
from dragoman.transport.engines import loop_pools, pool, shared_pools
from tests.unit.client.test_leaks import BODY, answer
from tests.unit.session.drivers import ANTHROPIC

MANY = 60


def stall_streams(request: ReceivedRequest) -> HttpReply:
    return sse_reply(*BODY.frames[:4], STALL) if b'"stream":true' in request.body else answer(request)


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer(stall_streams) as running:
        yield running


def settings(server: FaultyServer, **more: Any) -> dict[str, Any]:
    return {"providers": {"anthropic": {"base_url": server.url, "api_key": "none", "max_retries": 0, **more}}}


def test_a_full_pool_says_what_to_do(server: FaultyServer) -> None:
    """A call that finds no connection in its time is a typed error; nothing is sent, and a freed one is used."""
    client = Client(**settings(server, max_connections=1))
    impatient = Client(**settings(server, max_connections=1, timeout=0.3))
    with client.session(ANTHROPIC) as first, first.stream("Hi") as stream:
        assert next(stream).type == "message_start"
        with pytest.raises(RequestTimeoutError, match="raise max_connections, or close streams sooner"):
            impatient.ask(ANTHROPIC, "Hi")
        assert len(server.requests) == 1
    assert client.ask(ANTHROPIC, "Hi").text == "One two three."


def test_a_full_pool_serves_tasks_in_order(server: FaultyServer) -> None:
    """Tasks that wait for the only connection get it in the order in which they came."""
    order: list[int] = []

    async def main() -> None:
        async with AsyncClient(**settings(server, max_connections=1)) as client:

            async def ask(number: int) -> None:
                await client.ask(ANTHROPIC, str(number))
                order.append(number)

            await asyncio.gather(*map(ask, range(20)))

    asyncio.run(main())
    assert order == list(range(20))
    assert {request.connection for request in server.requests} == {0}


def test_idle_connections_are_closed(server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Idle connections are closed without another call: by a thread that then ends, and by a timer of the
    event loop.
    """
    for module in (pool, shared_pools, loop_pools):
        monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    monkeypatch.setattr(shared_pools, "_janitor", janitor := shared_pools._Janitor())  # the other one may sleep
    session = Session(ANTHROPIC, **settings(server))
    for _ in range(2):  # the second call opens a connection after the thread has ended
        session.ask("Hi")
        assert server.wait_until_closed() == 0
        deadline = time.monotonic() + 60
        while janitor.running:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    async def main() -> None:
        await AsyncSession(ANTHROPIC, **settings(server)).ask("Hi")
        assert await asyncio.to_thread(server.wait_until_closed) == 0

    asyncio.run(main())


def test_many_calls_through_one_httpx_client_are_warned_about(
    server: FaultyServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said once that a single AsyncClient becomes slow."""

    async def main() -> None:
        async with httpx.AsyncClient(limits=httpx.Limits(max_connections=MANY)) as own:
            client = AsyncClient(**settings(server, client=own))
            for _ in range(2):
                await asyncio.gather(*[client.ask(ANTHROPIC, "Hi") for _ in range(MANY)])

    with caplog.at_level(logging.WARNING, "dragoman.transport"):
        asyncio.run(main())
    assert [record.getMessage()[:22] for record in caplog.records] == ["more than 50 concurren"]


def test_a_session_needs_no_garbage_collector(server: FaultyServer) -> None:
    """Nothing in a session that has answered refers back to it: a program with many sessions spends no time on them."""

    async def ask_async() -> weakref.ref[AsyncSession]:
        session = AsyncSession(ANTHROPIC, **settings(server))
        await session.ask("Hi")
        return weakref.ref(session)

    gc.disable()
    try:
        session = Session(ANTHROPIC, **settings(server))
        session.ask("Hi")
        reference = weakref.ref(session)
        del session
        assert reference() is None
        assert asyncio.run(ask_async())() is None
    finally:
        gc.enable()
