"""Bounds the heads of requests: how long a connection may take to send one, and how large it may be.

uvicorn has neither bound. Without them, half-open connections stay for ever, and a head without an end fills memory.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_CAP = 256 * 1024
"""Bytes. Agents put some of their state into headers, and need far less."""

_LINE = len(": \r\n")
_TOO_SLOW = (408, "Request Timeout", "the head of the request did not arrive in time")
_TOO_LARGE = (431, "Request Header Fields Too Large", "the head of the request is too large")


def with_bounded_heads(
    protocol: type[HttpToolsProtocol], seconds: float, cap: int = HEAD_CAP
) -> type[HttpToolsProtocol]:
    """Return a protocol that closes a connection whose next head takes longer, or is larger. A connection without any
    request is closed as well; between two requests, uvicorn's own time holds until the next one begins.
    """

    class Bounded(protocol):  # type: ignore[misc, valid-type]  # the base class is an argument
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._in_head = False
            self._head_size = 0
            self._may_be_large = False
            self._head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._start_timer()

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
            super().on_headers_complete()
            if self._may_be_large and _size_of_head(self.url, self.headers) > cap:
                self.cycle.disconnected = True  # its task has not run yet: to it, the client has left
                self._refuse(_TOO_LARGE)

        def connection_lost(self, error: Exception | None) -> None:
            self._stop_timer()
            super().connection_lost(error)

        def _start_timer(self) -> None:
            self._head_timer = self.loop.call_later(seconds, self._refuse, _TOO_SLOW)

        def _stop_timer(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _refuse(self, reason: tuple[int, str, str]) -> None:
            """Say why, unless nothing was sent, and close the connection."""
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
