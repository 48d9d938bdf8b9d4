"""Submits, polls and fetches batches, sync and async."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain
from typing import Any, Generic, Self, TypeVar

from typing_extensions import TypeForm

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BatchPendingError, ConfigurationError, NetworkError
from dragoman.adapter.losses import Loss
from dragoman.adapter.operations.batch_api import BatchState, BatchStatus
from dragoman.adapter.operations.steps import Steps, drive, drive_async
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies.framing import DEFAULT_BODY_CAP, LineSplitter
from dragoman.adapter.wire import WireRequest
from dragoman.batch.governance import BatchGovernance, Work, carry_out, carry_out_async, release
from dragoman.batch.handle import NOT_SUBMITTED, BatchEntry, BatchHandle
from dragoman.batch.requests import EncodedBatch, Requests, batch_wire, encode_batch, prepare_requests
from dragoman.batch.results import BatchError, BatchPrices, BatchResult, ResultReader, read_output, sort_results
from dragoman.output.answer_type import AnswerType
from dragoman.pricing import PriceTable, price_table
from dragoman.runtime.call_settings import read_call_settings
from dragoman.runtime.providers import merge_providers
from dragoman.transport import AsyncTransport, RetryPolicy, Transport, transport_for
from dragoman.transport.settings import Providers, seal_keys

T = TypeVar("T")
TransportT = TypeVar("TransportT", bound=Transport | AsyncTransport)

StateCallback = Callable[[BatchState], Any]
"""Called with the state of a batch after each poll."""


_DENIED = BatchState(BatchStatus.COMPLETED, succeeded=0)
"""The state of a batch that was not submitted, because each of its requests was denied."""


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
        client: Any = None,
        providers: Providers | None = None,
        **settings: Any,
    ) -> None:
        """``model`` is provider:model. ``options`` apply to all requests without options of their own. ``client`` is a
        `Client` or an `AsyncClient`, whose settings hold here too; the default is that of `set_default_client`. Other
        ``settings`` are those of the model's provider, as in ``providers``: api_key, base_url, retry and so on. A
        ``client`` that is neither is one of them: the HTTP client, or the provider's official one.

        Raises ConfigurationError if no batch API is supported for the model, and UnknownProviderError.
        """
        settings = seal_keys(settings)
        self.adapter = get_adapter(model)
        provider = self.adapter.provider
        config, own = read_call_settings(provider, client, providers, settings)
        self._lifetime = config.lifetime
        self.losses: Mapping[str, tuple[Loss, ...]] = {}
        """The losses of the requests in the batch that was submitted last, by request id."""
        self._entries: tuple[BatchHandle | None, Mapping[str, BatchEntry]] = (None, {})
        """The entries of the handle that was read last, by request id."""
        self._wire = batch_wire(self.adapter)
        self._options = options or config.options or AdapterOptions()
        self._prices = _price_table(prices if prices is not None else config.prices)
        self._now = now
        self._governance = BatchGovernance(config, self.adapter, BatchPrices(self._prices), now)
        if not self._asynchronous and config.policy is not None and (names := config.policy.async_names):
            raise ConfigurationError(f"{', '.join(names)}: coroutines need AsyncBatches")
        settings = merge_providers(config.providers or {}, own).get(provider, {})
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

    def _submission(self, requests: Requests, output: Any, post: Callable[[EncodedBatch], Any]) -> Work[BatchHandle]:
        """Submit what may be sent. ``post`` returns the id of the batch, or an awaitable of it."""
        self._lifetime.check()
        schema = None if output is None else AnswerType[Any](output).schema
        governance, judged = self._governance, prepare_requests(self.adapter, requests, self._options, schema)
        for index, request in enumerate(judged):
            judged[index] = yield from governance.admit(request)
        batch = encode_batch(self.adapter, judged)
        self.losses = batch.losses
        allowed = [request for request in judged if request.denial is None]
        reservations = governance.reserve(allowed)
        batch_id = ""
        try:
            yield from governance.save_prompts(allowed)
            if allowed:
                batch_id = yield from governance.send(partial(post, batch))
        except NetworkError:
            raise  # the batch may exist, so its cost stays reserved
        except BaseException:
            release(reservations)
            raise
        handle = BatchHandle(
            model=str(self.adapter.model_id),
            batch_id=batch_id,
            submitted_at_ms=int(self._now().timestamp() * 1000),
            entries=batch.entries,
        )
        governance.submitted(handle, judged, reservations)
        return handle

    def _receive(self, handle: BatchHandle, custom_id: str, result: BatchResult) -> Work[BatchResult]:
        if self._entries[0] is not handle:
            self._entries = (handle, {entry.custom_id: entry for entry in handle.entries})
        return self._governance.receive(handle, self._entries[1][custom_id], result)

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

    def submit(self, requests: Requests, *, output: Any = None) -> BatchHandle:
        """Submit the requests: prompts by id, or `BatchRequest` objects. A request that the client's policy denies is
        not sent; its result is a BatchError. ``output`` is the type of all answers, for `outputs`.

        Makes one attempt: after a NetworkError the batch may exist or not, which the provider's own list shows. Raises
        InvalidRequestError for an empty batch, one over the provider's limits, or a repeated id, any ProviderError, and
        BudgetExceededError before anything is sent.
        """
        return carry_out(self._submission(requests, output, self._post))

    def _post(self, batch: EncodedBatch) -> str:
        return self._drive(self._wire.submit(batch.lines, batch.headers), self._submit_transport)

    def poll(self, handle: BatchHandle) -> BatchState:
        if (batch_id := self._check_model(handle)) == NOT_SUBMITTED:
            return _DENIED
        return self._drive(self._wire.poll(batch_id), self._transport)

    def cancel(self, handle: BatchHandle) -> BatchState:
        """Cancel the batch. Answers given by then can be fetched, and are billed."""
        if self._check_model(handle) == NOT_SUBMITTED:
            return _DENIED
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
        return sort_results(handle, self.results(handle))

    def results(self, handle: BatchHandle) -> Iterator[tuple[str, BatchResult]]:
        """As `fetch`, but yields each result with its id as it arrives: for batches that are too large for memory."""
        state = self.poll(handle)
        reader = self._open_results(handle, state)
        found = chain(reader.iter_denied(), self._read(handle, state, reader), reader.iter_missing(state))
        for custom_id, result in found:
            yield custom_id, carry_out(self._receive(handle, custom_id, result))

    def outputs(self, handle: BatchHandle, output: TypeForm[T]) -> Iterator[tuple[str, T | BatchError]]:
        """As `results`, with the value of each answer in place of its message. An answer that is not valid is a
        BatchError with an OutputError; submit its request again."""
        form: AnswerType[T] = AnswerType(output)
        for custom_id, result in self.results(handle):
            yield custom_id, read_output(custom_id, result, form)

    def close(self) -> None:
        self._transport.close()
        self._submit_transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _drive(self, steps: Steps[T], transport: Transport) -> T:
        return drive(steps, partial(transport.send, self.adapter))

    def _read(self, handle: BatchHandle, state: BatchState, reader: ResultReader) -> Iterator[tuple[str, BatchResult]]:
        if state.status is BatchStatus.FAILED or handle.batch_id == NOT_SUBMITTED:
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

    async def submit(self, requests: Requests, *, output: Any = None) -> BatchHandle:
        return await carry_out_async(self._submission(requests, output, self._post))

    async def _post(self, batch: EncodedBatch) -> str:
        return await self._drive(self._wire.submit(batch.lines, batch.headers), self._submit_transport)

    async def poll(self, handle: BatchHandle) -> BatchState:
        if (batch_id := self._check_model(handle)) == NOT_SUBMITTED:
            return _DENIED
        return await self._drive(self._wire.poll(batch_id), self._transport)

    async def cancel(self, handle: BatchHandle) -> BatchState:
        if self._check_model(handle) == NOT_SUBMITTED:
            return _DENIED
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
        return sort_results(handle, [each async for each in self.results(handle)])

    async def results(self, handle: BatchHandle) -> AsyncIterator[tuple[str, BatchResult]]:
        state = await self.poll(handle)
        reader = self._open_results(handle, state)
        for custom_id, result in reader.iter_denied():
            yield custom_id, await carry_out_async(self._receive(handle, custom_id, result))
        async for custom_id, result in self._read(handle, state, reader):
            yield custom_id, await carry_out_async(self._receive(handle, custom_id, result))
        for custom_id, result in reader.iter_missing(state):
            yield custom_id, await carry_out_async(self._receive(handle, custom_id, result))

    async def outputs(self, handle: BatchHandle, output: TypeForm[T]) -> AsyncIterator[tuple[str, T | BatchError]]:
        form: AnswerType[T] = AnswerType(output)
        async for custom_id, result in self.results(handle):
            yield custom_id, read_output(custom_id, result, form)

    async def close(self) -> None:
        await self._transport.close()
        await self._submit_transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _drive(self, steps: Steps[T], transport: AsyncTransport) -> T:
        return await drive_async(steps, partial(transport.send, self.adapter))

    async def _read(
        self, handle: BatchHandle, state: BatchState, reader: ResultReader
    ) -> AsyncIterator[tuple[str, BatchResult]]:
        if state.status is BatchStatus.FAILED or handle.batch_id == NOT_SUBMITTED:
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


def _price_table(prices: Any) -> PriceTable:
    if prices is None:
        return price_table()
    if not isinstance(prices, PriceTable):
        raise ConfigurationError("batches need a price table: pass prices=price_table(...), or omit prices")
    return prices


def _line_splitter() -> LineSplitter:
    """Return the splitter of a download, which may have any size, because it is read line by line. A line may not."""
    return LineSplitter(frame_cap=DEFAULT_BODY_CAP, body_cap=sys.maxsize)
