"""Replaying a cassette without a network: httpx transports that answer from recorded exchanges.

They sit below our own HTTP transport, so a replay takes the same way as a live call, up to the socket.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from dragoman.adapter import wirejson
from dragoman.adapter.errors import DragomanError, MalformedReplyError
from dragoman.testing.cassette_file import Exchange, RecordedRequest, read


class CassetteMissError(DragomanError):
    """A request that the cassette does not hold next, with the first differences by path."""


@dataclass(slots=True)
class Cassette:
    """Recorded exchanges, played in order. ``server`` is who really answered."""

    server: str
    exchanges: list[Exchange]
    name: str = "the cassette"
    _next: int = field(default=0)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Reads a cassette file. Raises ConfigurationError where it is none."""
        path = Path(path)
        server, exchanges = read(path.read_text(encoding="utf-8"))
        return cls(server, exchanges, path.name)

    @property
    def unplayed(self) -> int:
        """How many exchanges nobody has asked for yet."""
        return len(self.exchanges) - self._next

    def play(self, request: RecordedRequest) -> Exchange:
        """The next exchange, if it is the one that was asked for. Raises CassetteMissError."""
        if not self.unplayed:
            raise CassetteMissError(
                f"{self.name} is played to its end: {request.method} {request.path} is one too many"
            )
        exchange = self.exchanges[self._next]
        if found := differences(exchange.request, request):
            raise CassetteMissError(
                f"{self.name}, exchange {self._next + 1}: the request is another one than was recorded:\n  "
                + "\n  ".join(found[:8])
            )
        self._next += 1
        return exchange


class CassetteTransport(httpx.BaseTransport):
    """``httpx.Client(transport=CassetteTransport(cassette))`` answers from the cassette and opens no socket."""

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return _response(self.cassette.play(_recorded(request, request.read())))


class AsyncCassetteTransport(httpx.AsyncBaseTransport):
    """The async twin of `CassetteTransport`."""

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return _response(self.cassette.play(_recorded(request, await request.aread())))


def differences(recorded: RecordedRequest, asked: RecordedRequest) -> list[str]:
    """What tells two requests apart, as ``path: recorded -> asked``. Order of keys does not count."""
    found = []
    if (recorded.method, recorded.path) != (asked.method, asked.path):
        found.append(f"{recorded.method} {recorded.path} -> {asked.method} {asked.path}")
    return found + _differences(_parsed(recorded.body), _parsed(asked.body), "$")


def _differences(recorded: Any, asked: Any, path: str) -> list[str]:
    if isinstance(recorded, dict) and isinstance(asked, dict):
        keys = [*recorded, *(key for key in asked if key not in recorded)]
        return [
            line for key in keys for line in _differences(recorded.get(key, ...), asked.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(asked, list) and len(recorded) == len(asked):
        pairs = enumerate(zip(recorded, asked, strict=True))
        return [line for index, (a, b) in pairs for line in _differences(a, b, f"{path}[{index}]")]
    return [] if recorded == asked else [f"{path}: {_short(recorded)} -> {_short(asked)}"]


def _short(value: Any) -> str:
    text = "absent" if value is ... else repr(value)
    return text if len(text) <= 120 else text[:120] + "…"


def _parsed(body: bytes) -> Any:
    try:
        return wirejson.loads(body)
    except MalformedReplyError:
        return body


def _recorded(request: httpx.Request, body: bytes) -> RecordedRequest:
    return RecordedRequest(request.method, request.url.raw_path.decode("ascii"), body)


def _response(exchange: Exchange) -> httpx.Response:
    recorded = exchange.response
    return httpx.Response(recorded.status, headers=dict(recorded.headers), content=recorded.body)
