"""Submits, polls and fetches batches, sync and async."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Generic, Self, TypeVar

from dragoman.adapter.batch_api import BatchState, BatchStatus, Steps
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BatchPendingError, ConfigurationError
from dragoman.adapter.losses import Loss
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies.framing import DEFAULT_BODY_CAP, LineSplitter
from dragoman.adapter.wire import WireRequest
from dragoman.batch.handle import BatchHandle
from dragoman.batch.requests import EncodedBatch, Requests, batch_wire, encode_batch
from dragoman.batch.results import BatchResult, ResultReader
from dragoman.pricing import PriceTable, price_table
from dragoman.transport import AsyncTransport, RetryPolicy, Transport, transport_for

T = TypeVar("T")
TransportT = TypeVar("TransportT", bound=Transport | AsyncTransport)

StateCallback = Callable[[BatchState], Any]
"""Called with the state of a batch after each poll."""


class _Batches(Generic[TransportT]):
    """The shared part of the sync and the async driver."""

    _asynchronous: bool

    def __init__(
        self,
        model: str,
        *,
        options: AdapterOptions | None = None,
        prices: PriceTable | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        **settings: Any,
    ) -> None:
        """``model`` is provider:model. ``options`` apply to all requests without options of their own. ``settings`` go
        to the transport: api_key, base_url, client, retry and so on.

        Raises ConfigurationError if no batch API is supported for the model, and UnknownProviderError.
        """
        self.adapter = get_adapter(model)
        self.losses: Mapping[str, tuple[Loss, ...]] = {}
        """The losses of the requests in the batch that was submitted last, by request id."""
        self._wire = batch_wire(self.adapter)
        self._options = options or AdapterOptions()
        self._prices = prices or price_table()
        self._now = now
        self._transport: TransportT = self._create_transport(**settings)
        # A second attempt could submit the same batch, and pay for it, twice.
        self._submit_transport: TransportT = self._create_transport(**{**settings, "retry": RetryPolicy(max_retries=0)})

    def _create_transport(self, **settings: Any) -> TransportT:
        try:
            created: Any = transport_for(self.adapter, asynchronous=self._asynchronous, **settings)
        except TypeError as error:
            raise ConfigurationError(f"the transport settings are wrong: {error}") from None
        transport: TransportT = created
        return transport

    def _encode(self, requests: Requests) -> EncodedBatch:
        batch = encode_batch(self.adapter, requests, self._options)
        self.losses = batch.losses
        return batch

    def _new_handle(self, batch: EncodedBatch, batch_id: str) -> BatchHandle:
        return BatchHandle(
            model=str(self.adapter.model_id),
            batch_id=batch_id,
            submitted_at_ms=int(self._now().timestamp() * 1000),
            entries=batch.entries,
        )

    def _check_model(self, handle: BatchHandle) -> str:
        if handle.model != str(self.adapter.model_id):
            raise ConfigurationError(f"the batch belongs to {handle.model}, not to {self.adapter.model_id}")
        return handle.batch_id

    def _open_results(self, handle: BatchHandle, state: BatchState) -> ResultReader:
        if not state.status.ended:
            done = sum(each or 0 for each in (state.succeeded, state.failed))
            raise BatchPendingError(
                f"the batch {handle.batch_id} is {state.status}, with {done:,} of {handle.request_count:,} requests"
                " done: wait for it, or poll it until its status has ended"
            )
        return ResultReader(self.adapter, self._wire, handle, self._prices)


class Batches(_Batches[Transport]):
    """The batches of one model. A later process needs the `BatchHandle` only."""

    _asynchronous = False

    def submit(self, requests: Requests) -> BatchHandle:
        """Submit the requests: prompts by id, or `BatchRequest` objects.

        Makes one attempt: after a NetworkError the batch may exist or not, which the provider's own list shows. Raises
        InvalidRequestError for an empty batch, one over the provider's limits, or a repeated id, and any ProviderError.
        """
        batch = self._encode(requests)
        return self._new_handle(
            batch, self._drive(self._wire.submit(batch.lines, batch.headers), self._submit_transport)
        )

    def poll(self, handle: BatchHandle) -> BatchState:
        return self._drive(self._wire.poll(self._check_model(handle)), self._transport)

    def cancel(self, handle: BatchHandle) -> BatchState:
        """Cancel the batch. Answers given by then can be fetched, and are billed."""
        return self._drive(self._wire.cancel(self._check_model(handle)), self._transport)

    def wait(
        self,
        handle: BatchHandle,
        *,
        every: float = 60.0,
        timeout: float | None = None,
        progress: StateCallback | None = None,
    ) -> BatchState:
        """Poll at the given interval in seconds until the batch has ended. Raises BatchPendingError after ``timeout``
        seconds.
        """
        started = time.monotonic()
        while True:
            state = self.poll(handle)
            if progress is not None:
                progress(state)
            if state.status.ended:
                return state
            if timeout is not None and time.monotonic() - started + every > timeout:
                self._open_results(handle, state)
            time.sleep(every)

    def fetch(self, handle: BatchHandle) -> list[BatchResult]:
        """Return a Message or a BatchError for each request, in the order of the requests.

        Raises BatchPendingError before the batch has ended, and StreamTruncatedError if answers are missing.
        """
        state = self.poll(handle)
        reader = self._open_results(handle, state)
        return reader.sort_results([*self._read(handle, state, reader), *reader.iter_missing(state)])

    def results(self, handle: BatchHandle) -> Iterator[tuple[str, BatchResult]]:
        """As `fetch`, but yields each result with its id as it arrives: for batches that are too large for memory."""
        state = self.poll(handle)
        reader = self._open_results(handle, state)
        yield from self._read(handle, state, reader)
        yield from reader.iter_missing(state)

    def close(self) -> None:
        self._transport.close()
        self._submit_transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drive(self, steps: Steps[T], transport: Transport) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(transport.send(self.adapter, request))
        except StopIteration as done:
            value: T = done.value
            return value

    def _read(self, handle: BatchHandle, state: BatchState, reader: ResultReader) -> Iterator[tuple[str, BatchResult]]:
        if state.status is BatchStatus.FAILED:
            return
        for request in self._drive(self._wire.results(handle.batch_id), self._transport):
            splitter = _line_splitter()
            with self._download(request) as reply:
                for chunk in reply.chunks:
                    yield from filter(None, map(reader.read, splitter.feed(chunk)))
            yield from filter(None, (reader.read(splitter.finish()),))

    def _download(self, request: WireRequest) -> AbstractContextManager[Any]:
        return self._transport.stream(self.adapter, replace(request, stream=True))


class AsyncBatches(_Batches[AsyncTransport]):
    """`Batches`, async."""

    _asynchronous = True

    async def submit(self, requests: Requests) -> BatchHandle:
        batch = self._encode(requests)
        return self._new_handle(
            batch, await self._drive(self._wire.submit(batch.lines, batch.headers), self._submit_transport)
        )

    async def poll(self, handle: BatchHandle) -> BatchState:
        return await self._drive(self._wire.poll(self._check_model(handle)), self._transport)

    async def cancel(self, handle: BatchHandle) -> BatchState:
        return await self._drive(self._wire.cancel(self._check_model(handle)), self._transport)

    async def wait(
        self,
        handle: BatchHandle,
        *,
        every: float = 60.0,
        timeout: float | None = None,
        progress: StateCallback | None = None,
    ) -> BatchState:
        started = time.monotonic()
        while True:
            state = await self.poll(handle)
            if progress is not None:
                progress(state)
            if state.status.ended:
                return state
            if timeout is not None and time.monotonic() - started + every > timeout:
                self._open_results(handle, state)
            await asyncio.sleep(every)

    async def fetch(self, handle: BatchHandle) -> list[BatchResult]:
        state = await self.poll(handle)
        reader = self._open_results(handle, state)
        found = [each async for each in self._read(handle, state, reader)]
        return reader.sort_results([*found, *reader.iter_missing(state)])

    async def results(self, handle: BatchHandle) -> AsyncIterator[tuple[str, BatchResult]]:
        state = await self.poll(handle)
        reader = self._open_results(handle, state)
        async for each in self._read(handle, state, reader):
            yield each
        for each in reader.iter_missing(state):
            yield each

    async def close(self) -> None:
        await self._transport.close()
        await self._submit_transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, steps: Steps[T], transport: AsyncTransport) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(await transport.send(self.adapter, request))
        except StopIteration as done:
            value: T = done.value
            return value

    async def _read(
        self, handle: BatchHandle, state: BatchState, reader: ResultReader
    ) -> AsyncIterator[tuple[str, BatchResult]]:
        if state.status is BatchStatus.FAILED:
            return
        for request in await self._drive(self._wire.results(handle.batch_id), self._transport):
            splitter = _line_splitter()
            async with self._download(request) as reply:
                async for chunk in reply.chunks:
                    for result in filter(None, map(reader.read, splitter.feed(chunk))):
                        yield result
            if (last := reader.read(splitter.finish())) is not None:
                yield last

    def _download(self, request: WireRequest) -> AbstractAsyncContextManager[Any]:
        return self._transport.stream(self.adapter, replace(request, stream=True))


def _line_splitter() -> LineSplitter:
    """Return the splitter of a download, which may have any size, because it is read line by line. A line may not."""
    return LineSplitter(frame_cap=DEFAULT_BODY_CAP, body_cap=sys.maxsize)
