"""The end of a stream that was left in peace: waited for, but never for long, and by one thread for all of them."""

import socket
import threading
import time
from contextlib import ExitStack

import httpx
import pytest

from dragoman.transport.drain import ReadWatchdog, drain

_NAME = "dragoman-overdue"
_DEADLINE = 5.0
"""Seconds until which a test gives up. None of them waits that long where all is well."""


def _count_threads() -> int:
    return sum(thread.name == _NAME for thread in threading.enumerate())


def _wait_for_no_thread() -> None:
    until = time.monotonic() + _DEADLINE
    while _count_threads():
        assert time.monotonic() < until, "the thread lives on, though there is nothing to wait for"
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


def test_a_reader_whose_end_does_not_come_is_hung_up_on(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """A blocking read that would never end does, for each of many connections, and it took one thread."""
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
    """Behind the context the connection is somebody else's: the next reader of it is not hung up on."""
    watchdog = ReadWatchdog(timeout=0.02)
    for ours, theirs in pairs:
        with watchdog.guard(ours):
            theirs.send(b"!")
            assert ours.recv(1) == b"!"
    _wait_for_no_thread()
    for ours, theirs in pairs:
        theirs.send(b"?")
        assert ours.recv(1) == b"?"


def test_the_thread_comes_back_when_it_is_needed_again(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """It ends with the last connection, and the next one that is waited for has one again."""
    watchdog = ReadWatchdog(timeout=0.01)
    for ours, _ in pairs[:3]:
        with watchdog.guard(ours):
            assert ours.recv(1) == b""
        _wait_for_no_thread()


def test_a_stream_of_http_2_is_not_waited_for(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """Its connection carries others' streams: it needs no end to be used again, and nobody may hang up on it."""

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
