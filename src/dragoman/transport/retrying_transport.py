"""Sends, retries and streams over anything that returns an httpx-like response: sync and async."""

import contextlib
import math
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Self

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import DEFAULT_BODY_CAP, WireRequest, WireResponse
from dragoman.transport.call import (
    AsyncResponse,
    BodyReader,
    Call,
    PreparedRequest,
    SyncResponse,
    remember_headers,
    validate_timeout,
)
from dragoman.transport.retry import RetryPolicy, RetryQuota, RetryState, Timing
from dragoman.transport.settings import check_transport_settings

if TYPE_CHECKING:
    from dragoman.transport.contract import AsyncStreamedReply, StreamedReply
    from dragoman.transport.exchanges import ExchangeHook
    from dragoman.transport.inflate import Inflater

TASK_HEADERS: ContextVar[Mapping[str, str]] = ContextVar("task_headers", default=MappingProxyType({}))
"""Headers that are added to each request over HTTP that the present task, or one that it starts, sends to any provider.
They win over headers of the same name."""


_GRACE_SECONDS = 0.2


class TransportBase(ABC):
    """The shared part of the sync and the async transport."""

    def __init__(
        self,
        *,
        timeout: float | None = 600.0,
        connect_timeout: float = 5.0,
        retry: RetryPolicy | None = None,
        body_cap: int = DEFAULT_BODY_CAP,
        timing: Timing | None = None,
        on_exchange: "ExchangeHook | None" = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        check_transport_settings(locals())
        self._timeout = math.inf if timeout is None else timeout
        self._connect_timeout = connect_timeout
        self._retry = retry or RetryPolicy()
        self._body_cap = body_cap
        self._timing = timing or Timing()
        self._on_exchange = on_exchange
        self._headers = None if headers is None else remember_headers(headers)
        self._quotas: defaultdict[str, RetryQuota] = defaultdict(RetryQuota)

    @abstractmethod
    def _prepare(self, adapter: Adapter, request: WireRequest) -> PreparedRequest:
        """Validate the request. Raises RequestError and ConfigurationError."""

    def new_retries(self, adapter: Adapter, timeout: float | None = None) -> RetryState:
        """Return the attempts of one request, for a caller that decides on each retry itself: see `Transport`.

        ``timeout`` is as for `send`.
        """
        seconds = self._timeout if timeout is None else validate_timeout(timeout)
        return RetryState(self._retry, self._quotas[adapter.provider], self._timing, seconds)

    def _new_call(
        self, adapter: Adapter, request: WireRequest, timeout: float | None, retries: RetryState | None
    ) -> Call:
        added = TASK_HEADERS.get()
        if added or self._headers:
            request = replace(request, headers={**(self._headers or {}), **request.headers, **added})
        prepared = self._prepare(adapter, request)
        state = retries or self.new_retries(adapter, timeout)
        call = Call(adapter, prepared, state, self._connect_timeout, self._body_cap, one_attempt=retries is not None)
        call.any_type = request.any_type
        if self._on_exchange is not None:
            from dragoman.transport.exchanges import ExchangeRecorder  # imported late: for debugging alone

            call.recorder = ExchangeRecorder(self._on_exchange, adapter, prepared, self._timing.clock)
        return call


class RetryingTransport(TransportBase):
    """The sync transport; a subclass implements one attempt."""

    @abstractmethod
    def _open(self, call: Call) -> AbstractContextManager[SyncResponse]:
        """Make one attempt: a response before its body, which is released at the end of the context."""

    def close(self) -> None:
        """Do nothing: the connections belong to the process, or to the caller's client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(
        self,
        adapter: Adapter,
        request: WireRequest,
        *,
        timeout: float | None = None,
        retries: RetryState | None = None,
    ) -> WireResponse:
        """Return the whole reply. Raises the last attempt's ProviderError, or RequestError or ConfigurationError
        without an attempt. With ``retries`` there is one attempt, and ``retries.next_wait`` says when the next one may
        start.
        """
        call = self._new_call(adapter, request, timeout, retries)
        while True:
            try:
                if call.prepared.access is not None:
                    call.prepared.access.authorize(call)
                if call.recorder is not None:
                    call.recorder.begin(len(call.retry_state.attempts) + 1)
                with self._open(call) as response:
                    call.set_headers(response)
                    body = self._read_body(call, response)
                outcome = call.classify(response.status_code, body)
            except Exception as raised:
                outcome = call.to_error(raised)
            if isinstance(outcome, WireResponse):
                return outcome
            if (wait := call.next_wait(outcome)) is not None:
                self._timing.sleep(wait)

    @contextlib.contextmanager
    def stream(
        self,
        adapter: Adapter,
        request: WireRequest,
        *,
        timeout: float | None = None,
        retries: RetryState | None = None,
    ) -> "Iterator[StreamedReply]":
        """A reply whose first bytes have arrived. Raises as `send` does, and while its chunks are read."""
        call = self._new_call(adapter, request, timeout, retries)
        while True:
            with contextlib.ExitStack() as stack:
                try:
                    if call.prepared.access is not None:
                        call.prepared.access.authorize(call)
                    if call.recorder is not None:
                        call.recorder.begin(len(call.retry_state.attempts) + 1)
                    response = stack.enter_context(self._open(call))
                    outcome = self._start_stream(call, response)
                except Exception as raised:
                    outcome = call.to_error(raised)
                if not isinstance(outcome, DragomanError):
                    try:
                        yield outcome
                        if call.delivered:
                            from dragoman.transport.drain import drain  # imported late: many programs do not stream

                            drain(response, outcome.chunks)
                    finally:
                        if call.recorder is not None:
                            call.recorder.end()
                    return
            if (wait := call.next_wait(outcome)) is not None:
                self._timing.sleep(wait)

    def _start_stream(self, call: Call, response: SyncResponse) -> "StreamedReply | DragomanError":
        from dragoman.transport.contract import StreamedReply  # imported late: many programs do not stream

        headers = call.set_headers(response)
        if response.status_code >= 300 or call.is_page:
            error = call.classify(response.status_code, self._read_body(call, response))
            assert isinstance(error, DragomanError)
            return error
        inflater = call.new_inflater(response)
        rest = _raw_chunks(response)
        first = next(rest, b"")
        call.retry_state.record_success(response.status_code)
        chunks = _decoded_chunks(call, first, rest, inflater)
        if call.recorder is not None:
            chunks = call.recorder.tee(chunks)
        return StreamedReply(response.status_code, headers, chunks, call.retry_state.attempts, call.idle_timeout)

    def _read_body(self, call: Call, response: SyncResponse) -> bytes:
        body = BodyReader(call, response)
        try:
            for raw in _raw_chunks(response):
                if not body.feed(raw):
                    break
            return body.finish()
        except Exception as raised:
            return body.on_error(raised)


class AsyncRetryingTransport(TransportBase):
    """The async `RetryingTransport`."""

    @abstractmethod
    def _open(self, call: Call) -> AbstractAsyncContextManager[AsyncResponse]:
        """Make one attempt: a response before its body, which is released at the end of the context."""

    async def close(self) -> None:
        """Do nothing: the connections belong to the event loop, or to the caller's client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def send(
        self,
        adapter: Adapter,
        request: WireRequest,
        *,
        timeout: float | None = None,
        retries: RetryState | None = None,
    ) -> WireResponse:
        """The async twin of `RetryingTransport.send`."""
        call = self._new_call(adapter, request, timeout, retries)
        while True:
            try:
                async with _deadline(call):
                    if call.prepared.access is not None:
                        await call.prepared.access.authorize_async(call)
                    if call.recorder is not None:
                        call.recorder.begin(len(call.retry_state.attempts) + 1)
                    async with self._open(call) as response:
                        call.set_headers(response)
                        body = await self._read_body(call, response)
                outcome = call.classify(response.status_code, body)
            except Exception as raised:
                outcome = call.to_error(raised)
            if isinstance(outcome, WireResponse):
                return outcome
            if (wait := call.next_wait(outcome)) is not None:
                await self._timing.sleep_async(wait)

    @contextlib.asynccontextmanager
    async def stream(
        self,
        adapter: Adapter,
        request: WireRequest,
        *,
        timeout: float | None = None,
        retries: RetryState | None = None,
    ) -> "AsyncIterator[AsyncStreamedReply]":
        """The async twin of `RetryingTransport.stream`."""
        call = self._new_call(adapter, request, timeout, retries)
        del request
        while True:
            async with _LateContext() as attempt:
                try:
                    async with _deadline(call):
                        if call.prepared.access is not None:
                            await call.prepared.access.authorize_async(call)
                        if call.recorder is not None:
                            call.recorder.begin(len(call.retry_state.attempts) + 1)
                        response = await attempt.enter(self._open(call))
                        outcome = await self._start_stream(call, response)
                except Exception as raised:
                    outcome = call.to_error(raised)
                if not isinstance(outcome, DragomanError):
                    # The stream may be long, and nothing is sent again.
                    call.prepared = replace(call.prepared, body=b"")
                    try:
                        yield outcome
                        if call.delivered:
                            from dragoman.transport.drain import drain_async  # as above

                            await drain_async(response, outcome.chunks)
                    finally:
                        if call.recorder is not None:
                            call.recorder.end()
                    return
            if (wait := call.next_wait(outcome)) is not None:
                await self._timing.sleep_async(wait)

    async def _start_stream(self, call: Call, response: AsyncResponse) -> "AsyncStreamedReply | DragomanError":
        from dragoman.transport.contract import AsyncStreamedReply  # as above

        headers = call.set_headers(response)
        if response.status_code >= 300 or call.is_page:
            error = call.classify(response.status_code, await self._read_body(call, response))
            assert isinstance(error, DragomanError)
            return error
        inflater = call.new_inflater(response)
        rest = _araw_chunks(response)
        first = await anext(rest, b"")
        call.retry_state.record_success(response.status_code)
        chunks = _adecoded_chunks(call, first, rest, inflater)
        if call.recorder is not None:
            chunks = call.recorder.tee_async(chunks)
        return AsyncStreamedReply(response.status_code, headers, chunks, call.retry_state.attempts, call.idle_timeout)

    async def _read_body(self, call: Call, response: AsyncResponse) -> bytes:
        body = BodyReader(call, response)
        try:
            async for raw in _araw_chunks(response):
                if not body.feed(raw):
                    break
            return body.finish()
        except Exception as raised:
            return body.on_error(raised)


