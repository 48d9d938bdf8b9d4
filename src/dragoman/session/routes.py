"""The model that answers a turn: the session's own, or the one that a router chooses (see `dragoman.routing`)."""

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

if TYPE_CHECKING:  # most sessions have no router
    from dragoman.routing import RouteDecision, Router

DecisionT = TypeVar("DecisionT", "RouteDecision", "RouteDecision | None")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The model of a turn, and the record of why it was chosen."""

    adapter: Adapter
    record: RoutingDecisionRecord
    routes: "Routes"
    decision: "RouteDecision | None" = None
    """None if the session's own model answers or a summary is written: there is no fallback then."""

    def report_outcome(self, error: ProviderError | None) -> None:
        """Report to the router how a call ended, retries included; None is success."""
        if self.routes.router is not None:
            self.routes.router.availability.report(self.record.chosen_model, error, self.routes.clock())

    def choose_fallback(self, error: DragomanError, *, seen: bool) -> "Route | None":
        """Return the fallback route, or None to re-raise.

        ``seen``: the caller has already received events of the reply.
        """
        return None if self.decision is None else self.routes.choose_fallback(self.decision, error, seen=seen)


@dataclass(frozen=True, slots=True)
class Routes:
    """Chooses the route of each turn of a session."""

    router: "Router | None"
    clock: Callable[[], datetime]
    on_decision: Callable[["RouteDecision", float], None]
    """Called with each decision and the milliseconds that it took."""
    facts: Callable[[], Mapping[str, Any]]
    """Facts for the router that the messages do not contain: fields of `RouteRequest`."""

    def find(self, model: str) -> Adapter:
        """Return the adapter of a model id or of an alias of the router. Raises UnknownProviderError."""
        return get_adapter(model if self.router is None else self.router.aliases.resolve(model))

    def own_route(self, adapter: Adapter) -> Route:
        """Return the route of the session's own model, without asking the router."""
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
        """Return the route of the turn, and the prompt without the mention of a model.

        Raises NoModelError and UnknownProviderError, and RequestError if the prompt is nothing but a mention.
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
        """Return the route of the model that writes summaries: the session's model, or the router's choice for a short
        text, because the history itself may fit no model."""
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
        """Make and report the decision. If the clock was set back meanwhile, the duration is 0."""
        assert self.router is not None
        started_at = self.clock()
        decision = decide(self.router)
        if decision is not None:
            self.on_decision(decision, max((self.clock() - started_at) / timedelta(milliseconds=1), 0.0))
        return decision
