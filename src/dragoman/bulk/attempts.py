"""The rows of one model and their attempts: what governs them, how they wait for money, and when a row is asked again.

The claim of a row in the manifest is written before each request, with what it may cost, and settled after it.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

from dragoman.adapter.contract import Prices
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
    UnpricedModelError,
)
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.concurrency import ConcurrencyController, Slot
from dragoman.bulk.config import RunConfig
from dragoman.bulk.manifest.manifest import now_micros
from dragoman.bulk.manifest.records import LostRequest, RowRecord, RowUsage, State, sum_known
from dragoman.bulk.manifest.write_batcher import WriteBatcher
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.requester import Requester, WorkerLostError
from dragoman.bulk.rows import RowReader, prompt_digest
from dragoman.canonical.message import Message
from dragoman.canonical.usage import CostStatus
from dragoman.effects import Abandoned, Broken, Failed, Perform, Replied, SendOutcome, call
from dragoman.limits import LimitReachedError, LimitsUnavailableError
from dragoman.limits.budget import Budgets
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor, MaxUsage, MeasureUsage, Reservation, is_billed, usage_of
from dragoman.output.answer_type import AnswerForm
from dragoman.output.check import AnswerCheck
from dragoman.store.columns import from_micros
from dragoman.transport.retry import RetryQuota, RetryState

_DEFAULT_OUTPUT_TOKENS = 256
"""Expected output tokens of a reply before any reply of its model is known."""


class CostEstimator:
    """Estimates what a request will cost, by the replies of its model so far."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._average_output: dict[str, float] = {}

    def estimate(self, use: MaxUsage) -> Decimal | None:
        """Return the expected cost in US dollars: the prompt, and a reply of average length. None if the price is
        unknown."""
        average = round(self._average_output.get(use.model, _DEFAULT_OUTPUT_TOKENS))
        usage = use.input.model_copy(update={"output_tokens": min(use.output_tokens, average)})
        priced = self._prices.price(use.model, usage, from_micros(now_micros()))
        return priced.cost_usd if priced.cost_status in (CostStatus.PRICED, CostStatus.FREE) else None

    def observe_output_tokens(self, model: str, output_tokens: float) -> None:
        average = self._average_output.get(model)
        self._average_output[model] = output_tokens if average is None else 0.95 * average + 0.05 * output_tokens


class PendingRow(NamedTuple):
    """A row to send; ``error`` says why it cannot be sent."""

    row_no: int
    texts: tuple[str, ...]
    labels: frozenset[str]
    error: DragomanError | None
    previous: RowRecord | None

    @property
    def invalid_answer(self) -> RowRecord | None:
        """The row as a batch left it, if its answer there was not valid and it is to be asked again."""
        return self.previous if self.previous is not None and self.previous.state is State.INVALID else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRun:
    """One model of a run. All models share what is not its own: only requester, number and controller are."""

    config: RunConfig
    row_reader: RowReader
    requester: Requester
    model_no: int
    write_batcher: WriteBatcher
    controller: ConcurrencyController
    tracker: ProgressTracker
    estimator: CostEstimator
    new_budgets: Callable[[], Budgets]
    """Returns the budgets of the run and of its client for one row, with all its requests: the run counts as a session,
    and a row as a turn."""
    prices: Prices
    form: AnswerForm[Any] | None = None
    """What each answer has to be; None: any text."""

    def new_check(self, tries: int = 0) -> AnswerCheck[Any] | None:
        """Return the check of a row's answers, of which ``tries`` were not valid; None if any text is one."""
        return None if self.form is None else AnswerCheck(self.form, max(0, self.config.output_retries - tries))

    def new_claim(self, pending: PendingRow, estimate: Decimal | None) -> RowRecord:
        digest = prompt_digest(pending.texts)
        return RowRecord(self.model_no, pending.row_no, digest, estimate, now_micros(), labels=pending.labels)

    def previous_loss(self, pending: PendingRow) -> LostRequest | None:
        """Return the cost of an earlier failed request for this row."""
        previous = pending.previous
        if previous is None or previous.paid.cost_usd is None:
            return None
        return LostRequest.of(previous, "failed", previous.paid.cost_usd)


