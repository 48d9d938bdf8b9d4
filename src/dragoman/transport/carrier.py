"""Sending, retrying and streaming over anything that answers with an httpx response: with await and without."""

import contextlib
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Self, TypedDict

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.framing import DEFAULT_BODY_CAP
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.transport.call import AsyncResponse, Body, Call, Prepared, SyncResponse, checked_timeout
from dragoman.transport.contract import AsyncStreamedReply, StreamedReply
from dragoman.transport.inflate import Inflater
from dragoman.transport.lingering import let_end, let_end_async
from dragoman.transport.retry import RetryPolicy, RetryQuota, Timing, Tries


class Settings(TypedDict, total=False):
    """What every transport over HTTP may be told.

    ``timeout``: seconds for a whole call, its retries and waits included; of a stream, until it begins, and from then
    on the longest silence. None leaves time limits to the client below. ``connect_timeout``: seconds for making one
    connection. ``body_cap``: the most bytes, decompressed, of a whole reply.
    """

    timeout: float | None
    connect_timeout: float
    retry: RetryPolicy
    body_cap: int
    timing: Timing


class _Carrying(ABC):
    """What both drivers do alike."""

    def __init__(
        self,
        *,
        timeout: float | None = 600.0,
        connect_timeout: float = 5.0,
        retry: RetryPolicy | None = None,
        body_cap: int = DEFAULT_BODY_CAP,
        timing: Timing | None = None,
    ) -> None:
        self._timeout = math.inf if timeout is None else checked_timeout(timeout)
        self._connect_timeout = checked_timeout(connect_timeout)
        self._retry = retry or RetryPolicy()
        self._body_cap = body_cap
        self._timing = timing or Timing()
        self._quotas: defaultdict[str, RetryQuota] = defaultdict(RetryQuota)

    @abstractmethod
    def _prepare(self, adapter: Adapter, request: WireRequest) -> Prepared:
        """The request as it will be sent. Raises RequestError and ConfigurationError."""

    def _begin(self, adapter: Adapter, request: WireRequest, timeout: float | None) -> Call:
        seconds = self._timeout if timeout is None else checked_timeout(timeout)
        prepared = self._prepare(adapter, request)
        tries = Tries(self._retry, self._quotas[adapter.provider], self._timing, seconds)
        return Call(adapter, prepared, tries, self._connect_timeout, self._body_cap)


class Carrier(_Carrying):
    """The sync driver; a subclass says how one attempt is sent."""

    @abstractmethod
    def _open(self, call: Call) -> AbstractContextManager[SyncResponse]:
        """One attempt: a response whose body is still to come, and which is released at the end of the context."""

    @abstractmethod
    def close(self) -> None:
        """Closes the connections that belong to this transport."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """The whole reply. Raises the last attempt's ProviderError, or RequestError or ConfigurationError at once."""
        call = self._begin(adapter, request, timeout)
        while True:
            try:
                with self._open(call) as response:
                    call.met(response)
                    body = self._read(call, response)
                outcome = call.judge(response.status_code, body)
            except Exception as raised:
                outcome = call.understand(raised)
            if isinstance(outcome, WireResponse):
                return outcome
            self._timing.sleep(call.next_wait(outcome))

    @contextlib.contextmanager
    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> Iterator[StreamedReply]:
        """A reply that has begun: its first bytes are there. Raises as `send` does, and while its chunks are read."""
        call = self._begin(adapter, request, timeout)
        while True:
            with contextlib.ExitStack() as held:
                try:
                    response = held.enter_context(self._open(call))
                    outcome = self._start(call, response)
                except Exception as raised:
                    outcome = call.understand(raised)
                if isinstance(outcome, StreamedReply):
                    yield outcome
                    if call.handed_out:
                        let_end(response, outcome.chunks)
                    return
            self._timing.sleep(call.next_wait(outcome))

    def _start(self, call: Call, response: SyncResponse) -> StreamedReply | DragomanError:
        headers = call.met(response)
        if response.status_code >= 300:
            failed = call.judge(response.status_code, self._read(call, response))
            assert isinstance(failed, DragomanError)
            return failed
        inflater = call.inflater(response)
        rest = _raw(response)
        first = next(rest, b"")
        call.tries.succeeded(response.status_code)
        chunks = _chunks(call, first, rest, inflater)
        return StreamedReply(response.status_code, headers, chunks, call.tries.attempts, call.silence)

    def _read(self, call: Call, response: SyncResponse) -> bytes:
        body = Body(call, response)
        try:
            for raw in _raw(response):
                if not body.take(raw):
                    break
            return body.end()
        except Exception as raised:
            return body.cut(raised)


