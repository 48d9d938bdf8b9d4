"""Connections of bad clients: half-open, slow, and without an end."""

import asyncio
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient
from dragoman_gateway import create_app
from dragoman_gateway.server.command import listen
from dragoman_gateway.server.protocol import Connections, Protocol
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.scripted import Answer, Upstream, chat_events, gateway_before
from tests.gateway.serving import serving
from tests.gateway.upstream import PATIENCE

HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"
HEAD_SECONDS = 600.0
"""By the clock of the server, which goes on when a test says so."""


@dataclass(frozen=True)
class Place:
    """A server, and its side of each connection that was ever opened."""

    address: tuple[str, int]
    connections: list[Any]

    @contextmanager
    def connect(self) -> Iterator[socket.socket]:
        """Yield a connection that the server has noticed."""
        before = len(self.connections)
        with socket.create_connection(self.address, timeout=PATIENCE) as connection:
            wait_until(lambda: len(self.connections) > before)
            yield connection

    def run_out(self) -> None:
        """Let more time pass than a head may take."""
        loop, passed = self.connections[-1].loop, threading.Event()
        now = loop.time
        loop.time = lambda: now() + HEAD_SECONDS + 1
        loop.call_soon_threadsafe(loop.call_later, 0, passed.set)  # behind the timers that are due
        assert passed.wait(PATIENCE)

    def run_out_in_head(self) -> None:
        """Let more time pass than a head may take, when the last connection has sent a part of one."""
        wait_until(lambda: self.connections[-1]._in_head and self.connections[-1]._head_timer is not None)
        self.run_out()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    connections: list[Any] = []

    class Noted(Protocol):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, head_seconds=HEAD_SECONDS, head_cap=10_000, **named)

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            connections.append(self)

    with serving(create_app(client=AsyncClient()), http=Noted, timeout_keep_alive=100_000) as url:
        host, port = url.removeprefix("http://").split(":")
        yield Place((host, int(port)), connections)


def received(connection: socket.socket) -> bytes:
    """Return everything until the other side closes the connection."""
    pieces = []
    with suppress(ConnectionResetError):  # it is reset, behind the reply, if the other side has not read all
        while piece := connection.recv(65_536):
            pieces.append(piece)
    return b"".join(pieces)


def test_a_connection_without_a_request_is_closed(place: Place) -> None:
    with place.connect() as connection:
        place.run_out()
        assert received(connection) == b""


def test_half_a_head_is_answered_and_the_connection_closed(place: Place) -> None:
    with place.connect() as connection:
        connection.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\nx-slow: ")
        place.run_out_in_head()
        assert received(connection).startswith(b"HTTP/1.1 408 ")


def test_so_is_half_a_second_head(place: Place) -> None:
    with place.connect() as connection:
        connection.sendall(HEALTH)
        assert replies(connection, 1)
        connection.sendall(HEALTH[:20])
        place.run_out_in_head()
        assert received(connection).startswith(b"HTTP/1.1 408 ")


def test_a_head_without_an_end_is_refused(place: Place) -> None:
    with place.connect() as connection:
        lines = (f"x-{number}: {'y' * 1_000}\r\n".encode() for number in range(10))
        connection.sendall(b"GET /health HTTP/1.1\r\n" + b"".join(lines))
        assert received(connection).startswith(b"HTTP/1.1 431 ")


def test_a_head_that_ends_is_refused_if_it_is_too_large(place: Place) -> None:
    """In one piece or in several; a body may be larger."""
    for pieces in ([9_000, 9_000], [30_000], [9_000, 30_000]):
        with place.connect() as connection:
            connection.sendall(b"GET /health HTTP/1.1\r\n")
            with suppress(ConnectionError):  # it may be refused before its end
                for number, length in enumerate(pieces):
                    connection.sendall(f"x-{number}: {'y' * length}\r\n".encode())
                    time.sleep(0.01)
                connection.sendall(b"\r\n")
            reply = received(connection)
            assert reply.startswith(b"HTTP/1.1 431 ")
            assert reply.count(b"HTTP/1.1") == 1
    with place.connect() as connection:
        head = b"POST /v1/messages HTTP/1.1\r\ncontent-type: application/json\r\nconnection: close\r\n"
        connection.sendall(head + b"content-length: 30000\r\n\r\n" + b"x" * 30_000)
        assert received(connection).startswith(b"HTTP/1.1 400 ")