class ClaimGovernor(Reservation):
    """Claims a row before each of its requests, one at a time. `answered`, `failed` or `leave` ends the row.

    ``retries`` have decided about a failed request before its claim is settled: the last claim waits for the outcome.
    """

    def __init__(self, run: ModelRun, pending: PendingRow, retries: RetryState) -> None:
        self._run, self._pending, self._retries = run, pending, retries
        self._claim: RowRecord | None = None
        """The row as it is in the manifest, in flight."""
        self._lost = run.previous_loss(pending)
        """A loss that is not recorded yet."""
        self._usages: list[RowUsage] = []
        """Of the replies so far."""
        self._requests = 0
        self._started_at = 0.0
        self._ms: int | None = None

    def reserve(self, measure: MeasureUsage) -> Perform:
        """Return the effect that writes the claim."""
        return call(self._claim_request, measure)

    async def _claim_request(self, measure: MeasureUsage) -> Reservation:
        claim = self._run.new_claim(self._pending, self._run.estimator.estimate(measure()))
        await self._write(replace(claim, paid=self._paid, tries=self._requests))
        self._requests, self._started_at, self._ms = self._requests + 1, time.monotonic(), None
        return self

    def settle(self, outcome: SendOutcome) -> Perform:
        """Return the effect that settles the claim of a request that was sent, or should have been.

        What was answered is paid, and a refusal is free. A request without an end may have been billed if it was sent:
        it is lost, with its estimated cost. If the claim is only released, the request stays in flight.
        """
        return call(self._settle, outcome)

    async def _settle(self, outcome: SendOutcome) -> None:
        claim, retries = self._claim, self._retries
        if claim is None or isinstance(outcome, Abandoned):  # its end is unknown: it stays in flight
            return
        usage, error = usage_of(outcome), None if isinstance(outcome, Replied) else outcome.error
        self._ms = None if isinstance(error, WorkerLostError) else int(1000 * (time.monotonic() - self._started_at))
        if not isinstance(error, ProviderError) and isinstance(outcome, (Replied, Broken)):
            self._usages.append(RowUsage.of(usage))
            if usage is not None:
                self._run.estimator.observe_output_tokens(self._run.requester.model, usage.output_tokens)
        elif usage is not None or is_billed(outcome):
            self._usages.append(RowUsage.of(None if usage is None else usage.as_lower_bound()))
        elif isinstance(outcome, Failed) and isinstance(error, NetworkError) and error.sent is not False:
            if retries.next_wait is not None or isinstance(error, WorkerLostError):
                self._lost = LostRequest.of(claim, "killed" if self._ms is None else "network", claim.estimate_usd)
                self._run.tracker.add_lost_cost(claim.estimate_usd)
        elif isinstance(outcome, Broken) or retries.next_wait is not None:
            if self._usages:  # the claim keeps what the row cost before
                await self._write(replace(claim, estimate_usd=None))
            else:
                await self._run.write_batcher.discard(claim)
                self._claim = None

    def answered(self, reply: Message) -> RowRecord:
        """Return the outcome of a row that has its answer."""
        assert self._claim is not None
        return self._claim.answered(reply, self._ms, self._requests, self._paid)

    async def failed(self, error: DragomanError, text: str | None = None) -> RowRecord:
        """Return the outcome of a row that failed, with ``text`` in place of the error's own."""
        claim = self._claim or self._run.new_claim(self._pending, None)
        if self._lost is not None:
            await self._write(claim)
        return claim.failed(error, self._ms, self._requests, self._usages, text)

    async def leave(self) -> None:
        """End the row without an outcome: the next run sends it again. What it cost so far is recorded as lost."""
        claim, lost, paid_usd = self._claim, self._lost, self._paid.cost_usd
        if claim is None:
            return
        self._run.tracker.add_lost_cost(paid_usd)
        if lost is None and not self._usages:
            await self._run.write_batcher.discard(claim)
            return
        lost = lost or LostRequest.of(claim, "failed", None)
        usd = sum_known(paid_usd, lost.estimate_usd)
        await self._run.write_batcher.discard(claim, replace(lost, estimate_usd=usd))

    async def _write(self, claim: RowRecord) -> None:
        await self._run.write_batcher.save(claim, self._lost)
        self._claim, self._lost = claim, None

    @property
    def _paid(self) -> RowUsage:
        return RowUsage.total(self._usages)


MAX_WORKER_LOSSES = 10
"""How many workers may be lost on one row: the row itself may crash them."""

_FATAL_ERRORS = (AuthenticationError, BillingError, ConfigurationError, LimitsUnavailableError, NotFoundError)


def is_fatal(error: Exception) -> bool:
    """Whether every row would meet the error. A permission error may be caused by the content of a single row."""
    return isinstance(error, _FATAL_ERRORS) and not isinstance(error, PermissionDeniedError)


class RunStoppedError(DragomanError):
    """The run stopped before the row had an outcome. Nothing was sent."""

    sent = False


