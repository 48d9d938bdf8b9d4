"""How requests reach a scripted provider: not at all further than this process."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Protocol

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ProviderError, RequestTimeoutError
from dragoman.adapter.wire import Headers, WireRequest, WireResponse
from dragoman.testing import scripted_wire
from dragoman.transport.contract import AsyncStreamedReply, Attempt, StreamedReply

if TYPE_CHECKING:
    from dragoman.testing.scripted import ScriptedReply

_OK = (Attempt(1, 200, None),)
_JSON = {"content-type": "application/json"}
_LINES = Headers({"content-type": "application/x-ndjson"})


class Stage(Protocol):
    """Who is asked."""

    def next_line(self, request: WireRequest) -> "ScriptedReply | Exception": ...


def _reply(
    stage: Stage, adapter: Adapter, request: WireRequest, timeout: float | None
) -> "tuple[ScriptedReply, float]":
    """The next reply, and the seconds to wait for it. Raises the error that the script has in its place."""
    line = stage.next_line(request)
    if isinstance(line, Exception):
        raise _failed(line, adapter)
    if line.delay > (math.inf if timeout is None else timeout):
        raise _failed(RequestTimeoutError(f"no reply in {timeout:g} s: the script waits for {line.delay:g} s"), adapter)
    if not request.stream and line.breaks is not None:
        raise _failed(line.breaks, adapter)
    return line, line.delay


def _failed(error: Exception, adapter: Adapter) -> Exception:
    if isinstance(error, ProviderError):
        error.provider = error.provider or adapter.provider
        error.attempts = (Attempt(1, error.status, error.error_class),)
    return error


class ScriptedTransport:
    """Plays the script of whoever has the adapter's provider name. Nothing is retried: the script is what happens."""

    def __init__(self, stage: Callable[[str], Stage]) -> None:
        self._stage = stage

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        line, delay = _reply(self._stage(adapter.provider), adapter, request, timeout)
        time.sleep(delay)
        return WireResponse(200, scripted_wire.whole(line.said), _JSON, _OK)

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        line, delay = _reply(self._stage(adapter.provider), adapter, request, timeout)
        time.sleep(delay)
        yield StreamedReply(200, _LINES, self._chunks(line, adapter), _OK)

    def close(self) -> None:
        """Nothing to close."""

    def _chunks(self, line: "ScriptedReply", adapter: Adapter) -> Iterator[bytes]:
        for number, chunk in enumerate(_chunks(line)):
            if number:
                time.sleep(line.pace)
            yield chunk
        if line.breaks is not None:
            raise _failed(line.breaks, adapter)


class AsyncScriptedTransport:
    """The async twin of `ScriptedTransport`."""

    def __init__(self, stage: Callable[[str], Stage]) -> None:
        self._stage = stage

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        line, delay = _reply(self._stage(adapter.provider), adapter, request, timeout)
        await asyncio.sleep(delay)
        return WireResponse(200, scripted_wire.whole(line.said), _JSON, _OK)

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        line, delay = _reply(self._stage(adapter.provider), adapter, request, timeout)
        await asyncio.sleep(delay)
        yield AsyncStreamedReply(200, _LINES, self._chunks(line, adapter), _OK)

    async def close(self) -> None:
        """Nothing to close."""

    async def _chunks(self, line: "ScriptedReply", adapter: Adapter) -> AsyncIterator[bytes]:
        for number, chunk in enumerate(_chunks(line)):
            if number:
                await asyncio.sleep(line.pace)
            yield chunk
        if line.breaks is not None:
            raise _failed(line.breaks, adapter)


def _chunks(line: "ScriptedReply") -> list[bytes]:
    """The chunks; without the last one, which ends the reply, where it breaks."""
    chunks = list(scripted_wire.chunks(line.said))
    return chunks[:-1] if line.breaks is not None else chunks
