"""The model that answers a turn: the session's own, or the one that a router chooses (see `dragoman.routing`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.tools import ToolDefinition

if TYPE_CHECKING:  # most sessions have no router
    from dragoman.routing import RouteDecision, Router


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The model of a turn, and the record of why it was chosen."""

    adapter: Adapter
    record: RoutingDecisionRecord
    routes: "Routes"
    prompt: tuple[Message, ...] | None = None
    """The prompt without the mention of a model; None if it stays as it is."""
    decision: "RouteDecision | None" = None
    """None if the session's own model answers."""
    has_fallbacks: bool = False
    elapsed_ms: float = 0.0
    """The duration of the decision."""

    @property
    def may_reject(self) -> bool:
        """Whether the fallback may depend on the reply."""
        return self.has_fallbacks and self.routes.router is not None and bool(self.routes.router.reply_tests)

    def find_fault(self, reply: Message, is_valid: Callable[[Message], bool] | None) -> str | None:
        """Return what is wrong with a reply, if another model can be asked instead."""
        router, decision = self.routes.router, self.decision
        if router is None or decision is None:
            return None
        fault = router.reply_tests.find_fault(reply, is_valid)
        return fault if fault is not None and router.choose_fallback(decision, fault) is not None else None

    def fallback_chooser(self, error: DragomanError | str, *, seen: bool) -> "Callable[[], Route | None] | None":
        """Return the function that chooses a fallback, or None if there can be none.

        ``seen``: the caller has already received events of the reply. A string is the fault of a reply.
        """
        decision = self.decision
        if decision is None or not self.has_fallbacks:
            return None
        return lambda: self.routes.choose_fallback(decision, error, seen=seen)


@lru_cache(maxsize=256)
def _own_record(provider: str, model: str) -> RoutingDecisionRecord:
    chosen = str(ModelId(provider, model))
    return RoutingDecisionRecord(mode=RoutingMode.MANUAL, chosen_model=chosen, reason="the session's model")


@dataclass(frozen=True, slots=True)
class Routes:
    """Chooses the route of each turn of a session."""

    router: "Router | None"
    clock: Callable[[], datetime]
    facts: Callable[[], Mapping[str, Any]]
    """Facts for the router that the messages do not contain: fields of `RouteRequest`."""

    def find(self, model: str) -> Adapter:
        """Return the adapter of a model id or of an alias of the router. Raises UnknownProviderError."""
        return get_adapter(model if self.router is None else self.router.aliases.resolve(model))

    def own_route(self, model: str) -> Route:
        """Return the route of a model that the session is set to, without asking the router. Raises as `find`."""
        adapter = self.find(model)
        return Route(adapter=adapter, record=_own_record(adapter.provider, adapter.model), routes=self)

    def for_turn(
        self,
        sticky: Adapter | None,
        override: str | None,
        history: Callable[[], Sequence[Message]],
        tools: Sequence[ToolDefinition],
        options: AdapterOptions,
        prompt: tuple[Message, ...],
    ) -> Route:
        """Return the route of the turn. ``history`` returns the messages that are sent before the prompt.

        Raises NoModelError and UnknownProviderError, and RequestError if the prompt is nothing but a mention.
        """
        from dragoman.routing import RouteRequest

        sticky_model = None if sticky is None else str(sticky.model_id)
        request = RouteRequest.of(
            history(), prompt, tools, options, override=override, sticky=sticky_model, **self.facts()
        )
        route = self._decide(lambda router: router.choose(request))
        assert route is not None
        assert route.decision is not None
        return replace(route, prompt=route.decision.without_mention(prompt), has_fallbacks=True)

    def for_summary(self) -> Route:
        """Return the router's choice for a short text, which is the model that writes summaries if the session has
        none: the history itself may fit no model."""
        from dragoman.routing import RouteRequest

        route = self._decide(lambda router: router.choose(RouteRequest(**self.facts())))
        assert route is not None
        return route

    def choose_fallback(self, decision: "RouteDecision", error: DragomanError | str, *, seen: bool) -> Route | None:
        route = self._decide(lambda router: router.choose_fallback(decision, error, seen=seen))
        return None if route is None else replace(route, has_fallbacks=True)

    def _decide(self, decide: Callable[["Router"], "RouteDecision | None"]) -> Route | None:
        """Make the decision. If the clock was set back meanwhile, its duration is 0."""
        assert self.router is not None
        started_at = self.clock()
        decision = decide(self.router)
        if decision is None:
            return None
        elapsed_ms = max((self.clock() - started_at) / timedelta(milliseconds=1), 0.0)
        adapter = get_adapter(decision.model)
        return Route(adapter=adapter, record=decision.record, routes=self, decision=decision, elapsed_ms=elapsed_ms)
