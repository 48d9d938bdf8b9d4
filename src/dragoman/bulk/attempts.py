"""The requests of one row, one at a time. Each is recorded before it is sent."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

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
)
from dragoman.bulk.concurrency import ConcurrencyController
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.prompt import prompt_digest
from dragoman.bulk.requester import Requester, WorkerLostError
from dragoman.bulk.state.manifest import now_micros
from dragoman.bulk.state.records import (
    Claim,
    KnownRow,
    LostRequest,
    Outcome,
    RowUsage,
    State,
    answered_outcome,
    failed_outcome,
    partial_usages,
    sum_known,
)
from dragoman.bulk.state.write_batcher import WriteBatcher
from dragoman.canonical.message import Message
from dragoman.canonical.usage import Usage
from dragoman.limits import Grant, LimitReachedError, Limits
from dragoman.limits.budget import Budgets, Reservation
from dragoman.output.answer_type import AnswerForm
from dragoman.output.check import AnswerCheck

MAX_WORKER_LOSSES = 10
"""How many workers may be lost on one row: the row itself may crash them."""


class RunStoppedError(DragomanError):
    """The run stopped before an answer that is not valid was asked again."""


_FATAL_ERRORS = (AuthenticationError, BillingError, ConfigurationError, NotFoundError)


def is_fatal(error: Exception) -> bool:
    """Whether every row would meet the error. A permission error may be caused by the content of a single row."""
    return isinstance(error, _FATAL_ERRORS) and not isinstance(error, PermissionDeniedError)


class PendingRow(NamedTuple):
    """A row to send; ``error`` says why it cannot be sent."""

    row_no: int
    texts: tuple[str, ...]
    labels: frozenset[str]
    error: DragomanError | None
    previous: KnownRow | None

    @property
    def invalid_answer(self) -> KnownRow | None:
        """The row as a batch left it, if its answer there was not valid and it is to be asked again."""
        return self.previous if self.previous is not None and self.previous.state is State.INVALID else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """One model of a run. ``tracker`` counts the outcomes and holds the budget that all models share."""

    requester: Requester
    model_no: int
    write_batcher: WriteBatcher
    controller: ConcurrencyController
    tracker: ProgressTracker
    limits: Limits | None
    form: AnswerForm[Any] | None = None
    """What each answer has to be; None: any text."""
    output_retries: int = 1
    """How often a row is asked again if its answer is not valid."""

    def new_check(self, tries: int = 0) -> AnswerCheck[Any] | None:
        """Return the check of a row's answers, of which ``tries`` were not valid; None if any text is one."""
        return None if self.form is None else AnswerCheck(self.form, max(0, self.output_retries - tries))

    def new_claim(self, pending: PendingRow, estimate: Decimal | None) -> Claim:
        return Claim(self.model_no, pending.row_no, prompt_digest(pending.texts), estimate, now_micros())

    def previous_loss(self, pending: PendingRow) -> LostRequest | None:
        """Return the cost of an earlier failed request for this row."""
        previous = pending.previous
        if previous is None or previous.paid.cost_usd is None:
            return None
        return LostRequest(self.model_no, pending.row_no, previous.sent_at, "failed", previous.paid.cost_usd)