class RowRetries(RetryState):
    """Decides when a row is asked again. A refusal is free, so more of them are allowed, and so is a lost worker. When
    the run has stopped, nothing is asked again."""

    def __init__(self, run: ModelRun) -> None:
        super().__init__(run.requester.retry, RetryQuota(), run.controller.timing)
        self._run = run
        self._worker_losses = 0
        self.restart()

    def restart(self) -> None:
        """Begin another question of the row, which has retries of its own."""
        self._failures = self._refusals = 0

    def record_failure(
        self, error: ProviderError, headers: Mapping[str, str], status: int | None = None
    ) -> float | None:
        if isinstance(error, WorkerLostError):
            self._worker_losses += 1
            wait = 0.0 if self._worker_losses <= MAX_WORKER_LOSSES else None
        elif isinstance(error, RateLimitError):
            self._refusals += 1
            wait = error.retry_after
            wait = self.policy.backoff(self._refusals, self.timing.roll()) if wait is None else wait
            wait = None if self._refusals > 10 * self.policy.max_retries else min(wait, self.policy.max_retry_after)
        else:
            self._failures += 1
            timing = self.timing
            wait = self.policy.wait(error, headers, self._failures, now=timing.now(), roll=timing.roll())
        self.next_wait = wait if self._run.tracker.stopped is None else None
        return self.next_wait

    def wait_after(self, outcome: Failed | Broken) -> float | None:
        wait = super().wait_after(outcome)
        return outcome.error.retry_after if isinstance(outcome.error, LimitReachedError) else wait


async def wait_for_budgets(budgets: Budgets, tracker: ProgressTracker, measure: MeasureUsage) -> Reservation:
    """Wait for room while other rows are in flight: they may cost less than they reserved. The last row that waits
    stops the run.

    Raises RunStoppedError, UnpricedModelError, and BudgetExceededError if the row alone exceeds a budget per turn.
    """
    while tracker.stopped is None:
        try:
            return budgets.reserve(measure)
        except BudgetExceededError as error:
            if error.per == "turn" or isinstance(error, UnpricedModelError):
                raise
            if not await tracker.wait_for_room():
                tracker.stopped = tracker.stopped or str(error)
    raise RunStoppedError(tracker.stopped)


async def wait_for_slot(controller: ConcurrencyController, retries: RetryState, _: MeasureUsage) -> Reservation:
    return Slot(controller, retries, await controller.acquire())


class EarlyReservation:
    """A governor whose first reservation is made before the attempt: a row begins when there is room for it. ``wait``
    makes a reservation."""

    def __init__(self, wait: Callable[[MeasureUsage], Awaitable[Reservation]]) -> None:
        self._wait = wait
        self._held: Reservation | None = None

    async def take(self, measure: MeasureUsage) -> None:
        """Reserve for the first attempt. Raises what the reservation raises."""
        self._held = await self._wait(measure)

    def reserve(self, measure: MeasureUsage) -> Reservation | Perform:
        held, self._held = self._held, None
        return call(self._wait, measure) if held is None else held

    def release(self) -> None:
        """Release what no attempt took."""
        if self._held is not None:
            self._held.release()


class Row:
    """One row while it runs. ``governors`` are those of each attempt. `close` it in the end."""

    def __init__(self, run: ModelRun, pending: PendingRow) -> None:
        self.run, self.pending = run, pending
        self.retries = RowRetries(run)
        self.claim = ClaimGovernor(run, pending, self.retries)
        # Partial functions, not methods: this object would be in a circle, and stay until the collector runs.
        money = partial(wait_for_budgets, run.new_budgets(), run.tracker)
        slot = partial(wait_for_slot, run.controller, self.retries)
        self._room = (EarlyReservation(money), EarlyReservation(slot))
        limits = () if run.config.limits is None else (LimitGovernor(run.config.limits, run.requester.model),)
        # What waits for other rows holds nothing that they need: money comes first, then the slot. A place under the
        # limits is for now, so it comes after both. The claim says that the request leaves, so nothing comes after it.
        self.governors: tuple[Governor, ...] = (*self._room, *limits, self.claim)

    async def take_room(self, measure: MeasureUsage) -> None:
        """Wait for the budgets and the slot of the first attempt. Raises RunStoppedError, and BudgetExceededError if
        the row cannot be sent."""
        for each in self._room:
            await each.take(measure)

    async def send(self, request: WireRequest) -> WireResponse:
        """Send one request. Raises ProviderError, after a decision whether there is another attempt."""
        try:
            return await self.run.requester.send(request)
        except ProviderError as error:
            self.retries.record_failure(error, {})
            raise

    async def failed(self, error: DragomanError, text: str | None = None) -> RowRecord | None:
        """Return the outcome of a row that failed, with ``text`` in place of the error's own; None if the run stopped
        first, and a later call sends the row. Raises the error if every row would meet it."""
        is_lost = isinstance(error, WorkerLostError) and self.run.tracker.stopped is not None
        if not (is_lost or isinstance(error, RunStoppedError) or is_fatal(error)):
            return await self.claim.failed(error, text)
        await self.claim.leave()
        if is_fatal(error):
            raise error
        return None

    def close(self) -> None:
        """Release what is reserved and was not used."""
        for each in self._room:
            each.release()
