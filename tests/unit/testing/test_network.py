"""block_network: which connections it allows, and that nothing is left after it."""

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from dragoman import Session
from dragoman.testing import NetworkBlockedError, block_network
from dragoman.testing.faults.server import FaultyServer, json_reply

AWAY = "203.0.113.7"
"""An address reserved for documentation: no host has it."""


def test_a_connection_to_another_host_names_it() -> None:
    """By address, by name, and for datagrams; the name is not looked up."""
    with block_network():
        with pytest.raises(NetworkBlockedError, match=rf"{AWAY}:443 was blocked") as caught:
            socket.create_connection((AWAY, 443))
        assert (caught.value.host, caught.value.port) == (AWAY, 443)
        with pytest.raises(NetworkBlockedError, match=r"api\.example\.com:443"):
            socket.create_connection(("api.example.com", 443))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            with pytest.raises(NetworkBlockedError):
                udp.sendto(b"x", (AWAY, 53))
            with pytest.raises(NetworkBlockedError):
                udp.connect_ex((AWAY, 53))


def test_this_machine_is_allowed() -> None:
    """A server on loopback answers, unless nothing is allowed."""
    with FaultyServer([json_reply({"ok": True})]) as server:
        with block_network():
            assert httpx.get(server.url).json() == {"ok": True}
        with block_network(allow=()), pytest.raises(NetworkBlockedError, match=r"127\.0\.0\.1"):
            httpx.get(server.url)


def test_a_session_raises_the_block() -> None:
    """It is not a failure of the provider: nothing is retried."""
    session = Session("openai:gpt-4.1", providers={"openai": {"api_key": "k"}})
    with block_network(), session, pytest.raises(NetworkBlockedError, match=r"api\.openai\.com"):
        session.ask("Hello")


def test_threads_and_event_loops_are_blocked() -> None:
    """It applies to the whole process."""

    def connect() -> None:
        socket.create_connection((AWAY, 443))

    async def open_one() -> None:
        await asyncio.open_connection(AWAY, 443)

    with block_network():
        with ThreadPoolExecutor(1) as pool, pytest.raises(NetworkBlockedError):
            pool.submit(connect).result()
        with pytest.raises(NetworkBlockedError):
            asyncio.run(open_one())


def test_an_allowed_name_may_be_reached_at_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with FaultyServer([json_reply({"ok": True})]) as server:
        host, port = "models.example", int(server.url.rpartition(":")[2])
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        with block_network(allow=["Models.Example."]):
            socket.create_connection((host, port)).close()
            with pytest.raises(NetworkBlockedError):
                socket.create_connection(("other.example", port))


def test_blocks_nest_and_leave_nothing_behind() -> None:
    """What all of them allow is allowed; at the end the socket is as it was, also if the blocks end crosswise."""
    before = (socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto, socket.getaddrinfo)
    outer, inner = block_network(allow=[AWAY]), block_network(allow=["198.51.100.1"])
    outer.__enter__()
    inner.__enter__()
    try:
        with pytest.raises(NetworkBlockedError):
            socket.create_connection((AWAY, 443))
    finally:
        outer.__exit__(None, None, None)
    with pytest.raises(NetworkBlockedError):
        socket.create_connection((AWAY, 443))
    inner.__exit__(None, None, None)
    assert (socket.socket.connect, socket.socket.connect_ex, socket.socket.sendto, socket.getaddrinfo) == before


def test_local_sockets_are_left_alone() -> None:
    """Local sockets are left alone: socket pairs and Unix sockets of other programs."""
    with block_network(allow=()):
        one, two = socket.socketpair()
        one.sendall(b"x")
        assert two.recv(1) == b"x"
        one.close()
        two.close()
        assert threading.active_count() >= 1


def test_a_lookup_may_outlast_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread is in the middle of it when the block ends."""
    begun, may_go_on, lookup = threading.Event(), threading.Event(), socket.getaddrinfo

    def slow_check(host: str, port: int | None = None) -> None:
        begun.set()
        assert may_go_on.wait(60)

    monkeypatch.setattr("dragoman.testing.network._check", slow_check)
    with ThreadPoolExecutor(1) as pool:
        with block_network():
            found = pool.submit(socket.getaddrinfo, "127.0.0.1", 80)
            assert begun.wait(60)
        may_go_on.set()
        assert found.result(60) == lookup("127.0.0.1", 80)
