"""Runs the rows of one model: sends those that are due, as many at once as the provider accepts."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import (
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    ProviderError,
    RequestError,
    UnpricedModelError,
)
from dragoman.adapter.losses import log_losses
from dragoman.adapter.wire import WireResponse
from dragoman.attempt.attempt import Attempt, exchange_whole, run_attempts
from dragoman.bulk.attempts import ModelRun, PendingRow, Row, RunStoppedError
from dragoman.bulk.manifest.records import RowRecord, State
from dragoman.bulk.rows import Row as SourceRow
from dragoman.bulk.rows import Source, build_messages, prompt_digest
from dragoman.canonical.message import Message
from dragoman.effects import Broken, Failed, Observe, Replied, ResponseDetails, SendOutcome, Work, call, drive_async
from dragoman.limits.bounds import max_usage
from dragoman.store.errors import StoreError

_CHUNK_ROWS = 256


class ModelRunner:
    def __init__(self, model_run: ModelRun) -> None:
        self.model_run = model_run
        self.requester = model_run.requester
        self.model_no = model_run.model_no
        self.write_batcher = model_run.write_batcher
        self.tracker = model_run.tracker
        client = model_run.config.client
        self._new_session: Callable[[Row], Any] | None = None
        """Returns the session of a row, if anything judges, routes, reports or saves the rows."""
        if any(each is not None for each in (client.policy, client.router, client.events, client.store)):
            from dragoman.bulk.row_turns import RowSession  # most runs need no sessions

            # The run has the limits, the budgets and the routes.
            of_session = client.with_(limits=None, budgets=(), router=None, prices=model_run.prices)
            self._new_session = partial(RowSession, of_session)
        self._retry_errors = model_run.config.retry_errors
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._is_interrupted = False

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
            self._interrupt()
            raise
        finally:
            await self._finish_rows()
        if self._failure is not None:
            raise self._failure

    async def _finish_rows(self) -> None:
        """Wait for the rows in flight: they are billed. A second cancellation leaves them in flight in the manifest."""
        cancelled: asyncio.CancelledError | None = None
        while self._tasks:
            try:
                await asyncio.wait(self._tasks)
            except asyncio.CancelledError as error:
                for task in self._tasks if self._is_interrupted else ():
                    task.cancel()
                self._interrupt()
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def _interrupt(self) -> None:
        self._is_interrupted = True
        self.tracker.stopped = self.tracker.stopped or "interrupted"

    async def iter_pending(self, rows: Source) -> AsyncGenerator[PendingRow, None]:
        """Yield the rows without an outcome, and with ``retry_errors`` those that failed.

        Raises ConfigurationError if the prompt of a row has changed since it was sent.
        """
        first, remaining_rows = 0, iter(rows)
        while chunk := list(islice(remaining_rows, _CHUNK_ROWS)):
            known = await self.write_batcher.run_in_thread(
                self.write_batcher.manifest.load_known, self.model_no, first, len(chunk)
            )
            for row_no, row in enumerate(chunk, first):
                pending = self._read_row(row_no, row, known.get(row_no))
                if (previous := pending.previous) is None or previous.state is State.INVALID:
                    yield pending
                elif previous.state is State.FAILED and self._retry_errors:
                    self.tracker.reopen_row(self.requester.model)
                    yield pending
            first += len(chunk)

    def _read_row(self, row_no: int, row: SourceRow, previous: RowRecord | None) -> PendingRow:
        """Return the row as it is sent. Raises ConfigurationError if it is not what was sent before."""
        texts: tuple[str, ...] = ()
        labels: frozenset[str] = frozenset()
        row_error = None
        try:
            texts = self.model_run.row_reader.render(row)
            labels = self.model_run.row_reader.labels(row)
        except RequestError as error:
            row_error = error
        if previous is not None and previous.state is not State.FAILED and previous.digest != prompt_digest(texts):
            raise ConfigurationError(
                f"row {row_no + 1:,} has changed since this run sent it: start another run, with another file (to=,"
                " or -o of the command) or another name (name=, --name)"
            )
        return PendingRow(row_no, texts, labels, row_error, previous)

    async def _start_row(self, pending: PendingRow) -> bool:
        """Start one row when there is room for it. Returns False when the run must stop."""
        while len(self._tasks) >= self.model_run.controller.max_limit:  # some may wait to be sent again
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        row, messages = Row(self.model_run, pending), build_messages(pending.texts) if pending.error is None else []
        self.tracker.start_request()
        try:
            self.model_run.config.client.lifetime.check()
            if pending.error is None:
                await row.take_room(partial(max_usage, self.requester.adapter, messages, (), self.requester.options))
        except BudgetExceededError as error:
            if isinstance(error, UnpricedModelError):
                self._failure = error
            row.pending = pending._replace(error=error)  # too little for this row alone
        except RunStoppedError:
            pass
        except DragomanError as error:
            self._failure = error
        except BaseException:
            self._end_row(row, None)
            raise
        if self._failure is not None or self.tracker.stopped is not None:
            self._end_row(row, None)
            return False
        task = asyncio.create_task(self._run_row(row, messages))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return True

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    def _end_row(self, row: Row, outcome: RowRecord | None) -> None:
        row.close()
        self.tracker.finish_request(self.requester.model, outcome)

    async def _run_row(self, row: Row, messages: list[Message]) -> None:
        outcome: RowRecord | None = None
        try:
            if row.pending.error is not None:
                outcome = await row.failed(row.pending.error)
            elif self._new_session is not None:
                async with self._new_session(row) as session:
                    outcome = await session.ask_row()
            else:
                outcome = await self._request(row, messages)
            if outcome is not None:
                await self.write_batcher.save(outcome)
        finally:
            self._end_row(row, outcome)

    async def _request(self, row: Row, messages: list[Message]) -> RowRecord | None:
        """Ask until there is a valid answer or a permanent error; None if the run stops first."""
        check = self.model_run.new_check()
        try:
            while True:
                row.retries.restart()
                reply = await self._ask(row, messages)
                correction = None if check is None else check.correction(reply)
                if correction is None:
                    return row.claim.answered(reply)
                messages = [*messages, reply, Message.user(correction)]
        except StoreError:  # the manifest failed, and not the row
            raise
        except DragomanError as error:
            return await row.failed(error)

    async def _ask(self, row: Row, messages: list[Message]) -> Message:
        """Return the reply of the model. Raises what ends the row."""
        adapter, options = self.requester.adapter, self.requester.options

        def exchange(observers: tuple[Observe, ...], _: object) -> Work[SendOutcome]:
            context = RequestContext(model=self.requester.model, prices=row.run.prices, started_at=datetime.now(UTC))
            try:
                request = adapter.to_wire(messages, (), replace(options, context=context))
            except DragomanError as error:
                return Failed(error)
            log_losses(request.losses, session_id=context.session_id, adapter=adapter.provider)

            def read(response: WireResponse) -> SendOutcome:
                details = ResponseDetails(response.status, response.headers)
                try:
                    return Replied(adapter.from_wire_response(response, context), details)
                except ProviderError as error:
                    return Broken(error, error.partial, False, details)

            return (yield from exchange_whole(call(row.send, request), read, observers))

        attempt = Attempt(row.governors, partial(max_usage, adapter, messages, (), options))
        outcome = await drive_async(run_attempts(row.retries, partial(attempt.run, exchange)))
        assert isinstance(outcome, Replied)
        return outcome.message
