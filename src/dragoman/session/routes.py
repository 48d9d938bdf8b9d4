"""Who answers a turn: the session's own model, or the one that a router chooses (see `dragoman.routing`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import DragomanError, ProviderError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.canonical.routing import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.tools import ToolDefinition

if TYPE_CHECKING:  # most sessions have no router, and need not wait for it
    from dragoman.routing import RouteDecision, Router

DecisionT = TypeVar("DecisionT", "RouteDecision", "RouteDecision | None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The model of a turn, and why it is that one."""

    adapter: Adapter
    record: RoutingDecisionRecord
    routes: "Routes"
    decision: "RouteDecision | None" = None
    """None where the session's own model answers, or a summary is written: nobody steps in there."""

    def report_outcome(self, error: ProviderError | None) -> None:
        """Has the router remember how a call ended, with all its tries; None is success."""
        if self.routes.router is not None:
            self.routes.router.availability.report(self.record.chosen_model, error, self.routes.clock())

    def choose_fallback(self, error: DragomanError, *, seen: bool) -> "Route | None":
        """Who steps in after that error; None where it stands. ``seen``: the caller has been shown a part already."""
        return None if self.decision is None else self.routes.choose_fallback(self.decision, error, seen=seen)


@dataclass(frozen=True, slots=True)
class Routes:
    """Where the turns of a session go."""

    router: "Router | None"
    clock: Callable[[], datetime]
    on_decision: Callable[["RouteDecision", float], None]
    """Is told each decision, and the milliseconds that it took."""
    facts: Callable[[], Mapping[str, Any]]
    """What a router is told beside what is said: fields of `RouteRequest`."""

    def find(self, model: str) -> Adapter:
        """The adapter of a model, or of what the router calls so. Raises UnknownProviderError."""
        return get_adapter(model if self.router is None else self.router.aliases.resolve(model))

    def own_route(self, adapter: Adapter) -> Route:
        """The session's own model, whatever a router would say."""
        model = str(adapter.model_id)
        record = RoutingDecisionRecord(mode=RoutingMode.MANUAL, chosen_model=model, reason="the session's model")
        return Route(adapter=adapter, record=record, routes=self)

    def for_turn(
        self,
        sticky: Adapter | None,
        override: str | None,
        history: Sequence[Message],
        prompt: tuple[Message, ...],
        tools: Sequence[ToolDefinition],
        options: AdapterOptions,
    ) -> tuple[Route, tuple[Message, ...]]:
        """The model for the turn, and what is said to it: without the mention of a model.

        Raises NoModelError and UnknownProviderError, and RequestError where nothing but a mention was said.
        """
        if self.router is None:
            assert sticky is not None
            return self.own_route(sticky), prompt
        from dragoman.routing import RouteRequest

        sticky_model = None if sticky is None else str(sticky.model_id)
        request = RouteRequest.of(
            history, prompt, tools, options, override=override, sticky=sticky_model, **self.facts()
        )
        decision = self._decide(lambda router: router.choose(request))
        return self._to_route(decision), decision.without_mention(prompt)

    def for_summary(self, sticky: Adapter | None) -> Route:
        """Who writes summaries: the session's own model, or whom the router would choose for a short text, since what
        is to be told may be too long for any."""
        if sticky is not None:
            return self.own_route(sticky)
        from dragoman.routing import RouteRequest

        decision = self._decide(lambda router: router.choose(RouteRequest(**self.facts())))
        return Route(adapter=get_adapter(decision.model), record=decision.record, routes=self)

    def choose_fallback(self, decision: "RouteDecision", error: DragomanError, *, seen: bool) -> Route | None:
        found = self._decide(lambda router: router.choose_fallback(decision, error, seen=seen))
        return None if found is None else self._to_route(found)

    def _to_route(self, decision: "RouteDecision") -> Route:
        return Route(adapter=get_adapter(decision.model), record=decision.record, routes=self, decision=decision)

    def _decide(self, decide: Callable[["Router"], DecisionT]) -> DecisionT:
        """The decision, which is told. A clock that was set back meanwhile tells of no negative time."""
        assert self.router is not None
        started_at = self.clock()
        decision = decide(self.router)
        if decision is not None:
            self.on_decision(decision, max((self.clock() - started_at) / timedelta(milliseconds=1), 0.0))
        return decision
