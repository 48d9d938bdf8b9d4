"""Who answers a turn: the session's own model, or the one that a router chooses (see `dragoman.routing`)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.routing import RoutingDecisionRecord, RoutingMode
from dragoman.routing import RouteDecision, Router, RouteRequest

Decided = Callable[[RouteDecision, float], None]
"""Is told each decision, and the milliseconds that it took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The model of a turn, and why it is that one."""

    adapter: Adapter
    record: RoutingDecisionRecord
    clock: Callable[[], datetime]
    router: Router | None = None
    decision: RouteDecision | None = None
    """None where the session's own model answers, in whose place nobody steps."""
    decided: Decided | None = None

    @classmethod
    def own(cls, adapter: Adapter, *, router: Router | None, clock: Callable[[], datetime]) -> Self:
        """The session's own model, whatever a router would say."""
        model = str(adapter.model_id)
        record = RoutingDecisionRecord(mode=RoutingMode.MANUAL, chosen_model=model, reason="the session's model")
        return cls(adapter=adapter, record=record, clock=clock, router=router)

    @classmethod
    def chosen(cls, router: Router, request: RouteRequest, *, clock: Callable[[], datetime], decided: Decided) -> Self:
        """What the router chooses. Raises NoModelError and UnknownProviderError."""
        begun = clock()
        decision = router.choose(request)
        decided(decision, _milliseconds(clock() - begun))
        return cls._of(router, decision, clock, decided)

    @classmethod
    def _of(cls, router: Router, decision: RouteDecision, clock: Callable[[], datetime], decided: Decided) -> Self:
        return cls(
            adapter=get_adapter(decision.model),
            record=decision.record,
            clock=clock,
            router=router,
            decision=decision,
            decided=decided,
        )

    def ended(self, error: ProviderError | None) -> None:
        """Has the router remember how a call ended, with all its tries; None is success."""
        if self.router is not None:
            self.router.availability.report(self.record.chosen_model, error, self.clock())

    def after(self, error: DragomanError, *, seen: bool) -> "Route | None":
        """Who steps in after that error; None where it stands. ``seen``: the caller has been shown a part already."""
        if self.router is None or self.decision is None or self.decided is None:
            return None
        begun = self.clock()
        decision = self.router.next_after(self.decision, error, seen=seen)
        if decision is None:
            return None
        self.decided(decision, _milliseconds(self.clock() - begun))
        return self._of(self.router, decision, self.clock, self.decided)


def _milliseconds(span: timedelta) -> float:
    """A clock that was set back meanwhile tells nothing, and no negative time."""
    return max(span / timedelta(milliseconds=1), 0.0)
