"""Runs the rows of one model: sends those that are due, as many at once as the provider accepts."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import islice
from typing import TYPE_CHECKING

from dragoman.adapter.errors import (
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    RequestError,
    UnpricedModelError,
)
from dragoman.bulk.attempts import ModelRun, PendingRow, RowAttempts, RunStoppedError
from dragoman.bulk.prompt import RowReader, build_messages, prompt_digest
from dragoman.bulk.rows import Row, Source
from dragoman.bulk.state.records import KnownRow, Outcome, State
from dragoman.canonical.message import Message
from dragoman.limits import LimitReachedError
from dragoman.limits.budget import Reservation
from dragoman.output.errors import OutputError
from dragoman.runtime import ClientConfig

if TYPE_CHECKING:  # most runs need no sessions
    from dragoman.bulk.row_turns import RowTurns

_CHUNK_ROWS = 256


class ModelRunner:
    """``client`` is the client of the run. ``turns`` runs each row as the turn of a session; None if nothing judges,
    routes, reports or saves the rows."""

    def __init__(
        self,
        model_run: ModelRun,
        *,
        row_reader: RowReader,
        client: ClientConfig,
        turns: "RowTurns | None",
        retry_errors: bool,
    ) -> None:
        self.model_run = model_run
        self.requester = model_run.requester
        self.model_no = model_run.model_no
        self.write_batcher = model_run.write_batcher
        self.tracker = model_run.tracker
        self.client = client
        self._controller = model_run.controller
        self._row_reader = row_reader
        self._turns = turns
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
            texts: tuple[str, ...] = ()
            labels: frozenset[str] = frozenset()
            row_error = None
            try:
                texts = self._row_reader.render(row)
                labels = self._row_reader.labels(row)
            except RequestError as error:
                row_error = error
            previous = known.get(row_no)
            if previous is None:
                yield PendingRow(row_no, texts, labels, row_error, None)
            elif previous.state is not State.FAILED and previous.digest != prompt_digest(texts):
                raise ConfigurationError(
                    f"row {row_no + 1:,} has changed since this run sent it: use a new run for changed rows"
                )
            elif previous.state is State.INVALID:
                yield PendingRow(row_no, texts, labels, row_error, previous)
            elif previous.state is State.FAILED and self._retry_errors:
                self.tracker.reopen_row(self.requester.model)
                yield PendingRow(row_no, texts, labels, row_error, previous)

    async def _start_row(self, pending: PendingRow) -> bool:
        """Start one row. Returns False when the run must stop.

        If a budget is used up, it waits while others are in flight: they may cost less than they reserved.
        """
        messages = build_messages(pending.texts) if pending.error is None else []
        budgets, reservation = self.tracker.budget.for_row(), Reservation()
        while True:
            number = await self._controller.acquire()
            if self._must_stop:
                self._controller.release()
                return False
            try:
                self.client.lifetime.check()
                if pending.error is None:
                    reservation = budgets.reserve(self.requester.adapter, messages, (), self.requester.options)
                break
            except BudgetExceededError as error:
                if isinstance(error, UnpricedModelError):
                    self._failure = error
                elif error.per == "turn":  # too little for this row alone
                    pending = pending._replace(error=error)
                    break
                elif not self.tracker.in_flight:
                    self.tracker.stopped = str(error)
            except DragomanError as error:
                self._failure = error
            self._controller.release()  # a row that has to be sent again may need the place
            if self._must_stop:
                return False
            await self.tracker.wait_for_one()
        self.tracker.start_request()
        attempts = RowAttempts(self.model_run, pending, budgets, reservation, number)
        task = asyncio.create_task(self._run_row(attempts, messages))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return True

    @property
    def _must_stop(self) -> bool:
        return self._failure is not None or self.tracker.stopped is not None

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._controller.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _run_row(self, attempts: RowAttempts, messages: list[Message]) -> None:
        outcome: Outcome | None = None
        try:
            if attempts.pending.error is not None:
                outcome = await attempts.failed(attempts.pending.error)
            elif self._turns is not None:
                outcome = await self._turns.run(attempts)
            else:
                outcome = await self._request(attempts, messages)
            if outcome is not None:
                await self.write_batcher.save_outcome(outcome)
        finally:
            attempts.close()
            self.tracker.finish_request(self.requester.model, outcome)

    async def _request(self, attempts: RowAttempts, messages: list[Message]) -> Outcome | None:
        """Try until there is a valid answer or a permanent error; None if the run stops first."""
        check = self.model_run.new_check()
        while True:
            try:
                await attempts.begin(messages)
            except (LimitReachedError, BudgetExceededError, RunStoppedError) as refused:
                return await attempts.failed(refused)
            try:
                reply, headers = await self.requester.ask(messages)
            except DragomanError as error:
                wait = await attempts.fail(error)
                if wait is None:
                    return await attempts.failed(error)
                await asyncio.sleep(wait)
                continue
            await attempts.succeed(reply.usage, headers)
            try:
                correction = None if check is None else check.correction(reply)
            except OutputError as error:
                return await attempts.failed(error)
            if correction is None:
                return attempts.answered(reply)
            messages = [*messages, reply, Message.user(correction)]
