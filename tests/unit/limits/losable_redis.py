"""The server of the counters, which a test can lose and find again.

It passes bytes on to the Redis of the tests; if there is none, it grants everything itself.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from tests.unit.limits.redis_server import REDIS_URL

_HELLO = b"%1\r\n$5\r\nproto\r\n:3\r\n"
_GRANTED = b"*4\r\n:1\r\n:0\r\n:0\r\n:0\r\n"
"""The answer of claim.lua: granted at once."""


class LosableRedis:
    """``url`` stays the same. While the server is lost, its connections are closed, and new ones too."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._path = urlsplit(os.environ.get(REDIS_URL, "")).path or "/0"
        self.url = f"redis://127.0.0.1:{self._server.getsockname()[1]}{self._path}"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_lost = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def lose(self) -> None:
        with self._lock:
            self._is_lost = True
            for each in self._open:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def find(self) -> None:
        self._is_lost = False

    def close(self) -> None:
        self.lose()
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for each in self._threads:
            each.join(5)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            with self._lock:
                if self._is_lost:
                    return
                self._open.add(client)
            try:
                if url := os.environ.get(REDIS_URL):
                    _relay(client, url)
                else:
                    _grant_everything(client)
            finally:
                with self._lock:
                    self._open.discard(client)


def _relay(client: socket.socket, url: str) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 6379)) as server:
        back = threading.Thread(target=_pump, args=(server, client), daemon=True)
        back.start()
        _pump(client, server)
        back.join(5)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


def _grant_everything(client: socket.socket) -> None:
    with client.makefile("rb") as lines:
        while header := lines.readline():
            words = [lines.read(int(lines.readline()[1:]) + 2)[:-2] for _ in range(int(header[1:]))]
            client.sendall({b"HELLO": _HELLO, b"EVALSHA": _GRANTED}.get(words[0], b"+OK\r\n"))


@contextmanager
def losable_redis() -> Iterator[LosableRedis]:
    pytest.importorskip("redis")
    redis = LosableRedis()
    try:
        yield redis
    finally:
        redis.close()
