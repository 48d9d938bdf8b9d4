"""Runs the rows of one model: sends those that are due, as many at once as the provider accepts."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from decimal import Decimal
from itertools import islice
from typing import NamedTuple

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    NetworkError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    RequestError,
    UnpricedModelError,
)
from dragoman.bulk.concurrency import ConcurrencyController
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.prompt import PromptBuilder, build_messages, prompt_digest
from dragoman.bulk.requester import Requester, RowReply, WorkerLostError
from dragoman.bulk.rows import Row, Source
from dragoman.bulk.state.manifest import now_micros
from dragoman.bulk.state.records import Claim, KnownRow, LostRequest, Outcome, State, answered_outcome, failed_outcome
from dragoman.bulk.state.write_batcher import WriteBatcher
from dragoman.canonical.message import Message
from dragoman.limits import Grant, LimitReachedError, Limits
from dragoman.limits.budget import Reservation

_CHUNK_ROWS = 256
_MAX_WORKER_LOSSES = 10
"""How many workers may be lost on one row: the row itself may crash them."""
_FATAL_ERRORS = (AuthenticationError, BillingError, ConfigurationError, NotFoundError)
"""Errors that every row would meet. Permission errors are excluded: a single row's content may cause them."""


class PendingRow(NamedTuple):
    """A row to send; ``prompt_error`` says why it has no prompt."""

    row_no: int
    texts: tuple[str, ...]
    prompt_error: RequestError | None
    previous: KnownRow | None


