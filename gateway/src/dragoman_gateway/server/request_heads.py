"""Bounds connections and the heads of requests: how many are open, how long a connection may take to send a head, and
how large it may be.

uvicorn has no such bound. Without these, half-open connections stay forever, a head without an end fills memory, and
idle connections take all files that the process may open: then it accepts nobody.
"""

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_CAP = 256 * 1024
"""Bytes. Agents put some of their state into headers, and need far less."""

_MANY = 1_000_000
_LINE = len(": \r\n")
_TOO_SLOW = (408, "Request Timeout", "the head of the request did not arrive in time")
_TOO_MANY = (503, "Service Unavailable", "the gateway has as many connections as it may")
_TOO_LARGE = (431, "Request Header Fields Too Large", "the head of the request is too large")


class Connections:
    """The open connections of a server, ``most`` at the same time. For one more, the one of the address with the most
    that was idle longest is closed, whether it ever sent a request or not.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._idle: dict[str, dict[Any, None]] = {}
        """Connections without a request, by their address, the one that is idle longest first."""

    def add(self, connection: Any, address: str) -> bool:
        """Count a connection. Return False if there is no room, because all others are in use."""
        room = self._open.total() < self._most or self._close_one()
        self._open[address] += 1
        self.rest(connection, address)
        return room

    def use(self, connection: Any, address: str) -> None:
        """Note that a request has begun."""
        if (idle := self._idle.get(address)) is not None:
            idle.pop(connection, None)
            if not idle:
                del self._idle[address]

    def rest(self, connection: Any, address: str) -> None:
        """Note that the connection waits for a request."""
        self._idle.setdefault(address, {})[connection] = None

    def remove(self, connection: Any, address: str) -> None:
        self.use(connection, address)
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    def _close_one(self) -> bool:
        for address, _ in self._open.most_common():
            if idle := self._idle.get(address):
                connection = next(iter(idle))
                self.use(connection, address)
                connection.transport.close()
                return True
        return False


def with_bounded_heads(  # noqa: C901  # it makes a class
    protocol: type[HttpToolsProtocol], seconds: float, cap: int = HEAD_CAP, connections: Connections | None = None
) -> type[HttpToolsProtocol]:
    """Return a protocol that closes a connection whose next head takes longer, or is larger. A connection without any
    request is closed as well; between two requests, uvicorn's own time holds until the next one begins, or until
    another connection needs the room.
    """
    known = Connections(_MANY) if connections is None else connections

    class Bounded(protocol):  # type: ignore[misc, valid-type]  # the base class is an argument
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._in_head = False
            self._head_size = 0
            self._may_be_large = False
            self._head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._address = str((self.client or ("",))[0])
            self._start_timer()
            if not known.add(self, self._address):
                self._may_be_large = True  # so that the reason is sent
                self._refuse(_TOO_MANY)

        def data_received(self, data: bytes) -> None:
            self._may_be_large = self._head_size + len(data) > cap
            super().data_received(data)
            if not self._in_head:  # most heads arrive in one piece
                return
            self._head_size += len(data)
            if self._head_timer is None:
                self._start_timer()
            if self._head_size > cap:
                self._refuse(_TOO_LARGE)

        def on_message_begin(self) -> None:
            self._in_head, self._head_size = True, 0
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            self._stop_timer()
            known.use(self, self._address)
            super().on_headers_complete()
            if self._may_be_large and _size_of_head(self.url, self.headers) > cap:
                self.cycle.disconnected = True  # its task has not run yet: to it, the client has left
                self._refuse(_TOO_LARGE)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            waits = self.cycle is not None and not self.cycle.response_complete  # another request, after this one
            if not (waits or self.transport.is_closing()):
                known.rest(self, self._address)

        def connection_lost(self, error: Exception | None) -> None:
            self._stop_timer()
            known.remove(self, self._address)
            super().connection_lost(error)

        def _start_timer(self) -> None:
            self._head_timer = self.loop.call_later(seconds, self._refuse, _TOO_SLOW)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse(self, reason: tuple[int, str, str]) -> None:
            """Send the reason, unless the client sent nothing, and close the connection."""
            self._stop_timer()
            if self.transport.is_closing():
                return
            if self._head_size or self._may_be_large:
                status, name, text = reason
                head = f"HTTP/1.1 {status} {name}\r\ncontent-type: text/plain\r\ncontent-length: {len(text)}\r\n"
                self.transport.write(f"{head}connection: close\r\n\r\n{text}".encode())
            self.transport.close()

    return Bounded


def _size_of_head(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) + _LINE for name, value in headers)
