"""Replays a cassette without a network: httpx transports that answer from recorded exchanges.

They replace the socket only, so a replay runs the same code as a live call.
"""

import threading
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

from dragoman.adapter.errors import DragomanError
from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest
from dragoman.testing.cassettes.file import load_exchanges
from dragoman.testing.cassettes.labels import Labels
from dragoman.testing.cassettes.matcher import differences, match_key, requests_match

_MAX_DIFFERENCES_SHOWN = 8


class CassetteMissError(DragomanError):
    """The cassette has no exchange left for a request. The message lists the first differences by path."""


@dataclass(slots=True)
class Cassette:
    """Recorded exchanges. Each is replayed once to a matching request, in any order and from any thread.

    Exchanges with the same key are replayed in recorded order. ``server`` is the server that answered. ``labels`` do
    not count in requests; the default are those of known clients."""

    server: str
    exchanges: list[Exchange]
    """The exchanges in recorded order."""
    name: str = "the cassette"
    """The name of the cassette in errors."""
    labels: Labels | None = None
    _played: set[int] = field(default_factory=set, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _meanings: dict[tuple[int, str | None], tuple[RecordedRequest, str]] = field(default_factory=dict, repr=False)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a cassette file. Raises ConfigurationError if it is invalid."""
        path = Path(path)
        server, exchanges = load_exchanges(path.read_text(encoding="utf-8"))
        return cls(server, exchanges, path.name)

    @property
    def unplayed(self) -> int:
        """The number of exchanges that have not been replayed."""
        return len(self.exchanges) - len(self._played)

    @property
    def remaining(self) -> Sequence[Exchange]:
        """The exchanges that have not been replayed."""
        return [exchange for number, exchange in enumerate(self.exchanges) if number not in self._played]

    def play(self, request: RecordedRequest) -> Exchange:
        """Return the first remaining exchange that matches. Raises CassetteMissError."""
        return self.exchanges[self.take(request)]

    def take(self, request: RecordedRequest, *, allow_repeats: bool = False) -> int:
        """Like `play`, but return the number of the exchange, from 0. ``allow_repeats`` allows one that was replayed.

        Raises CassetteMissError.
        """
        request_keys: dict[str | None, str] = {}

        def read_once(each: RecordedRequest, reader: str | None) -> str:
            if each is request:
                return request_keys.get(reader) or request_keys.setdefault(reader, match_key(each, reader, self.labels))
            key = (id(each), reader)  # keep the request with its key, so that no other request gets its id
            if key not in self._meanings:
                self._meanings[key] = (each, match_key(each, reader, self.labels))
            return self._meanings[key][1]

        fitting = [n for n, each in enumerate(self.exchanges) if requests_match(each.request, request, read_once)]
        with self._lock:
            for number in fitting:
                if number not in self._played:
                    self._played.add(number)
                    return number
        if allow_repeats and fitting:
            return fitting[-1]
        raise CassetteMissError(self._explain_miss(request, len(fitting), set() if allow_repeats else self._played))

    def _explain_miss(self, request: RecordedRequest, played: int, used: Set[int]) -> str:
        """Say how a request differs from the nearest exchange that is not used up."""
        if played:
            times = "once" if played == 1 else f"{played} times"
            return f"{self.name}: this request was recorded {times}, but is sent again"
        exchanges = [(n, each.request) for n, each in enumerate(self.exchanges) if n not in used]
        left = [(differences(recorded, request, self.labels), n) for n, recorded in exchanges]
        if not left:
            return f"{self.name} has no exchange left: {request.method} {request.path} is one request too many"
        found, number = min(left, key=lambda pair: (len(pair[0]), pair[1]))
        more = f"\n  and {len(found) - _MAX_DIFFERENCES_SHOWN} more" if len(found) > _MAX_DIFFERENCES_SHOWN else ""
        return (
            f"{self.name}, exchange {number + 1}: the request differs from the recorded one:\n  "
            + "\n  ".join(found[:_MAX_DIFFERENCES_SHOWN])
            + more
        )


class CassetteTransport(httpx.BaseTransport):
    """A transport that answers from the cassette: ``httpx.Client(transport=CassetteTransport(cassette))`` opens no
    socket."""

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        """The cassette that answers."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer from the cassette. Raises CassetteMissError if no unplayed exchange matches."""
        return _to_response(self.cassette.play(_to_recorded_request(request, request.read())))


class AsyncCassetteTransport(httpx.AsyncBaseTransport):
    """The async twin of `CassetteTransport`."""

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        """The cassette that answers."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer from the cassette. Raises CassetteMissError if no unplayed exchange matches."""
        return _to_response(self.cassette.play(_to_recorded_request(request, await request.aread())))


def _to_recorded_request(request: httpx.Request, body: bytes) -> RecordedRequest:
    return RecordedRequest(request.method, request.url.raw_path.decode("ascii"), body, host=request.url.host)


def _to_response(exchange: Exchange) -> httpx.Response:
    recorded = exchange.response
    return httpx.Response(recorded.status, headers=dict(recorded.headers), content=recorded.body)
