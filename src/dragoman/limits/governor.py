"""Applies the limits of a program: an attempt waits for its turn, and counts according to how it ended."""

from dataclasses import dataclass
from functools import partial

from dragoman.effects.outcomes import SendOutcome
from dragoman.effects.work import Perform
from dragoman.limits.limits import Grant, Limits
from dragoman.limits.reservation import Observe, Reservation
from dragoman.limits.settlement import count_use
from dragoman.limits.usage import MaxUsage, MeasureUsage


@dataclass(frozen=True, slots=True)
class LimitGovernor:
    """``model`` is the one that is asked, as ``provider:name``."""

    limits: Limits
    model: str

    def reserve(self, measure: MeasureUsage) -> Perform:
        """Return the effect that waits for the limits. Raises LimitReachedError and LimitsUnavailableError."""
        use = measure()
        return Perform(partial(self._acquire, use), partial(self._acquire_async, use))

    def _acquire(self, use: MaxUsage) -> "LimitReservation":
        tokens, output = use.input.total_tokens, self.limits.expected_output(use)
        return LimitReservation(self, tokens, self.limits.acquire(self.model, tokens, output))

    async def _acquire_async(self, use: MaxUsage) -> "LimitReservation":
        tokens, output = use.input.total_tokens, self.limits.expected_output(use)
        return LimitReservation(self, tokens, await self.limits.acquire_async(self.model, tokens, output))


class LimitReservation(Reservation):
    """The place of one request among all, with the tokens that it may use."""

    def __init__(self, governor: LimitGovernor, input_tokens: int, grant: Grant) -> None:
        limits, model = governor.limits, governor.model
        self._limits, self._input_tokens, self._grant = limits, input_tokens, grant
        self.observe: Observe = lambda reported: Perform(
            partial(limits.observe, model, reported), partial(limits.observe_async, model, reported)
        )

    def settle(self, outcome: SendOutcome) -> Perform | None:
        use = count_use(outcome, self._input_tokens)
        if use is None:  # all that was reserved counts
            return None
        settle, settle_async = self._limits.settle, self._limits.settle_async
        return Perform(
            partial(settle, self._grant, use.tokens, requests=use.requests),
            partial(settle_async, self._grant, use.tokens, requests=use.requests),
        )