class ModelRunner:
    """``tracker`` counts the outcomes and holds the budget that all models share."""

    def __init__(
        self,
        requester: Requester,
        model_no: int,
        *,
        write_batcher: WriteBatcher,
        prompt_builder: PromptBuilder,
        controller: ConcurrencyController,
        tracker: ProgressTracker,
        limits: Limits | None,
        retry_errors: bool,
    ) -> None:
        self.requester = requester
        self.model_no = model_no
        self.controller = controller
        self.write_batcher = write_batcher
        self.tracker = tracker
        self._prompt_builder = prompt_builder
        self._limits = limits
        self._retry_errors = retry_errors
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    async def run(self, rows: Source) -> None:
        """Run until every row has an outcome, or until the run has stopped and nothing is in flight.

        Raises errors that every row would meet, such as AuthenticationError, and StoreError.
        """
        try:
            async with aclosing(self.iter_pending(rows)) as pending_rows:
                async for pending in pending_rows:
                    if not await self._start_row(pending):
                        break
        except asyncio.CancelledError:
            self.tracker.stopped = self.tracker.stopped or "interrupted"
            raise
        finally:  # requests in flight are billed, so wait for them
            if self._tasks:
                await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def iter_pending(self, rows: Source) -> AsyncGenerator[PendingRow, None]:
        """Yield the rows without an outcome, and with ``retry_errors`` those that failed.

        Raises ConfigurationError if the prompt of a row has changed since it was sent.
        """
        first, remaining_rows = 0, iter(rows)
        while chunk := list(islice(remaining_rows, _CHUNK_ROWS)):
            known = await self.write_batcher.run_in_thread(
                self.write_batcher.manifest.load_known, self.model_no, first, len(chunk)
            )
            for each in self._pending_in(first, chunk, known):
                yield each
            first += len(chunk)

    def _pending_in(self, first: int, chunk: list[Row], known: dict[int, KnownRow]) -> Iterator[PendingRow]:
        for row_no, row in enumerate(chunk, first):
            try:
                texts, prompt_error = self._prompt_builder.render(row), None
            except RequestError as error:
                texts, prompt_error = (), error
            previous = known.get(row_no)
            if previous is None:
                yield PendingRow(row_no, texts, prompt_error, None)
            elif previous.state is not State.FAILED and previous.digest != prompt_digest(texts):
                raise ConfigurationError(
                    f"row {row_no + 1:,} has changed since this run sent it: use a new run for changed rows"
                )
            elif previous.state is State.FAILED and self._retry_errors:
                self.tracker.reopen_row(self.requester.model)
                yield PendingRow(row_no, texts, prompt_error, previous)

    async def _start_row(self, pending: PendingRow) -> bool:
        """Start one row. Returns False when the run must stop."""
        number = await self.controller.acquire()
        if self._failure is not None or self.tracker.stopped is not None:
            self.controller.release()
            return False
        messages = build_messages(pending.texts) if pending.prompt_error is None else []
        reservation: Reservation | None = None
        try:
            reservation = Reservation() if pending.prompt_error is not None else await self._reserve(messages)
        except UnpricedModelError as error:
            self._failure = error
        if reservation is None:
            self.controller.release()
            return False
        self.tracker.start_request()
        task = asyncio.create_task(self._run_row(pending, messages, reservation, number))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return True

    async def _reserve(self, messages: list[Message]) -> Reservation | None:
        """Reserve the most that the request can cost; None when the budget ends the run.

        While others are in flight it waits: they may cost less than they reserved.
        """
        while True:
            try:
                return self.tracker.budget.reserve(self.requester.adapter, messages, self.requester.options)
            except UnpricedModelError:
                raise
            except BudgetExceededError as error:
                if not self.tracker.in_flight:
                    self.tracker.stopped = str(error)
                    return None
            await self.tracker.wait_for_one()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.controller.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _run_row(
        self, pending: PendingRow, messages: list[Message], reservation: Reservation, number: int
    ) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._request(pending, messages, reservation, number)
            if outcome is not None:
                await self.write_batcher.save_outcome(outcome)
        finally:
            reservation.release()
            self.tracker.finish_request(self.requester.model, outcome)

    async def _request(
        self, pending: PendingRow, messages: list[Message], reservation: Reservation, number: int
    ) -> Outcome | None:
        """Try until there is an answer or a permanent error; None if the run stops first."""
        estimate = (
            None
            if pending.prompt_error is not None
            else self.tracker.budget.estimate(self.requester.adapter, messages, self.requester.options)
        )
        tries, refusals, worker_losses, lost = 0, 0, 0, self.previous_loss(pending)
        while True:
            try:
                if pending.prompt_error is not None:
                    raise pending.prompt_error
                grant = await self._acquire_limits(messages)
            except (RequestError, LimitReachedError) as refused:
                claim = self.new_claim(pending, None)
                await self.write_batcher.save_claim(claim, lost)
                return failed_outcome(claim, refused, None, tries + refusals)
            claim = self.new_claim(pending, estimate)
            await self.write_batcher.save_claim(claim, lost)
            lost, tries, started_at = None, tries + 1, time.monotonic()
            try:
                reply = await self.requester.ask(messages)
            except DragomanError as raised:
                error, ms = raised, _ms_since(started_at)
            else:
                self._on_reply(reply, reservation, number)
                await self._settle_limits(grant, reply)
                return answered_outcome(claim, reply.message, _ms_since(started_at), tries + refusals)
            await self._settle_limits(grant, error)
            if isinstance(error, WorkerLostError):
                worker_losses, lost = worker_losses + 1, LostRequest.from_claim(claim, "killed")
                self.tracker.record_loss(lost)
                if self.tracker.stopped is not None:
                    await self.write_batcher.save_loss(claim, lost)
                    return None
                if worker_losses > _MAX_WORKER_LOSSES:
                    await self.write_batcher.save_claim(claim := self.new_claim(pending, None), lost)
                    return failed_outcome(claim, error, None, tries + refusals)
                tries -= 1
                continue
            if isinstance(error, RateLimitError):
                refusals, tries = refusals + 1, tries - 1
            wait = self._retry_delay(error, tries, refusals)
            if isinstance(error, RateLimitError):
                self.controller.on_throttle(number, wait or 0.0)
            if isinstance(error, _FATAL_ERRORS) and not isinstance(error, PermissionDeniedError):
                await self.write_batcher.discard_claim(claim)
                raise error
            if wait is None:
                return failed_outcome(claim, error, ms, tries + refusals)
            if isinstance(error, NetworkError):
                lost = LostRequest.from_claim(claim, "network")
                self.tracker.record_loss(lost)
            else:
                await self.write_batcher.discard_claim(claim)
            if isinstance(error, RateLimitError):  # queues again with all the others
                self.controller.release()
                number = await self.controller.acquire()
            else:
                await asyncio.sleep(wait)

    def new_claim(self, pending: PendingRow, estimate: Decimal | None) -> Claim:
        return Claim(self.model_no, pending.row_no, prompt_digest(pending.texts), estimate, now_micros())

    def previous_loss(self, pending: PendingRow) -> LostRequest | None:
        """Return the cost of an earlier failed request for this row."""
        previous = pending.previous
        if previous is None or previous.cost_usd is None:
            return None
        return LostRequest(self.model_no, pending.row_no, previous.sent_at, "failed", previous.cost_usd)

    def _retry_delay(self, error: DragomanError, tries: int, refusals: int) -> float | None:
        """Return the seconds until the next try, or None for no retry. Refusals are free, so more of them are
        allowed."""
        if not isinstance(error, ProviderError) or self.tracker.stopped is not None:
            return None
        policy, timing = self.requester.retry, self.controller.timing
        if isinstance(error, RateLimitError):
            if refusals > 10 * policy.max_retries:
                return None
            requested = error.retry_after
            return (
                policy.backoff(refusals, timing.roll()) if requested is None else min(requested, policy.max_retry_after)
            )
        return policy.wait(error, {}, tries, now=timing.now(), roll=timing.roll())

    def _on_reply(self, reply: RowReply, reservation: Reservation, number: int) -> None:
        usage = reply.message.usage
        reservation.settle(usage)
        self.controller.on_success(number, reply.headers, 0 if usage is None else usage.total_tokens)
        if usage is not None:
            self.tracker.budget.observe_output_tokens(self.requester.model, usage.output_tokens)

    async def _settle_limits(self, grant: Grant | None, result: RowReply | DragomanError) -> None:
        """Report the result to the program's own limits."""
        if grant is None or self._limits is None:
            return
        if isinstance(result, RowReply):
            await self._limits.observe_async(self.requester.model, result.headers)
            if result.message.usage is not None:  # otherwise the reservation stays
                await self._limits.settle_async(grant, result.message.usage)
            return
        if isinstance(result, ProviderError):
            await self._limits.observe_async(self.requester.model, result)
        await self._limits.settle_async(grant, None)

    async def _acquire_limits(self, messages: list[Message]) -> Grant | None:
        """Wait until the program's own limits admit the request. Nothing has been sent yet."""
        if self._limits is None:
            return None
        adapter, options = self.requester.adapter, self.requester.options
        input_tokens = adapter.estimate_input_tokens(messages, ())
        output_tokens = options.max_output_tokens or self._limits.reply_tokens or adapter.default_output_tokens
        while True:
            try:
                return await self._limits.acquire_async(self.requester.model, input_tokens, output_tokens)
            except LimitReachedError as error:
                if error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)


def _ms_since(started_at: float) -> int:
    return int(1000 * (time.monotonic() - started_at))
