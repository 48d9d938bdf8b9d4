"""The attempts of one row: what governs them, how they wait for money, and when the row is asked again."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from dragoman.adapter.errors import (
    AuthenticationError,
    BillingError,
    BudgetExceededError,
    ConfigurationError,
    DragomanError,
    NotFoundError,
    PermissionDeniedError,
    ProviderError,
    RateLimitError,
    UnpricedModelError,
)
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.claims import ClaimGovernor, ModelRun, PendingRow
from dragoman.bulk.concurrency import ConcurrencyController, Slot
from dragoman.bulk.manifest.records import RowRecord
from dragoman.bulk.progress import ProgressTracker
from dragoman.bulk.requester import WorkerLostError
from dragoman.effects import Broken, Failed, Perform, call
from dragoman.limits import LimitReachedError, LimitsUnavailableError
from dragoman.limits.budget import Budgets
from dragoman.limits.limits import LimitGovernor
from dragoman.limits.reservation import Governor, MeasureUsage, Reservation
from dragoman.transport.retry import RetryQuota, RetryState

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
