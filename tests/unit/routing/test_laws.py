"""What holds for every request and every router."""

import pickle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import AuthenticationError, ServerError
from dragoman.routing import (
    Availability,
    NoModelError,
    RouteDecision,
    Router,
    RouteRequest,
    RoutingPolicy,
    Rule,
    Verdict,
    When,
)
from dragoman.routing.decision import find_refusals
from dragoman.session.middleware.telemetry import to_event
from tests.unit.routing.models import KEYLESS, MODELS, START, find, router

ORDER = list(RoutingPolicy)
models = st.sampled_from([*MODELS, KEYLESS])
maybe = st.none() | models
whens = st.builds(
    When,
    has_tools=st.none() | st.booleans(),
    has_images=st.none() | st.booleans(),
    tokens_over=st.none() | st.integers(0, 2_000),
)
requests = st.builds(
    RouteRequest,
    override=maybe,
    sticky=maybe,
    delegate=maybe,
    estimated_tokens=st.integers(0, 200_000),
    images=st.booleans(),
    tools=st.booleans(),
    system_prompt=st.booleans(),
    output_schema=st.booleans(),
)
settings = st.fixed_dictionaries(
    {
        "rules": st.lists(st.builds(Rule, model=models, when=whens), max_size=4),
        "workspace_default": maybe,
        "global_default": maybe,
        "recommended": maybe,
        "unpaid": st.none() | st.sampled_from(["north", "south", "east", "west"]),
    }
)


def router_from(described: dict[str, Any]) -> Router:
    fields = dict(described)
    recommended, unpaid = fields.pop("recommended"), fields.pop("unpaid")
    availability = Availability()
    if unpaid:
        availability.report(f"{unpaid}:any", AuthenticationError("no"), START)
    recommender = None if recommended is None else lambda _: (recommended, 0.9, "it did well")
    return router(**fields, recommender=recommender, availability=availability)


def choose(routed: Router, request: RouteRequest) -> RouteDecision | NoModelError:
    try:
        return routed.choose(request)
    except NoModelError as error:
        return error


@given(settings, requests)
def test_the_first_valid_model_is_chosen(described: dict[str, Any], request: RouteRequest) -> None:
    """And nothing else ever is."""
    routed = router_from(described)

    def refused(model: str) -> tuple[str, ...]:
        found = find_refusals(model, request, find=find, availability=routed.availability, at=START)
        return tuple(str(name) for name, _ in found)

    outcome = choose(routed, request)
    if isinstance(outcome, NoModelError):
        assert all(refused(model) == reasons != () for model, reasons in outcome.reasons.items())
        return
    assert refused(outcome.model) == ()
    for place, link in enumerate(outcome.chain):
        if link.model is None:
            assert link.verdict is Verdict.NOT_APPLICABLE
        elif place < outcome.winner_index:
            assert (link.verdict, link.reasons) == (Verdict.REJECTED, refused(link.model))
            assert link.reasons
        else:
            assert link.verdict is (Verdict.CHOSE if place == outcome.winner_index else Verdict.DEFERRED)


@given(settings, requests)
def test_the_order_of_the_chain_is_kept(described: dict[str, Any], request: RouteRequest) -> None:
    """Every policy is consulted, in its place."""
    outcome = choose(router_from(described), request)
    if isinstance(outcome, RouteDecision):
        places = [ORDER.index(link.policy) for link in outcome.chain]
        assert places == sorted(places)
        assert set(places) == set(range(len(ORDER)))


@given(settings, requests)
def test_only_proposed_models_are_chosen(described: dict[str, Any], request: RouteRequest) -> None:
    """There is no silent substitute."""
    outcome = choose(router_from(described), request)
    proposed = {
        request.override, request.sticky, request.delegate, described["recommended"],
        described["workspace_default"], described["global_default"], *(rule.model for rule in described["rules"]),
    }  # fmt: skip
    if isinstance(outcome, RouteDecision):
        assert outcome.model in proposed
        assert outcome.record.chosen_model == outcome.winner.model == outcome.model
        assert set(outcome.record.alternatives_considered) <= proposed - {outcome.model}


@given(settings, requests)
def test_routing_is_deterministic(described: dict[str, Any], request: RouteRequest) -> None:
    """In another router with the same settings too; errors are the same."""
    first, second = choose(router_from(described), request), choose(router_from(described), request)
    assert str(first) == str(second)
    assert isinstance(first, NoModelError) or first == second


@given(settings, requests)
def test_fallbacks_only_go_forward(described: dict[str, Any], request: RouteRequest) -> None:
    """No model is tried twice, and the chain ends."""
    routed = router_from(described)
    outcome = choose(routed, request)
    models_asked: list[str] = []
    while isinstance(outcome, RouteDecision):
        assert outcome.model not in models_asked
        assert set(outcome.failed_models) == set(models_asked)
        models_asked.append(outcome.model)
        after = routed.choose_fallback(outcome, ServerError("it broke"))
        if after is None:
            break
        assert after.winner_index > outcome.winner_index
        outcome = after


@given(settings, requests)
def test_every_decision_is_a_valid_event(described: dict[str, Any], request: RouteRequest) -> None:
    """The catalogue accepts whatever a decision can contain."""
    outcome = choose(router_from(described), request)
    if isinstance(outcome, RouteDecision):
        event = to_event(outcome, 0.25)
        assert event.chain[event.winner_index].candidate_model == event.chosen_model == outcome.model
        assert [link.verdict for link in event.chain].count("chose") == 1
        assert pickle.loads(pickle.dumps(outcome)).record == outcome.record
