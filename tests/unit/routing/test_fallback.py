"""Which model answers instead of one that failed before its first event."""

import json
import pickle

import pytest

from dragoman import RequestContext, WireResponse, get_adapter
from dragoman.adapter.errors import (
    AuthenticationError,
    BudgetExceededError,
    ContentFilterError,
    ContextOverflowError,
    DragomanError,
    InvalidRequestError,
    MissingKeyError,
    NetworkError,
    NoModelError,
    NotFoundError,
    OverloadedError,
    RateLimitError,
    RequestCancelledError,
    RequestError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.canonical.message_fields import RoutingMode
from dragoman.routing import RouteDecision, Router, RouteRequest, RoutingPolicy, Rule, Verdict
from tests.unit.routing.models import START, router

REQUEST = RouteRequest(sticky="north:able", images=True)


def three_candidates() -> tuple[Router, RouteDecision]:
    """A session's model, a rule's that cannot see, and a default."""
    routed = router(rules=[Rule(model="east:blind", name="cheap")], global_default="south:able")
    return routed, routed.choose(REQUEST)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RateLimitError("slow down"), "rate_limit"),
        (OverloadedError("full"), "rate_limit"),
        (ServerError("it broke"), "server_error"),
        (NetworkError("refused"), "network"),
        (StreamTruncatedError("cut"), "network"),
        (AuthenticationError("no"), "auth"),
        (ContextOverflowError("too long"), "context_overflow"),
        (NotFoundError("no such model"), "invalid_request"),
        (MissingKeyError("no key"), "not_configured"),
    ],
)
def test_the_next_valid_candidate_is_the_fallback(error: DragomanError, kind: str) -> None:
    """The record and the chain name the model that it replaces."""
    routed, first = three_candidates()
    second = routed.choose_fallback(first, error)
    assert second is not None
    assert (second.model, second.record.mode) == ("south:able", RoutingMode.DEFAULT)
    assert second.failed_models == ("north:able",)
    assert second.record.reason == (
        f"the global default; passed over: north:able ({kind}), east:blind (no_vision_support)"
    )
    assert second.record.alternatives_considered == ("north:able", "east:blind")
    lost, blind, chosen = second.candidates
    assert (lost.policy, lost.verdict, lost.failure) == (RoutingPolicy.MANUAL_STICKY, Verdict.REJECTED, kind)
    assert (blind.verdict, blind.failure) == (Verdict.REJECTED, None)
    assert chosen.verdict is Verdict.CHOSE


@pytest.mark.parametrize(
    "error",
    [
        InvalidRequestError("no such field"),
        ContentFilterError("blocked"),
        RequestCancelledError("left"),
        RequestError("an argument"),
        BudgetExceededError("turn", "tokens", 10, 0, 20),
    ],
)
def test_an_error_that_no_model_can_fix_is_raised(error: DragomanError) -> None:
    """A filter, for example, cannot be bypassed by another model."""
    routed, first = three_candidates()
    assert routed.choose_fallback(first, error) is None


def test_a_seen_reply_has_no_fallback() -> None:
    """After the caller saw any part, no other model takes over."""
    routed, first = three_candidates()
    assert routed.choose_fallback(first, ServerError("it broke"), seen=True) is None


def test_fallbacks_follow_the_chain_to_its_end() -> None:
    """Each candidate is tried once, and the last error describes all attempts."""
    routed = router(workspace_default="north:large", global_default="south:able")
    request = RouteRequest(sticky="north:able")
    decision: RouteDecision | None = routed.choose(request)
    models_asked: list[str] = []
    while decision is not None:
        models_asked.append(decision.model)
        error = ServerError("it broke")
        decision = routed.choose_fallback(decision, error)
    assert models_asked == ["north:able", "north:large", "south:able"]
    assert not hasattr(error, "__notes__")


def test_the_error_names_the_remaining_candidates() -> None:
    """So the reason for no fallback is visible."""
    routed = router(workspace_default="east:blind", global_default="west:nothing")
    error = ServerError("it broke")
    assert routed.choose_fallback(routed.choose(REQUEST), error) is None
    (note,) = error.__notes__
    assert "north:able (manual_sticky): server_error: it failed before it answered" in note
    assert "east:blind (workspace_default): no_vision_support" in note
    assert "west:nothing (global_default): no_vision_support" in note


def test_a_failed_model_is_not_tried_again() -> None:
    routed = router(workspace_default="north:able", global_default="south:able")
    second = routed.choose_fallback(routed.choose(RouteRequest(sticky="north:able")), ServerError("it broke"))
    assert second is not None
    assert second.model == "south:able"
    assert second.failed_models == ("north:able",)


def test_a_candidate_that_is_down_is_skipped() -> None:
    """Candidates are checked when it is their turn."""
    routed = router(workspace_default="north:large", global_default="south:able")
    first = routed.choose(RouteRequest(sticky="north:able"))
    error = AuthenticationError("no")
    routed.availability.report("north:able", error, START)
    second = routed.choose_fallback(first, error)
    assert second is not None
    assert second.model == "south:able"
    assert second.candidates[1].reasons == ("provider_unavailable",)


def test_a_provider_that_is_down_is_not_chosen() -> None:
    """The next turn starts with the next candidate, until the provider answers again."""
    routed = router(global_default="south:able")
    routed.availability.report("north:able", AuthenticationError("no"), START)
    assert routed.choose(REQUEST).model == "south:able"
    routed.availability.report("north:third", None, START)
    assert routed.choose(REQUEST).model == "north:able"


def test_an_overloaded_reply_falls_back() -> None:
    """The adapter turns a provider's 529 into an error that another model may answer."""
    body = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()
    routed = Router(workspace_default="sonnet", global_default="sol")
    first = routed.choose(RouteRequest(text="hi"))
    with pytest.raises(OverloadedError) as caught:
        get_adapter(first.model).from_wire_response(
            WireResponse(status=529, headers={}, body=body), RequestContext.for_model(first.model)
        )
    second = routed.choose_fallback(first, caught.value)
    assert second is not None
    assert second.model == "openai:gpt-6.2-sol"
    assert "passed over: anthropic:claude-sonnet-5-5 (rate_limit)" in second.record.reason


def test_the_routing_error_can_be_pickled() -> None:
    """It crosses processes as all errors do."""
    with pytest.raises(NoModelError) as caught:
        router().choose(RouteRequest(sticky="east:blind", images=True))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reasons) == (str(caught.value), {"east:blind": ("no_vision_support",)})
