"""uvicorn's HTTP protocol, which sends the head of a reply together with the first bytes of its body, and no chunks to
clients of HTTP/1.0.

It bounds connections and the heads of requests: how many are open, how long a connection may take to send a head, and
how large it may be. uvicorn has no such bound. Without these, half-open connections stay forever, a head without an end
fills memory, and idle connections take all files that the process may open: then it accepts nobody.
"""

import asyncio
import math
from collections import Counter
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_CAP = 256 * 1024
"""Bytes. Agents put some of their state into headers, and need far less."""
_HEAD = b"HTTP/"
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
        room = self._open.total() < self._most
        if not room:
            for other, _ in self._open.most_common():
                if idle := self._idle.get(other):
                    longest = next(iter(idle))
                    self.use(longest, other)
                    longest.transport.close()
                    room = True
                    break
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


class Protocol(HttpToolsProtocol):
    """A connection. It is closed if its next head takes longer than ``head_seconds``, or is larger than ``head_cap``. A
    connection without any request is closed as well; between two requests, uvicorn's own time holds until the next one
    begins, or until another connection needs the room. ``connections`` are those of the whole server; None does not
    bound them.
    """

    def __init__(
        self,
        *arguments: Any,
        head_seconds: float = 60.0,
        head_cap: int = HEAD_CAP,
        connections: Connections | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **named)
        self._head_seconds = head_seconds
        self._head_cap = head_cap
        self._connections = connections or Connections(1)  # of this one alone
        self._in_head = False
        self._head_size = 0
        self._may_be_large = False
        self._head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base class
        super().connection_made(_JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # has its methods
        self._address = str((self.client or ("",))[0])
        self._start_timer()
        if not self._connections.add(self, self._address):
            self._may_be_large = True  # so that the reason is sent
            self._refuse(_TOO_MANY)

    def data_received(self, data: bytes) -> None:
        self._may_be_large = self._head_size + len(data) > self._head_cap
        super().data_received(data)
        if not self._in_head:  # most heads arrive in one piece
            return
        self._head_size += len(data)
        if self._head_timer is None:
            self._start_timer()
        if self._head_size > self._head_cap:
            self._refuse(_TOO_LARGE)

    def on_message_begin(self) -> None:
        self._in_head, self._head_size = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        self._connections.use(self, self._address)
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.cycle is not None:
            self.cycle.send = partial(_send_without_chunks, self.cycle)  # type: ignore[method-assign]
        if self._may_be_large:
            size = len(self.url) + sum(len(name) + len(value) + _LINE for name, value in self.headers)
            if size > self._head_cap:
                self.cycle.disconnected = True  # its task has not run yet: to it, the client has left
                self._refuse(_TOO_LARGE)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        waits = self.cycle is not None and not self.cycle.response_complete  # another request, after this one
        if not (waits or self.transport.is_closing()):
            self._connections.rest(self, self._address)

    def connection_lost(self, error: Exception | None) -> None:
        self._stop_timer()
        self._connections.remove(self, self._address)
        super().connection_lost(error)

    def _start_timer(self) -> None:
        self._head_timer = self.loop.call_later(self._head_seconds, self._refuse, _TOO_SLOW)

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


async def _send_without_chunks(cycle: Any, message: Any) -> None:
    """Send a message of a reply to a client of HTTP/1.0: without a length, the body ends with the connection (RFC 9112,
    section 6.1)."""
    if message["type"] == "http.response.start":
        if not any(name.lower() == b"content-length" for name, _ in message.get("headers", ())):
            cycle.keep_alive = cycle.chunked_encoding = False
            cycle.expected_content_length = math.inf
    elif cycle.expected_content_length == math.inf and not message.get("more_body", False):
        cycle.expected_content_length = len(message.get("body", b""))  # the last bytes
    await type(cycle).send(cycle, message)


class _JoiningTransport:
    """Holds the head of a reply until the next write, or until the next step of the event loop: each write is a system
    call."""

    __slots__ = ("_head", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_HEAD):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
