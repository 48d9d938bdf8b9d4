"""Servers that take their time: each in another phase of a call."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.unit.transport.loopback_servers import HOST, LoopbackServer

PIECE_SECONDS = 0.1
"""Seconds between two bytes: far below every time limit for silence."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


class SlowServer(LoopbackServer):
    """Calls a function with each connection, and an event that is set at the end of the test."""

    def __init__(self, behave: Callable[[socket.socket, threading.Event], None]) -> None:
        super().__init__()
        self._behave = behave
        self._ended = threading.Event()

    def serve(self, connection: socket.socket) -> None:
        self._behave(connection, self._ended)

    def __exit__(self, *details: object) -> None:
        self._ended.set()
        super().__exit__(*details)


def _drip(connection: socket.socket, ended: threading.Event, start: bytes, piece: bytes) -> None:
    connection.recv(65536)
    connection.sendall(start)
    while not ended.wait(PIECE_SECONDS):
        connection.sendall(piece)


def silent(connection: socket.socket, ended: threading.Event) -> None:
    """Accept, and never say anything: also no TLS."""
    ended.wait()


def slow_head(connection: socket.socket, ended: threading.Event) -> None:
    """Send the head of the reply header by header, without an end."""
    _drip(connection, ended, _HEAD, b"x-more: 1\r\n")


def slow_byte(connection: socket.socket, ended: threading.Event) -> None:
    """Send one header byte by byte, without an end."""
    _drip(connection, ended, _HEAD + b"x-long: ", b"a")


def slow_body(connection: socket.socket, ended: threading.Event) -> None:
    """Send a body byte by byte, without an end."""
    _drip(connection, ended, _HEAD + b"content-length: 1000000\r\n\r\n", b" ")


def slow_continue(connection: socket.socket, ended: threading.Event) -> None:
    """Send one interim response after the other."""
    _drip(connection, ended, b"", b"HTTP/1.1 103 Early Hints\r\n\r\n")


def slow_reader(connection: socket.socket, ended: threading.Event) -> None:
    """Read a large request a few bytes at a time."""
    while not ended.wait(PIECE_SECONDS):
        connection.recv(64)


@dataclass(frozen=True)
class Slowness:
    """One slow phase of a call."""

    name: str
    behave: Callable[[socket.socket, threading.Event], None]
    scheme: str = "http"
    body_size: int = 100
    host: str = HOST


PHASES = (
    Slowness("silence", silent),
    Slowness("the head, header by header", slow_head),
    Slowness("the head, byte by byte", slow_byte),
    Slowness("the body, byte by byte", slow_body),
    Slowness("interim responses", slow_continue),
    Slowness("the TLS handshake", silent, scheme="https"),
    Slowness("a server that reads slowly", slow_reader, body_size=30_000_000),
    Slowness("the name lookup", silent, host="slow.example"),
)


@contextlib.contextmanager
def slow_provider(phase: Slowness, patch: Callable[[Any, str, Any], None]) -> Iterator[str]:
    """The base URL of a provider that is slow in one phase. ``patch`` sets an attribute for the test."""
    with SlowServer(phase.behave) as server:
        lookup = socket.getaddrinfo

        def slow_lookup(host: Any, *arguments: Any, **named: Any) -> Any:
            if host == phase.host != HOST:
                server._ended.wait(30)
            return lookup(host, *arguments, **named)

        patch(socket, "getaddrinfo", slow_lookup)
        yield f"{phase.scheme}://{phase.host}:{server.port}"