class AsyncCarrier(_Carrying):
    """The async driver: `Carrier`, with await."""

    @abstractmethod
    def _open(self, call: Call) -> AbstractAsyncContextManager[AsyncResponse]:
        """One attempt: a response whose body is still to come, and which is released at the end of the context."""

    @abstractmethod
    async def close(self) -> None:
        """Closes the connections that belong to this transport."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """The whole reply. Raises the last attempt's ProviderError, or RequestError or ConfigurationError at once."""
        call = self._begin(adapter, request, timeout)
        while True:
            try:
                async with self._open(call) as response:
                    call.met(response)
                    body = await self._read(call, response)
                outcome = call.judge(response.status_code, body)
            except Exception as raised:
                outcome = call.understand(raised)
            if isinstance(outcome, WireResponse):
                return outcome
            await self._timing.sleep_async(call.next_wait(outcome))

    @contextlib.asynccontextmanager
    async def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AsyncIterator[AsyncStreamedReply]:
        """A reply that has begun: its first bytes are there. Raises as `send` does, and while its chunks are read."""
        call = self._begin(adapter, request, timeout)
        while True:
            async with contextlib.AsyncExitStack() as held:
                try:
                    response = await held.enter_async_context(self._open(call))
                    outcome = await self._start(call, response)
                except Exception as raised:
                    outcome = call.understand(raised)
                if isinstance(outcome, AsyncStreamedReply):
                    yield outcome
                    if call.handed_out:
                        await let_end_async(response, outcome.chunks)
                    return
            await self._timing.sleep_async(call.next_wait(outcome))

    async def _start(self, call: Call, response: AsyncResponse) -> AsyncStreamedReply | DragomanError:
        headers = call.met(response)
        if response.status_code >= 300:
            failed = call.judge(response.status_code, await self._read(call, response))
            assert isinstance(failed, DragomanError)
            return failed
        inflater = call.inflater(response)
        rest = _araw(response)
        first = await anext(rest, b"")
        call.tries.succeeded(response.status_code)
        chunks = _achunks(call, first, rest, inflater)
        return AsyncStreamedReply(response.status_code, headers, chunks, call.tries.attempts, call.silence)

    async def _read(self, call: Call, response: AsyncResponse) -> bytes:
        body = Body(call, response)
        try:
            async for raw in _araw(response):
                if not body.take(raw):
                    break
            return body.end()
        except Exception as raised:
            return body.cut(raised)


def _raw(response: SyncResponse) -> Iterator[bytes]:
    """The body as it comes; at once where somebody, such as a hook of the caller's client, has read it already."""
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def _araw(response: AsyncResponse) -> AsyncIterator[bytes]:
    return _at_once(response.content) if response.is_stream_consumed else response.aiter_raw()


async def _at_once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _chunks(call: Call, first: bytes, rest: Iterator[bytes], inflater: Inflater | None) -> Iterator[bytes]:
    """The decompressed chunks. What breaks them off is raised as the error that it is."""
    call.handed_out = True
    error: DragomanError | None = None
    try:
        if inflater is None:
            if first:
                yield first
            yield from rest
        else:
            yield from inflater.feed(first)
            for raw in rest:
                yield from inflater.feed(raw)
            inflater.finish()
    except Exception as raised:
        error = call.broken(call.understand(raised))
    if error is not None:
        raise error


async def _achunks(
    call: Call, first: bytes, rest: AsyncIterator[bytes], inflater: Inflater | None
) -> AsyncIterator[bytes]:
    call.handed_out = True
    error: DragomanError | None = None
    try:
        if inflater is None:
            if first:
                yield first
            async for raw in rest:
                yield raw
        else:
            for piece in inflater.feed(first):
                yield piece
            async for raw in rest:
                for piece in inflater.feed(raw):
                    yield piece
            inflater.finish()
    except Exception as raised:
        error = call.broken(call.understand(raised))
    if error is not None:
        raise error
