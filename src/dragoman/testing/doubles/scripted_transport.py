"""The in-process transport of the scripted provider."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ProviderError, RequestTimeoutError
from dragoman.adapter.wire import AttemptRecord, Headers, WireRequest, WireResponse
from dragoman.testing.doubles import scripted_wire
from dragoman.testing.doubles.scripted_adapter import EMBEDDINGS_PATH, answer_embeddings
from dragoman.testing.sample_reply import SampleReply
from dragoman.transport.contract import AsyncStreamedReply, StreamedReply

_OK = (AttemptRecord(1, 200, None),)
_JSON = {"content-type": "application/json"}
_LINES = Headers({"content-type": "application/x-ndjson"})


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply of the script; see `scripted_reply`."""

    sample: SampleReply
    expects: str | None = None
    delay: float = 0.0
    chunk_delay: float = 0.0
    error: Exception | None = None


class _Provider(Protocol):
    """The provider whose script is played: a `ScriptedProvider`."""

    def next_reply(self, wire_request: WireRequest, /) -> ScriptedReply | Exception: ...

    def record_embedding(self, wire_request: WireRequest, /) -> None: ...


class _Script:
    """What both transports do with a request. Delays are in seconds."""

    def __init__(self, find_provider: Callable[[str], _Provider]) -> None:
        self._find_provider = find_provider

    def _next_reply(self, adapter: Adapter, request: WireRequest, timeout: float | None) -> ScriptedReply:
        """Return the next reply. Raises the error if the script has one instead."""
        reply = self._find_provider(adapter.provider).next_reply(request)
        if isinstance(reply, Exception):
            raise _complete_error(reply, adapter)
        if timeout is not None and reply.delay > timeout:
            late = RequestTimeoutError(f"no reply in {timeout:g} s: the script waits for {reply.delay:g} s")
            raise _complete_error(late, adapter)
        if not request.stream and reply.error is not None:
            raise _complete_error(reply.error, adapter)
        return reply

    def _answer(self, adapter: Adapter, request: WireRequest, timeout: float | None) -> tuple[float, WireResponse]:
        """Return a whole reply, and its delay."""
        if request.path == EMBEDDINGS_PATH:
            self._find_provider(adapter.provider).record_embedding(request)
            return 0.0, WireResponse(200, answer_embeddings(request), _JSON, _OK)
        reply = self._next_reply(adapter, request, timeout)
        return reply.delay, WireResponse(200, scripted_wire.whole(reply.sample), _JSON, _OK)


def _complete_error(error: Exception, adapter: Adapter) -> Exception:
    if isinstance(error, ProviderError):
        error.provider = error.provider or adapter.provider
        error.attempts = (AttemptRecord(1, error.status, error.error_class),)
    return error


def _delayed_chunks(reply: ScriptedReply, adapter: Adapter, request: WireRequest) -> Iterator[tuple[float, bytes]]:
    """Yield each chunk with its delay. If the reply breaks, its error takes the place of the last one, which ends it.
    A body that asks for a whole reply gets one."""
    if wirejson.loads_object(request.body).get("stream"):
        chunks = list(scripted_wire.chunks(reply.sample))
    else:
        chunks = [scripted_wire.whole(reply.sample)]
    for number, chunk in enumerate(chunks if reply.error is None else chunks[:-1]):
        yield reply.chunk_delay if number else 0.0, chunk
    if reply.error is not None:
        raise _complete_error(reply.error, adapter)


class ScriptedTransport(_Script):
    """Plays the script of the provider with the adapter's name. It never retries."""

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        delay, response = self._answer(adapter, request, timeout)
        time.sleep(delay)
        return response

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        reply = self._next_reply(adapter, request, timeout)

        def chunks() -> Iterator[bytes]:
            for delay, chunk in _delayed_chunks(reply, adapter, request):
                time.sleep(delay)
                yield chunk

        time.sleep(reply.delay)
        yield StreamedReply(200, _LINES, chunks(), _OK)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class AsyncScriptedTransport(_Script):
    """The async twin of `ScriptedTransport`."""

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        delay, response = self._answer(adapter, request, timeout)
        await asyncio.sleep(delay)
        return response

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        reply = self._next_reply(adapter, request, timeout)

        async def chunks() -> AsyncIterator[bytes]:
            for delay, chunk in _delayed_chunks(reply, adapter, request):
                await asyncio.sleep(delay)
                yield chunk

        await asyncio.sleep(reply.delay)
        yield AsyncStreamedReply(200, _LINES, chunks(), _OK)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""