def test_a_connection_that_is_used_stays_open(place: Place) -> None:
    """Longer than a head may take; two requests at once are two replies."""
    with place.connect() as connection:
        for number in range(2):
            if number:
                place.run_out()
            connection.sendall(HEALTH)
            assert replies(connection, 1)
        connection.sendall(HEALTH + HEALTH)
        assert replies(connection, 2)


def test_idle_connections_leave_room_for_others() -> None:
    """The one that was idle longest is closed first, with half a head or none; none that is in use."""
    go = threading.Event()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        if scope["path"] == "/wait":
            await asyncio.to_thread(go.wait, PATIENCE)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    counted: Any = partial(Protocol, head_seconds=HEAD_SECONDS, connections=Connections(8))
    with serving(answer, http=counted, timeout_keep_alive=100_000) as url, ExitStack() as stack:
        host, port = url.removeprefix("http://").split(":")

        def connect(request: bytes = b"") -> socket.socket:
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
            connection.sendall(request)
            return connection

        busy = connect(b"GET /wait HTTP/1.1\r\nhost: x\r\n\r\n")
        used = connect(HEALTH)
        assert replies(used, 1)
        idle = [connect(HEALTH[:10] if number % 2 else b"") for number in range(30)]
        late = connect(HEALTH)
        assert replies(late, 1)
        assert [received(each) for each in idle[:20]] == [b""] * 20
        assert received(used) == b""
        assert all(replies(connect(HEALTH), 1) for _ in range(20))
        assert received(late) == b""
        go.set()
        assert replies(busy, 1)


def test_a_connection_beside_others_that_are_all_in_use_is_refused_and_told_why() -> None:
    go = threading.Event()

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            await asyncio.to_thread(go.wait, PATIENCE)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

    connections = Connections(2)
    counted: Any = partial(Protocol, head_seconds=HEAD_SECONDS, connections=connections)
    with serving(answer, http=counted) as url, ExitStack() as stack:
        host, port = url.removeprefix("http://").split(":")
        busy = [stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE)) for _ in range(2)]
        for each in busy:
            each.sendall(HEALTH)
        wait_until(lambda: connections._open.total() == 2 and not connections._idle)
        with socket.create_connection((host, int(port)), timeout=PATIENCE) as late:
            assert received(late).startswith(b"HTTP/1.1 503 ")
        go.set()
        assert all(replies(each, 1) for each in busy)


def test_small_writes_are_not_held_back() -> None:
    """By Nagle's algorithm, whichever event loop serves the connection."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()[:2], timeout=PATIENCE):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def replies(connection: socket.socket, number: int) -> bool:
    """Read that number of replies."""
    found = b""
    while found.count(b"\r\n\r\nok") < number and (piece := connection.recv(65_536)):
        found += piece
    return found.count(b"HTTP/1.1 200 ") == number


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_a_reader_that_is_slow_holds_the_provider_back(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the same wire and on another: of a stream of 50 MB that is read byte by byte, the gateway keeps little."""
    create_server = socket.create_server

    def with_small_buffer(address: tuple[str, int]) -> socket.socket:
        """Otherwise the system decides how much the gateway can pass on, and how much of the reply it has read."""
        listener = create_server(address)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)  # its connections inherit it
        return listener

    monkeypatch.setattr(socket, "create_server", with_small_buffer)
    delta = chat_events({"content": "x" * 50_000}, finish=None, done=False)
    sent: list[int] = []
    upstream = Upstream()
    body = {"model": "chat-model", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9, "stream": True}
    with gateway_before(upstream) as address:
        httpx.post(address + path, json=body)  # what the first request loads is not part of a stream
        upstream.script = lambda _: Answer(sent.append(1) or piece for _ in range(1000) for piece in delta)
        request = httpx.Request("POST", address + path, json=body)
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(request.content)}\r\n\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", request.url.port))
            tracemalloc.start()
            try:
                connection.sendall(head.encode() + request.content)
                seen = -1
                while seen != len(sent) or not seen:
                    seen = len(sent)
                    assert connection.recv(1)
                    time.sleep(0.3)
                _, most = tracemalloc.get_traced_memory()
            finally:
                tracemalloc.stop()
    assert most < 10_000_000, len(sent)
