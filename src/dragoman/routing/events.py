"""A decision as the event ``route.decided``: the whole chain, with the reasons against each candidate."""

from functools import lru_cache

from dragoman.events.catalogue import PolicyEvaluation, RouteDecided
from dragoman.routing.decision import Candidate, RouteDecision, RoutingPolicy, Verdict


def to_event(decision: RouteDecision, elapsed_ms: float) -> RouteDecided:
    """Return the event of a decision. ``elapsed_ms`` is the duration of the decision, measured by the caller."""
    return RouteDecided(
        chosen_model=decision.model,
        winner_index=decision.winner_index,
        elapsed_ms=elapsed_ms,
        chain=tuple(map(_to_evaluation, decision.chain)),
    )


@lru_cache(maxsize=256)  # the same for each turn of a session
def own_model_event(model: str, reason: str) -> RouteDecided:
    """Return the event of a turn without a router: the session's own model answers."""
    link = Candidate(policy=RoutingPolicy.MANUAL_STICKY, model=model, reason=reason, verdict=Verdict.CHOSE)
    return RouteDecided(chosen_model=model, winner_index=0, elapsed_ms=0.0, chain=(_to_evaluation(link),))


def _to_evaluation(link: Candidate) -> PolicyEvaluation:
    failures = tuple(str(refused.name) for refused in link.refusals)
    return PolicyEvaluation.model_validate(
        {
            "policy": str(link.policy),
            "verdict": str(link.verdict),
            "candidate_model": link.model,
            "reason": link.reason,
            "rule_name": link.rule_name,
            "confidence": link.confidence,
            "pattern_alternatives": link.alternatives or None,
            "validation_failure": failures[0] if failures else None,
            "validation_failures": failures,
            "failure": link.failure,
        }
    )
