"""The in-process transport of the scripted provider."""

import asyncio
import math
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


class ReplySource(Protocol):
    """The provider of the replies."""

    def next_reply(self, request: WireRequest) -> ScriptedReply | Exception: ...

    def record_embedding(self, request: WireRequest) -> None: ...


def _next_reply(
    find_source: ReplySource, adapter: Adapter, request: WireRequest, timeout: float | None
) -> tuple[ScriptedReply, float]:
    """Return the next reply and its delay in seconds. Raises the error if the script has one instead."""
    reply = find_source.next_reply(request)
    if isinstance(reply, Exception):
        raise _complete_error(reply, adapter)
    if reply.delay > (math.inf if timeout is None else timeout):
        raise _complete_error(
            RequestTimeoutError(f"no reply in {timeout:g} s: the script waits for {reply.delay:g} s"), adapter
        )
    if not request.stream and reply.error is not None:
        raise _complete_error(reply.error, adapter)
    return reply, reply.delay


def _embed(source: ReplySource, request: WireRequest) -> WireResponse:
    source.record_embedding(request)
    return WireResponse(200, answer_embeddings(request), _JSON, _OK)


def _complete_error(error: Exception, adapter: Adapter) -> Exception:
    if isinstance(error, ProviderError):
        error.provider = error.provider or adapter.provider
        error.attempts = (AttemptRecord(1, error.status, error.error_class),)
    return error


class ScriptedTransport:
    """Plays the script of the provider with the adapter's name. It never retries."""

    def __init__(self, find_source: Callable[[str], ReplySource]) -> None:
        self._find_source = find_source

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        if request.path == EMBEDDINGS_PATH:
            return _embed(self._find_source(adapter.provider), request)
        reply, delay = _next_reply(self._find_source(adapter.provider), adapter, request, timeout)
        time.sleep(delay)
        return WireResponse(200, scripted_wire.whole(reply.sample), _JSON, _OK)

    @contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        reply, delay = _next_reply(self._find_source(adapter.provider), adapter, request, timeout)
        time.sleep(delay)
        yield StreamedReply(200, _LINES, self._reply_chunks(reply, adapter, request), _OK)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def _reply_chunks(self, reply: ScriptedReply, adapter: Adapter, request: WireRequest) -> Iterator[bytes]:
        for number, chunk in enumerate(_reply_chunks(reply, request)):
            if number:
                time.sleep(reply.chunk_delay)
            yield chunk
        if reply.error is not None:
            raise _complete_error(reply.error, adapter)


class AsyncScriptedTransport:
    """The async twin of `ScriptedTransport`."""

    def __init__(self, find_source: Callable[[str], ReplySource]) -> None:
        self._find_source = find_source

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        if request.path == EMBEDDINGS_PATH:
            return _embed(self._find_source(adapter.provider), request)
        reply, delay = _next_reply(self._find_source(adapter.provider), adapter, request, timeout)
        await asyncio.sleep(delay)
        return WireResponse(200, scripted_wire.whole(reply.sample), _JSON, _OK)

    @asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        reply, delay = _next_reply(self._find_source(adapter.provider), adapter, request, timeout)
        await asyncio.sleep(delay)
        yield AsyncStreamedReply(200, _LINES, self._reply_chunks(reply, adapter, request), _OK)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""

    async def _reply_chunks(self, reply: ScriptedReply, adapter: Adapter, request: WireRequest) -> AsyncIterator[bytes]:
        for number, chunk in enumerate(_reply_chunks(reply, request)):
            if number:
                await asyncio.sleep(reply.chunk_delay)
            yield chunk
        if reply.error is not None:
            raise _complete_error(reply.error, adapter)


def _reply_chunks(reply: ScriptedReply, request: WireRequest) -> list[bytes]:
    """Return the chunks. If the reply breaks, the last one, which ends it, is missing. A body that asks for a whole
    reply gets one."""
    if not wirejson.loads_object(request.body).get("stream"):
        return [scripted_wire.whole(reply.sample)]
    chunks = list(scripted_wire.chunks(reply.sample))
    return chunks[:-1] if reply.error is not None else chunks
