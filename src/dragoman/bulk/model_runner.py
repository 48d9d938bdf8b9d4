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
from dragoman.bulk.attempts import ModelRun, PendingRow, RowAttempts
from dragoman.bulk.prompt import RowReader, build_messages, prompt_digest
from dragoman.bulk.rows import Row, Source
from dragoman.bulk.state.records import KnownRow, Outcome, State
from dragoman.canonical.message import Message
from dragoman.limits import LimitReachedError
from dragoman.limits.budget import Reservation
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
            elif previous.state is State.FAILED and self._retry_errors:
                self.tracker.reopen_row(self.requester.model)
                yield PendingRow(row_no, texts, labels, row_error, previous)

    async def _start_row(self, pending: PendingRow) -> bool:
        """Start one row. Returns False when the run must stop."""
        number = await self._controller.acquire()
        if self._failure is not None or self.tracker.stopped is not None:
            self._controller.release()
            return False
        messages = build_messages(pending.texts) if pending.error is None else []
        reservation: Reservation | None = Reservation()
        try:
            self.client.lifetime.check()
            if pending.error is None:
                reservation = await self._reserve(messages)
        except BudgetExceededError as error:  # a budget per turn is too small for this row alone
            pending = pending._replace(error=error)
        except DragomanError as error:
            self._failure, reservation = error, None
        if reservation is None:
            self._controller.release()
            return False
        self.tracker.start_request()
        task = asyncio.create_task(self._run_row(pending, messages, reservation, number))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return True

    async def _reserve(self, messages: list[Message]) -> Reservation | None:
        """Reserve the most that the request can cost; None when a budget ends the run.

        While others are in flight it waits: they may cost less than they reserved. Raises BudgetExceededError for a
        budget per turn, and UnpricedModelError.
        """
        while True:
            try:
                return self.tracker.budget.reserve(self.requester.adapter, messages, self.requester.options)
            except UnpricedModelError as error:
                self._failure = error
                return None
            except BudgetExceededError as error:
                if error.per == "turn":
                    raise
                if not self.tracker.in_flight:
                    self.tracker.stopped = str(error)
                    return None
            await self.tracker.wait_for_one()

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._controller.release()
        if not task.cancelled() and (error := task.exception()) is not None:
            self._failure = self._failure or error

    async def _run_row(
        self, pending: PendingRow, messages: list[Message], reservation: Reservation, number: int
    ) -> None:
        outcome: Outcome | None = None
        attempts = RowAttempts(self.model_run, pending, messages, reservation, number)
        try:
            if pending.error is not None:
                outcome = await attempts.failed(pending.error)
            elif self._turns is not None:
                outcome = await self._turns.run(attempts)
            else:
                outcome = await self._request(attempts, messages)
            if outcome is not None:
                await self.write_batcher.save_outcome(outcome)
        finally:
            reservation.release()
            self.tracker.finish_request(self.requester.model, outcome)

    async def _request(self, attempts: RowAttempts, messages: list[Message]) -> Outcome | None:
        """Try until there is an answer or a permanent error; None if the run stops first."""
        while True:
            try:
                await attempts.begin(messages)
            except LimitReachedError as refused:
                return await attempts.failed(refused)
            try:
                reply = await self.requester.ask(messages)
            except DragomanError as error:
                wait = await attempts.fail(error)
                if wait is None:
                    return await attempts.failed(error)
                await asyncio.sleep(wait)
            else:
                await attempts.succeed(reply.message.usage, reply.headers)
                return attempts.answered(reply.message)
