"""uvicorn's HTTP protocol, which sends the head of a reply together with the first bytes of its body, and no chunks to
clients of HTTP/1.0."""

import asyncio
import math
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_HEAD = b"HTTP/"


class Protocol(HttpToolsProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as its base class
        super().connection_made(_JoiningTransport(transport, self.loop))  # type: ignore[arg-type]  # has its methods

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        if self.scope["http_version"] == "1.0" and self.cycle is not None:
            self.cycle.send = partial(_send_without_chunks, self.cycle)  # type: ignore[method-assign]


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
