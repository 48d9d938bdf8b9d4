"""Whole replies and streams, as ASGI messages, and their headers."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from starlette.types import Receive, Send

from dragoman import Loss
from dragoman_gateway.settings import GatewaySettings
from dragoman_gateway.wires import Wire

Headers = list[tuple[bytes, bytes]]

REQUEST_ID = b"x-dragoman-request-id"


def named(wire: Wire, request_id: str) -> Headers:
    """Return the headers with the id of a request that no provider has answered."""
    value = request_id.encode()
    return [(wire.request_id_header, value), (REQUEST_ID, value)]


def losses_header(losses: Sequence[Loss]) -> Headers:
    """Return the header with the number of losses and their kinds; nothing if there are none."""
    if not losses:
        return []
    kinds = Counter(loss.kind.value for loss in losses)
    listed = ", ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))
    return [(b"x-dragoman-losses", f"{len(losses)}; {listed}".encode())]


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


def json_response(wire: Wire, request_id: str, body: bytes, more: Headers | None = None) -> Response:
    """Return a reply in JSON that no provider has written."""
    return Response(200, [*named(wire, request_id), *(more or ()), (b"content-type", b"application/json")], body)


class StreamBody:
    """Writes a stream. Its status and headers go out with the first bytes, or after some seconds of waiting for them;
    from then on silence is broken by signs of life. A client that reads nothing for too long is left."""

    def __init__(self, send: Send, headers: Callable[[], Headers], wire: Wire, settings: GatewaySettings) -> None:
        self.started = False
        self._send = send
        self._headers = headers
        self._wire = wire
        self._settings = settings
        self._sending = False
        self._wrote = False
        self.quiet = False
        """Whether nothing follows the write that has begun or comes next: a sign of life behind it would be no part of
        any event."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._last = self._loop.time()
        self._timer = self._loop.call_later(settings.first_event_seconds, self._tick)
        self._pinging: asyncio.Task[None] | None = None
        self.unread = False
        """Whether the client was left because it read nothing."""

    async def write(self, data: bytes) -> None:
        """Send whole events of the stream. It waits if the client reads slowly."""
        self._wrote = True
        await self._write(data)

    async def end(self, last: bytes = b"") -> None:
        """End the stream as a complete one, with its last bytes."""
        await self._write(last, more=False)
        self.stop()

    def stop(self) -> None:
        """Send no more signs of life. A stream that has not begun does not begin any more."""
        self.quiet = True
        self._timer.cancel()
        self._headers = list  # it refers to the answer, and that to this body

    async def _write(self, data: bytes, *, more: bool = True) -> None:
        self._last = self._loop.time()
        if not self.started:
            self.started = True
            self._timer.cancel()
            self._timer = self._loop.call_later(self._settings.ping_seconds, self._tick)
            await self._send({"type": "http.response.start", "status": 200, "headers": self._headers()})
        self._sending = True
        await self._send({"type": "http.response.body", "body": data, "more_body": more})
        self._sending = False

    async def _ping(self) -> None:
        if not self.quiet:
            await self._write(self._wire.ping if self._wrote else self._wire.first_ping)

    def _tick(self) -> None:
        silent = self._loop.time() - self._last
        pause = self._settings.ping_seconds
        if self._sending:
            if silent >= self._settings.reader_seconds and self._task is not None:
                self.unread = True
                self._task.cancel()
                return
        elif not self.quiet and (not self.started or silent >= pause):
            self._pinging = self._loop.create_task(self._ping())
            if not self.started:
                return  # the write begins the reply, and starts the timer again
            silent = 0.0
        wait = self._settings.reader_seconds - silent if self._sending else pause - silent
        self._timer = self._loop.call_later(min(max(wait, 0.01), pause), self._tick)


class WholeFrames:
    """Holds back the part of an event, so that something else may be written between two, or each read."""

    __slots__ = ("_ends", "_most", "_rest")

    def __init__(self, ends: tuple[bytes, ...], most: int | None = None) -> None:
        """``ends`` are the bytes that end an event. If more than ``most`` bytes of one have come, they are passed on
        before its end."""
        self._ends = ends
        self._most = most
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the bytes up to the end of the last whole event."""
        if not self._rest and data.endswith(self._ends):
            return data
        data = self._rest + data
        end = max((place + len(end) for end in self._ends if (place := data.rfind(end)) >= 0), default=0)
        if not end and self._most is not None and len(data) > self._most:
            end = len(data)
        self._rest = data[end:]
        return data[:end]

    def finish(self) -> bytes:
        """Return what is left."""
        rest, self._rest = self._rest, b""
        return rest


_EVENT_END = re.compile(rb"(?<=\n\n)|(?<=\r\n\r\n)")


def split_events(events: bytes) -> list[bytes]:
    """Return whole server-sent events one by one, each with the empty line at its end."""
    return [event for event in _EVENT_END.split(events) if event]


class DisconnectWatcher:
    """Cancels the task of a request when its client has left. As a context, it watches for so long, and then goes on
    behind it as if nothing had been raised."""

    __slots__ = ("_receive", "_task", "_timer", "_watch", "seen")

    def __init__(self, receive: Receive, after: float | None = 0.0) -> None:
        """The watch begins after some seconds, as most whole replies are faster than it is worth; None leaves that to
        `watch`."""
        self.seen = False
        self._receive = receive
        self._task = asyncio.current_task()
        self._watch: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(after, self.watch) if after else None
        if after == 0:
            self.watch()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.stop()
        return kind is asyncio.CancelledError and self.seen

    def watch(self) -> None:
        """Begin to watch now."""
        self._watch = asyncio.get_running_loop().create_task(self._wait())

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None  # its error refers to this watch

    async def _wait(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.seen = True
        if self._task is not None:
            self._task.cancel()
