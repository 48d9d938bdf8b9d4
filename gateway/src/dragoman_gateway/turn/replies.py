"""Whole replies and streams, as ASGI messages."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import Receive, Send

Headers = list[tuple[bytes, bytes]]

COMMENT = b": keep-alive\n\n"
"""A sign of life before the first event of a stream."""


@dataclass(frozen=True, slots=True)
class Response:
    """A whole reply."""

    status: int
    headers: Headers
    body: bytes

    async def send(self, send: Send) -> None:
        headers = [*self.headers, (b"content-length", str(len(self.body)).encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class StreamBody:
    """Writes a stream. Its status and headers go out with the first bytes, or after ``first_seconds``; from then on
    silence of ``ping_seconds`` is broken by a sign of life."""

    def __init__(
        self, send: Send, headers: Callable[[], Headers], *, ping: bytes, first_seconds: float, ping_seconds: float
    ) -> None:
        self._send = send
        self._headers = headers
        self._ping = ping
        self._ping_seconds = ping_seconds
        self.started = False
        self._wrote = False
        self._whole_frame = True
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(first_seconds, self._tick)
        self._pinging: asyncio.Task[None] | None = None

    async def write(self, data: bytes) -> None:
        """Send bytes of the stream. It waits if the client reads slowly."""
        self._wrote = True
        self._whole_frame = data.endswith((b"\n\n", b"\r\n\r\n"))
        await self._write(data)

    async def end(self) -> None:
        """End the stream as a complete one."""
        self.stop()
        if not self.started:
            await self._start()
        await self._send({"type": "http.response.body", "body": b""})

    def stop(self) -> None:
        """Send no more signs of life."""
        self._timer.cancel()

    async def _write(self, data: bytes) -> None:
        self._last = self._loop.time()
        if not self.started:
            await self._start()
        await self._send({"type": "http.response.body", "body": data, "more_body": True})

    async def _start(self) -> None:
        self.started = True
        await self._send({"type": "http.response.start", "status": 200, "headers": self._headers()})

    def _tick(self) -> None:
        silent = self._loop.time() - self._last
        if not self.started or (silent >= self._ping_seconds and self._whole_frame):
            busy = self._pinging is not None and not self._pinging.done()
            if not busy:
                self._pinging = self._loop.create_task(self._write(self._ping if self._wrote else COMMENT))
            silent = 0.0
        self._timer = self._loop.call_later(max(self._ping_seconds - silent, 0.05), self._tick)


class Departure:
    """Cancels the task of a request when its client has left."""

    def __init__(self, receive: Receive) -> None:
        self.seen = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._watch: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, after: float = 0.0) -> None:
        """Begin to watch, after some seconds: most whole replies are faster than the watch is worth."""
        loop = asyncio.get_running_loop()
        if after:
            self._timer = loop.call_later(after, self.watch)
        else:
            self._watch = loop.create_task(self._wait())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.seen = True
        if self._task is not None:
            self._task.cancel()
