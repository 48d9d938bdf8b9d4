"""Draining an abandoned stream: the wait for its end is short, and one thread watches all connections."""

import socket
from contextlib import ExitStack

import httpx
import pytest

from dragoman.transport.drain import ReadWatchdog, drain
from tests.unit.transport.connections.drain_time import (
    MovableTime,
    count_watchdogs,
    drain_time,
    wait_for_no_watchdog,
)

__all__ = ["drain_time"]  # the fixture


@pytest.fixture
def pairs() -> list[tuple[socket.socket, socket.socket]]:
    return [socket.socketpair() for _ in range(20)]


@pytest.fixture(autouse=True)
def _close_pairs(pairs: list[tuple[socket.socket, socket.socket]]) -> object:
    yield
    for pair in pairs:
        for end in pair:
            end.close()


def test_a_blocked_reader_is_disconnected(
    pairs: list[tuple[socket.socket, socket.socket]], drain_time: MovableTime
) -> None:
    """One thread ends the blocking reads of many connections."""
    watchdog = ReadWatchdog(timeout=0.02)
    with ExitStack() as stack:
        for ours, _ in pairs:
            stack.enter_context(watchdog.guard(ours))
        assert count_watchdogs() == 1
        drain_time.move(0.02)
        assert [ours.recv(1) for ours, _ in pairs] == [b""] * len(pairs)
    wait_for_no_watchdog()


def test_a_connection_that_ended_in_time_is_left_alone(
    pairs: list[tuple[socket.socket, socket.socket]], drain_time: MovableTime
) -> None:
    """After the context the connection is somebody else's: its next reader is not disconnected."""
    watchdog = ReadWatchdog(timeout=0.02)
    for ours, theirs in pairs:
        with watchdog.guard(ours):
            theirs.send(b"!")
            assert ours.recv(1) == b"!"
    drain_time.move(0.02)
    wait_for_no_watchdog()
    for ours, theirs in pairs:
        theirs.send(b"?")
        assert ours.recv(1) == b"?"


def test_the_thread_restarts_when_it_is_needed(pairs: list[tuple[socket.socket, socket.socket]]) -> None:
    """It ends with the last connection, and the next one starts it again."""
    watchdog = ReadWatchdog(timeout=0.01)
    for ours, _ in pairs[:3]:
        with watchdog.guard(ours):
            assert ours.recv(1) == b""
        wait_for_no_watchdog()


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
