"""Submits, polls and fetches batches, sync and async."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from typing_extensions import TypeForm

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import (
    BatchPendingError,
    ConfigurationError,
    DragomanError,
    MalformedReplyError,
    NetworkError,
    ProviderError,
)
from dragoman.adapter.losses import Loss
from dragoman.adapter.operations.batch_api import BatchApi, BatchState, BatchStatus
from dragoman.adapter.operations.operation import Operation
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies.framing import NdjsonDecoder
from dragoman.adapter.wire import DEFAULT_BODY_CAP, WireResponse
from dragoman.attempt.governance import FREE, Governance, read_call_settings
from dragoman.batch.handle import NOT_SUBMITTED, BatchDenial, BatchEntry, BatchHandle
from dragoman.batch.requests import PreparedRequest, Requests, encode_batch, prepare_requests
from dragoman.batch.results import (
    BatchError,
    BatchPrices,
    BatchResult,
    ResultReader,
    read_output,
    report_failure,
    report_request,
    report_result,
    sort_results,
    to_outcome,
)
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.ids import new_session_id, new_ulid
from dragoman.canonical.message import Message, Role
from dragoman.configuration.transports import Transports
from dragoman.effects import (
    Broken,
    Failed,
    Observe,
    Perform,
    Replied,
    ResponseDetails,
    SendOutcome,
    Work,
    drive,
    drive_async,
    in_thread,
    intercept,
    iterate,
    iterate_async,
    next_of,
    perform_all,
    within,
)
from dragoman.limits.bounds import max_usage
from dragoman.limits.reservation import Reservation
from dragoman.output.answer_type import AnswerType
from dragoman.policy.errors import PolicyDeniedError
from dragoman.pricing import PriceTable, price_table
from dragoman.session.identity import Pseudonyms, resolve_identity
from dragoman.session.judge import Judge
from dragoman.transport import AsyncTransport, Transport
from dragoman.transport.settings import Providers, seal_keys

if TYPE_CHECKING:
    from dragoman.policy import Pipeline

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
        user_id: str | None = None,
        team_id: str | None = None,
        pseudonyms: Pseudonyms | None = None,
        client: Any = None,
        providers: Providers | None = None,
        **settings: Any,
    ) -> None:
        """``model`` is provider:model. ``options`` apply to all requests without options of their own. ``user_id`` and
        ``team_id`` say whose budgets pay and are stored; they and ``pseudonyms`` are as for a `Session`. ``client`` is
        a `Client` or an `AsyncClient`, whose settings hold here too; the default is that of `set_default_client`. Other
        ``settings`` are those of the model's provider, as in ``providers``: api_key, base_url, retry and so on. A
        ``client`` that is neither is one of them: the HTTP client, or the provider's official one.

        Raises ConfigurationError if no batch API is supported for the model, and UnknownProviderError.
        """
        settings = seal_keys(settings)
        self.adapter = get_adapter(model)
        """The adapter of the model."""
        config, own = read_call_settings(self.adapter.provider, client, providers, settings)
        self.losses: Mapping[str, tuple[Loss, ...]] = {}
        """The losses of the requests in the batch that was submitted last, by request id."""
        if self.adapter.batch_api is None:
            raise ConfigurationError(f"{self.adapter.model_id} has no batch API: send the requests one by one")
        self._wire: BatchApi = self.adapter.batch_api
        self._options = options or config.options or AdapterOptions()
        table = prices if prices is not None else config.prices
        if table is not None and not isinstance(table, PriceTable):
            raise ConfigurationError("batches need a price table: pass prices=price_table(...), or omit prices")
        self._prices = BatchPrices(price_table() if table is None else table)
        identity = resolve_identity(user_id, team_id, pseudonyms)
        transports: Transports[TransportT] = config.new_transports(own, asynchronous=self._asynchronous)
        self._governance = Governance(config, self.adapter, transports, identity=identity, prices=self._prices, now=now)
        self._governance.new_budgets()
        if not self._asynchronous:
            self._governance.check_coroutines("AsyncBatches")
        self._judge = Judge(config, self.adapter)
        self._reservations: dict[tuple[str, str], Reservation] = {}
        """Those of requests that were submitted and not fetched yet, by batch and request."""
        self._reported: set[tuple[str, str]] = set()
        """The results that were reported."""
        self._transport: TransportT = transports.get(self.adapter)

    def _submit(self, requests: Requests, output: Any) -> Work[BatchHandle]:
        """Submit what may be sent."""
        governance = self._governance
        governance.client.lifetime.check()
        schema = None if output is None else AnswerType[Any](output).schema
        judged = prepare_requests(self._wire, requests, self._options, schema)
        for index, request in enumerate(judged):
            judged[index] = yield from self._admit(request)
        entries, lines, headers, self.losses = encode_batch(self.adapter, self._wire, judged)
        allowed = [request for request in judged if request.denial is None]
        for request in judged:
            report_request(governance.reports, self.adapter, request)
        reservations: dict[str, Reservation] = {}
        batch_id = NOT_SUBMITTED
        try:
            for request in allowed:
                measure = partial(max_usage, self.adapter, request.messages, request.tools, request.options)
                reservations[request.custom_id] = governance.new_budgets().reserve(measure)
            for request in allowed if governance.client.store is not None else ():  # each is a session of its own
                labels = frozenset(request.labels)
                messages = [governance.identify(with_message_labels(each, labels)) for each in request.messages]
                yield in_thread(self._create_session, request.session_id, messages)
            if allowed:
                batch_id = yield from self._post(self._wire.submit(lines, headers), reservations)
        except BaseException as error:
            for each in reservations.values():
                each.release()
            for request in allowed:
                report_failure(governance.reports, request, error)
            raise
        self._reservations.update(((batch_id, name), each) for name, each in reservations.items())
        return BatchHandle(
            model=governance.model,
            batch_id=batch_id,
            submitted_at_ms=int(governance.now().timestamp() * 1000),
            entries=entries,
            plugins=_plugins(governance.client.policy),
        )

    def _admit(self, request: PreparedRequest) -> Work[PreparedRequest]:
        """Return the request as it may be sent, or with the reason why it may not."""
        client = self._governance.client
        if client.events is not None:
            request = replace(request, turn_id=f"turn_{new_ulid()}")
        if client.store is not None:  # saved as a session of its own
            session_id = new_session_id()
            messages = tuple(each.model_copy(update={"session_id": session_id}) for each in request.messages)
            request = replace(request, session_id=session_id, messages=messages)
        try:
            return (yield from self._judge.prompt(request))
        except PolicyDeniedError as error:
            return replace(request, denial=BatchDenial.of(error))

    def _post(self, operation: Operation[str], reservations: dict[str, Reservation]) -> Work[str]:
        """Return the id of the batch. The submission is one attempt, because another one could submit the same batch,
        and pay for it, twice. While the batch may exist, ``reservations`` is emptied: what they hold stays reserved.
        """
        governance, batch_id = self._governance, ""
        response = ResponseDetails(200)

        def exchange(observers: tuple[Observe, ...], _: object) -> Work[SendOutcome]:
            nonlocal batch_id

            def send(request: Any) -> Work[WireResponse]:
                nonlocal response
                received: WireResponse = yield governance.send(request, governance.new_retries(once=True))
                response = ResponseDetails(received.status, received.headers)
                for observe in observers:
                    yield observe(received.headers)
                return received

            work: Any = operation
            try:
                batch_id = yield from intercept(work, send)
            except MalformedReplyError as error:
                reservations.clear()
                return Broken(error, None, False, response)
            except DragomanError as error:
                if isinstance(error, NetworkError) and error.sent is not False:
                    reservations.clear()
                return Failed(error)
            except BaseException:
                reservations.clear()
                raise
            return Replied(FREE, response)

        outcome: SendOutcome = yield from governance.attempt(exchange)
        if isinstance(outcome, (Failed, Broken)):
            raise outcome.error
        return batch_id

    def _receive(self, handle: BatchHandle, entry: BatchEntry, result: BatchResult) -> Work[BatchResult]:
        """Return a result as the caller may receive it, and settle, save and report it."""
        key, governance = (handle.batch_id, entry.custom_id), self._governance
        if entry.denial is None:
            try:
                if isinstance(result, Message):
                    result = yield from self._judge.reply(entry.session_id, entry.labels, result)
                elif isinstance(result.error, ProviderError):
                    error = yield from self._judge.error(entry.session_id, entry.labels, result.error)
                    result = replace(result, error=error)
            except PolicyDeniedError as denial:
                result = BatchError(entry.custom_id, denial, result.usage)
        if isinstance(result, Message):
            labels = frozenset(entry.labels) | (result.metadata.labels or frozenset())
            result = governance.identify(with_message_labels(result, labels))
        if (reservation := self._reservations.pop(key, None)) is not None:
            reservation.settle(to_outcome(result))
        is_new = entry.denial is None and key not in self._reported
        if governance.client.store is not None and isinstance(result, Message):
            is_new &= yield in_thread(self._save_answer, entry.session_id, result)
        if is_new:
            self._reported.add(key)
            seconds = max((governance.now() - handle.submitted_at).total_seconds(), 0.0)
            report_result(governance.reports, entry, result, seconds)
        return result

    def _create_session(self, session_id: str, messages: Sequence[Message]) -> None:
        """Save messages as a new session in the client's store."""
        store, (user_id, team_id) = self._governance.client.store, self._governance.identity
        assert store is not None
        store.create(self._governance.model, messages, session_id=session_id, user_id=user_id, team_id=team_id)

    def _save_answer(self, session_id: str, answer: Message) -> bool:
        """Add the answer to its session. Return whether no earlier fetch did."""
        from dragoman.store.errors import SessionNotFoundError

        store = self._governance.client.store
        assert store is not None
        try:
            stored = store.load(session_id)
        except SessionNotFoundError:  # submitted by a client without this store
            self._create_session(session_id, (answer,))
            return True
        if stored.messages and stored.messages[-1].role is Role.ASSISTANT:
            return False
        store.append(session_id, (answer,), expected_version=stored.version)
        return True

    def _state(self, handle: BatchHandle, ask: Callable[[str], Operation[BatchState]]) -> Work[BatchState]:
        """Ask for the state of a batch, by its id. Raises ConfigurationError for one of another model or policy."""
        if handle.model != str(self.adapter.model_id):
            raise ConfigurationError(f"the batch belongs to {handle.model}, not to {self.adapter.model_id}")
        if missing := {*handle.plugins} - {*_plugins(self._governance.client.policy)}:
            raise ConfigurationError(
                f"the batch was sent under a policy with the plugins {', '.join(sorted(missing)):.200}, which this"
                " client does not have: fetch it with a client that has the same policy"
            )
        if handle.batch_id == NOT_SUBMITTED:  # each of its requests was denied
            return BatchState(BatchStatus.COMPLETED, succeeded=0)
        state: BatchState = yield self._request(ask(handle.batch_id))
        return state

    def _wait(
        self, handle: BatchHandle, every: float, timeout: float | None, progress: StateCallback | None
    ) -> Work[BatchState]:
        started = time.monotonic()
        while True:
            state = yield from self._state(handle, self._wire.poll)
            if progress is not None:
                progress(state)
            if state.status.ended:
                return state
            if timeout is not None and time.monotonic() - started + every > timeout:
                self._open_results(handle, state)
            yield Perform(partial(time.sleep, every), partial(asyncio.sleep, every))

    def _results(
        self, handle: BatchHandle, convert: Callable[[str, BatchResult], Any] | None = None
    ) -> Generator[Any, Any, None]:
        """Yield each result with its id, as ``convert`` returns it, and the effects that it takes."""
        state = yield from self._state(handle, self._wire.poll)
        reader = self._open_results(handle, state)
        entries = {entry.custom_id: entry for entry in handle.entries}

        def release(found: Iterable[tuple[str, BatchResult] | None]) -> Generator[Any, Any, None]:
            for custom_id, result in filter(None, found):
                received = yield from self._receive(handle, entries[custom_id], result)
                yield custom_id, received if convert is None else convert(custom_id, received)

        def read(reply: Any) -> Generator[Any, Any, None]:
            # A download is read line by line, so that it may have any size. A line may not.
            lines, following = NdjsonDecoder(frame_cap=DEFAULT_BODY_CAP, body_cap=sys.maxsize), next_of(reply.chunks)
            while (chunk := (yield following)) is not None:
                yield from release(reader.read(frame.data) for frame in lines.feed(chunk))
            yield from release(reader.read(frame.data) for frame in lines.finish())

        yield from release(reader.iter_denied())
        if state.status is not BatchStatus.FAILED and handle.batch_id != NOT_SUBMITTED:
            timeout = self._governance.transports.timeout(self.adapter)
            for request in (yield self._request(self._wire.results(handle.batch_id))):
                yield from within(
                    self._transport.stream(self.adapter, replace(request, stream=True), timeout=timeout), read
                )
        yield from release(reader.iter_missing(state))

    def _outputs(self, handle: BatchHandle, output: Any) -> Generator[Any, Any, None]:
        form: AnswerType[Any] = AnswerType(output)
        yield from self._results(handle, lambda custom_id, result: read_output(custom_id, result, form))

    def _request(self, operation: Operation[Any]) -> Perform:
        """Return the effect that sends the requests of an operation. Its outcome is the operation's result."""
        timeout = self._governance.transports.timeout(self.adapter)
        return perform_all(operation, partial(self._transport.send, self.adapter, timeout=timeout))

    def _open_results(self, handle: BatchHandle, state: BatchState) -> ResultReader:
        if not state.status.ended:
            done = sum(each or 0 for each in (state.succeeded, state.failed))
            raise BatchPendingError(
                f"the batch {handle.batch_id} is {state.status}, with {done:,} of {handle.request_count:,} requests"
                " done: wait for it, or poll it until its status has ended"
            )
        return ResultReader(self.adapter, self._wire, handle, self._prices)