class RowAttempts:
    """The attempts of one row.

    ``budgets`` are those of the row, with a reservation for its first request. ``number`` is that of the request at the
    `ConcurrencyController`. `begin` each attempt, then report its end by `succeed` or `fail`. `answered` and `failed`
    return the outcome of the row. `close` it in the end.
    """

    def __init__(
        self, run: ModelRun, pending: PendingRow, budgets: Budgets, reservation: Reservation, number: int
    ) -> None:
        self.run = run
        self.pending = pending
        self._budgets = budgets
        self._reservation = reservation
        self._number = number
        self._lost = run.previous_loss(pending)
        self._claim: Claim | None = None
        self._grant: Grant | None = None
        self._usages: list[RowUsage] = []
        """Of the replies so far."""
        self._tries = self._refusals = self._worker_losses = 0
        self._settled_tries = 0
        """Of the questions that have a reply: each has retries of its own."""
        self._is_settled = False
        """Whether the reservation is used up."""
        self._started_at = 0.0
        self._ms: int | None = None
        self.unfinished = False
        """Whether the run stopped before the row had an outcome."""

    async def begin(self, messages: list[Message]) -> None:
        """Wait until the limits admit the next request, and record it. Raises LimitReachedError; after a reply also
        BudgetExceededError and RunStoppedError."""
        if self._is_settled:
            await self._reserve_again(messages)
        self._ms = None
        self._grant = await self._acquire_limits(messages)
        adapter, options = self.run.requester.adapter, self.run.requester.options
        estimate = self.run.tracker.budget.estimate(adapter, messages, options)
        self._claim = replace(self.run.new_claim(self.pending, estimate), paid=self._paid, tries=self._requests)
        await self.run.write_batcher.save_claim(self._claim, self._lost)
        self._lost, self._tries, self._started_at = None, self._tries + 1, time.monotonic()

    async def succeed(self, usage: Usage | None, headers: Mapping[str, str]) -> None:
        """Settle a request that has a reply, whether or not the row may get it."""
        run = self.run
        self._ms = self._elapsed_ms
        self._reservation.settle(usage)
        self._usages.append(RowUsage.of(usage))
        self._is_settled, self._settled_tries = True, self._tries
        run.controller.on_success(self._number, headers, 0 if usage is None else usage.total_tokens)
        if usage is not None:
            run.tracker.budget.observe_output_tokens(run.requester.model, usage.output_tokens)
        if run.limits is not None and self._grant is not None:
            await run.limits.observe_async(run.requester.model, headers)
            if usage is not None:  # otherwise the reservation stays
                await run.limits.settle_async(self._grant, usage)

    async def fail(self, error: DragomanError) -> float | None:
        """Settle a request that failed. Return the seconds until the next one, or None if there is none.

        Raises the error if every row would meet it.
        """
        run = self.run
        self._ms = self._elapsed_ms
        await self._settle_failure(error)
        claim = self._claim
        assert claim is not None
        if isinstance(error, WorkerLostError):
            return await self._record_worker_loss(claim)
        if isinstance(error, RateLimitError):
            self._refusals, self._tries = self._refusals + 1, self._tries - 1
        wait = self._retry_delay(error)
        if isinstance(error, RateLimitError):
            run.controller.on_throttle(self._number, wait or 0.0)
        if is_fatal(error):
            await self._discard(claim, is_last=True)
            raise error
        if wait is None:
            return None
        self._claim = None
        if isinstance(error, NetworkError):
            self._lost = LostRequest.from_claim(claim, "network")
            run.tracker.record_loss(self._lost)
        else:
            await self._discard(claim)
        if isinstance(error, RateLimitError):  # queues again with all the others
            run.controller.release()
            self._number = await run.controller.acquire()
            return 0.0
        return wait

    def answered(self, reply: Message) -> Outcome:
        assert self._claim is not None
        return answered_outcome(self._claim, reply, self._ms, self._requests, self._paid)

    async def failed(self, error: DragomanError, text: str | None = None) -> Outcome | None:
        """Return the outcome of a row that failed, with ``text`` in place of the error's own; None if the run stopped
        first."""
        if self.unfinished:
            return None
        if self._claim is None:
            self._claim = self.run.new_claim(self.pending, None)
            await self.run.write_batcher.save_claim(self._claim, self._lost)
        usages = [*self._usages, *partial_usages(error)]
        return failed_outcome(self._claim, error, self._ms, self._requests, text=text, usages=usages)

    def close(self) -> None:
        """Release what is reserved and was not used."""
        self._reservation.release()

    @property
    def _paid(self) -> RowUsage:
        return RowUsage.total(self._usages)

    @property
    def _requests(self) -> int:
        return self._tries + self._refusals

    async def _reserve_again(self, messages: list[Message]) -> None:
        """Reserve the cost of one more request after a reply. If the run stops here, the row is left without an
        outcome, and a later call sends it again."""
        tracker, requester = self.run.tracker, self.run.requester
        try:
            if tracker.stopped is not None:
                raise RunStoppedError(tracker.stopped)
            self._reservation = await tracker.reserve_again(
                self._budgets, requester.adapter, messages, requester.options
            )
        except (BudgetExceededError, RunStoppedError) as error:
            if isinstance(error, RunStoppedError) or error.per != "turn":
                tracker.stopped = tracker.stopped or str(error)
                self.unfinished = True
                assert self._claim is not None
                await self._discard(self._claim, is_last=True)
            raise
        self._is_settled = False
        self._number = await self.run.controller.acquire_next()

    async def _discard(self, claim: Claim, *, is_last: bool = False) -> None:
        """Delete the claim of a request that cost nothing. What the row cost before is kept: by the claim while it is
        the row's turn, and as a loss if this process does not send the row again."""
        if not self._usages:
            await self.run.write_batcher.discard_claim(claim)
        elif is_last:
            paid = replace(claim, estimate_usd=self._paid.cost_usd)
            self.run.tracker.add_lost_cost(paid.estimate_usd)
            await self.run.write_batcher.save_loss(claim, LostRequest.from_claim(paid, "failed"))
        else:
            await self.run.write_batcher.save_claim(replace(claim, estimate_usd=None))

    async def _record_worker_loss(self, claim: Claim) -> float | None:
        run = self.run
        self._claim, self._lost, self._ms = None, LostRequest.from_claim(claim, "killed"), None
        self._worker_losses += 1
        run.tracker.record_loss(self._lost)
        if run.tracker.stopped is not None:
            estimate = sum_known(self._paid.cost_usd, self._lost.estimate_usd)
            run.tracker.add_lost_cost(self._paid.cost_usd)
            await run.write_batcher.save_loss(claim, replace(self._lost, estimate_usd=estimate))
            self.unfinished = True
            return None
        if self._worker_losses > MAX_WORKER_LOSSES:
            return None
        self._tries -= 1
        return 0.0

    def _retry_delay(self, error: DragomanError) -> float | None:
        """Return the seconds until the next try, or None for no retry. Refusals are free, so more of them are
        allowed."""
        run = self.run
        if not isinstance(error, ProviderError) or run.tracker.stopped is not None:
            return None
        policy, timing = run.requester.retry, run.controller.timing
        if isinstance(error, RateLimitError):
            if self._refusals > 10 * policy.max_retries:
                return None
            if error.retry_after is None:
                return policy.backoff(self._refusals, timing.roll())
            return min(error.retry_after, policy.max_retry_after)
        return policy.wait(error, {}, self._tries - self._settled_tries, now=timing.now(), roll=timing.roll())

    async def _acquire_limits(self, messages: list[Message]) -> Grant | None:
        """Wait until the limits admit the request. Nothing has been sent yet."""
        limits, requester = self.run.limits, self.run.requester
        if limits is None:
            return None
        adapter, options = requester.adapter, requester.options
        input_tokens = adapter.estimate_input_tokens(messages, ())
        output_tokens = limits.output_tokens(adapter, options)
        while True:
            try:
                return await limits.acquire_async(requester.model, input_tokens, output_tokens)
            except LimitReachedError as error:
                if error.retry_after is None:
                    raise
                await asyncio.sleep(error.retry_after)

    async def _settle_failure(self, error: DragomanError) -> None:
        limits = self.run.limits
        if limits is None or self._grant is None:
            return
        if isinstance(error, ProviderError):
            await limits.observe_async(self.run.requester.model, error)
        await limits.settle_async(self._grant, None)

    @property
    def _elapsed_ms(self) -> int:
        return int(1000 * (time.monotonic() - self._started_at))
