"""Draining an abandoned stream: the wait for its end is short, and one thread watches all connections."""

import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from dragoman.transport.drain import ReadWatchdog, drain

_NAME = "dragoman-overdue"
_DEADLINE = 5.0
"""Seconds until a test gives up. If all is well, none waits that long."""


def _count_threads() -> int:
    return sum(thread.name == _NAME for thread in threading.enumerate())


def _wait_for_no_thread() -> None:
    until = time.monotonic() + _DEADLINE
    while _count_threads():
        assert time.monotonic() < until, "the thread still runs, although no connection is left"
        time.sleep(0.005)


@pytest.fixture
def pairs() -> list[tuple[socket.socket, socket.socket]]:
    return [socket.socketpair() for _ in range(20)]


@pytest.fixture(autouse=True)
def _close_pairs(pairs: list[tuple[socket.socket, socket.socket]]) -> object:
    yield
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_blocked_reader_is_disconnected(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """One thread ends the blocking reads of many connections."""
    _wait_for_no_thread()  # of a test before
    watchdog, seen = ReadWatchdog(timeout=0.02), []
    with ExitStack() as stack:
        for ours, _ in pairs:
            stack.enter_context(watchdog.guard(ours))
        seen.append(_count_threads())
        assert [ours.recv(1) for ours, _ in pairs] == [b""] * len(pairs)
    assert seen == [1]
    _wait_for_no_thread()


def test_a_connection_that_ended_in_time_is_left_alone(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """After the context the connection is somebody else's: its next reader is not disconnected."""
    watchdog = ReadWatchdog(timeout=0.02)
    for ours, theirs in pairs:
        with watchdog.guard(ours):
            theirs.send(b"!")
            assert ours.recv(1) == b"!"
    _wait_for_no_thread()
    for ours, theirs in pairs:
        theirs.send(b"?")
        assert ours.recv(1) == b"?"


def test_the_thread_restarts_when_it_is_needed(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """It ends with the last connection, and the next one starts it again."""
    watchdog = ReadWatchdog(timeout=0.01)
    for ours, _ in pairs[:3]:
        with watchdog.guard(ours):
            assert ours.recv(1) == b""
        _wait_for_no_thread()


def test_an_http2_stream_is_not_drained(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """Its connection carries other streams and can be reused without draining."""

    class Network:
        def get_extra_info(self, _: str) -> socket.socket:
            return pairs[0][0]

    left: list[bytes] = []
    for version in (b"HTTP/2", b"HTTP/1.1"):
        extensions = {"http_version": version, "network_stream": Network()}
        response = httpx.Response(200, stream=httpx.ByteStream(b""), extensions=extensions)
        response.is_closed = False
        rest = iter([b"the rest"])
        drain(response, rest)
        left += rest
    assert left == [b"the rest"]