def _plugins(policy: "Pipeline | None") -> tuple[str, ...]:
    return () if policy is None else tuple(sorted(plugin.name for plugin in policy.plugins))


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
        return drive(self._submit(requests, output))

    def poll(self, handle: BatchHandle) -> BatchState:
        """Return where the batch is. Raises ProviderError if the provider cannot be asked."""
        return drive(self._state(handle, self._wire.poll))

    def cancel(self, handle: BatchHandle) -> BatchState:
        """Cancel the batch. Answers given by then can be fetched, and are billed."""
        return drive(self._state(handle, self._wire.cancel))

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
        return drive(self._wait(handle, every, timeout, progress))

    def fetch(self, handle: BatchHandle) -> list[BatchResult]:
        """Return a Message or a BatchError for each request, in the order of the requests.

        Raises BatchPendingError before the batch has ended, and StreamTruncatedError if answers are missing.
        """
        return sort_results(handle, self.results(handle))

    def results(self, handle: BatchHandle) -> Iterator[tuple[str, BatchResult]]:
        """As `fetch`, but yields each result with its id as it arrives: for batches that are too large for memory."""
        return iterate(self._results(handle))

    def outputs(self, handle: BatchHandle, output: TypeForm[T]) -> Iterator[tuple[str, T | BatchError]]:
        """As `results`, with the value of each answer in place of its message. An answer that is not valid is a
        BatchError with an OutputError; submit its request again."""
        return iterate(self._outputs(handle, output))

    def close(self) -> None:
        """Release the connections. Batches go on, and a `BatchHandle` is all that is needed later."""
        drive(self._governance.transports.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncBatches(_Batches[AsyncTransport]):
    """`Batches`, async."""

    _asynchronous = True

    async def submit(self, requests: Requests, *, output: Any = None) -> BatchHandle:
        """Await `Batches.submit`."""
        return await drive_async(self._submit(requests, output))

    async def poll(self, handle: BatchHandle) -> BatchState:
        """Await `Batches.poll`."""
        return await drive_async(self._state(handle, self._wire.poll))

    async def cancel(self, handle: BatchHandle) -> BatchState:
        """Await `Batches.cancel`."""
        return await drive_async(self._state(handle, self._wire.cancel))

    async def wait(
        self,
        handle: BatchHandle,
        *,
        every: float = 60.0,
        timeout: float | None = None,
        progress: StateCallback | None = None,
    ) -> BatchState:
        """Await `Batches.wait`."""
        return await drive_async(self._wait(handle, every, timeout, progress))

    async def fetch(self, handle: BatchHandle) -> list[BatchResult]:
        """Await `Batches.fetch`."""
        return sort_results(handle, [each async for each in self.results(handle)])

    def results(self, handle: BatchHandle) -> AsyncIterator[tuple[str, BatchResult]]:
        """Iterate over `Batches.results`."""
        return iterate_async(self._results(handle))

    def outputs(self, handle: BatchHandle, output: TypeForm[T]) -> AsyncIterator[tuple[str, T | BatchError]]:
        """Iterate over `Batches.outputs`."""
        return iterate_async(self._outputs(handle, output))

    async def close(self) -> None:
        """Await `Batches.close`."""
        await drive_async(self._governance.transports.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