class _LateContext:
    """Leaves a context that was entered inside. `contextlib.AsyncExitStack` takes a kilobyte for each open stream."""

    __slots__ = ("_entered",)

    def __init__(self) -> None:
        self._entered: AbstractAsyncContextManager[AsyncResponse] | None = None

    async def enter(self, context: AbstractAsyncContextManager[AsyncResponse]) -> AsyncResponse:
        response = await context.__aenter__()
        self._entered = context
        return response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None if self._entered is None else await self._entered.__aexit__(kind, error, trace)


def _deadline(call: Call) -> AbstractAsyncContextManager[object]:
    """Cancel what runs inside when the call's time is over; the network's own limits, which say what was late, are
    earlier."""
    import asyncio

    left = call.retry_state.remaining
    return asyncio.timeout(None if left == math.inf else max(left, 0.0) + _GRACE_SECONDS)


def _raw_chunks(response: SyncResponse) -> Iterator[bytes]:
    """Return the body as it arrives, or at once if it was read already, for example by a hook of the caller's
    client."""
    return iter((response.content,)) if response.is_stream_consumed else response.iter_raw()


def _araw_chunks(response: AsyncResponse) -> AsyncIterator[bytes]:
    return _single_chunk(response.content) if response.is_stream_consumed else response.aiter_raw()


async def _single_chunk(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _decoded_chunks(call: Call, first: bytes, rest: Iterator[bytes], inflater: "Inflater | None") -> Iterator[bytes]:
    """Yield the decompressed chunks. A broken read is raised as its error."""
    call.delivered = True
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
        error = call.on_stream_error(call.to_error(raised))
    if error is not None:
        raise error


async def _adecoded_chunks(
    call: Call, first: bytes, rest: AsyncIterator[bytes], inflater: "Inflater | None"
) -> AsyncIterator[bytes]:
    call.delivered = True
    error: DragomanError | None = None
    try:
        if inflater is None:
            if first:
                yield first
            first = b""  # a long stream does not hold it
            async for raw in rest:
                yield raw
                del raw
        else:
            for piece in inflater.feed(first):
                yield piece
            first = b""
            async for raw in rest:
                for piece in inflater.feed(raw):
                    yield piece
            inflater.finish()
    except Exception as raised:
        error = call.on_stream_error(call.to_error(raised))
    if error is not None:
        raise error
