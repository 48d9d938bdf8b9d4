"""A decision as the event ``route.decided``: the whole chain, with the reasons against each candidate."""

from dragoman.events.catalogue import PolicyEvaluation, RouteDecided
from dragoman.routing.decision import Candidate, RouteDecision


def to_event(decision: RouteDecision, elapsed_ms: float) -> RouteDecided:
    """``elapsed_ms`` is the duration of the decision, measured by the caller."""
    return RouteDecided(
        chosen_model=decision.model,
        winner_index=decision.winner_index,
        elapsed_ms=elapsed_ms,
        chain=tuple(map(_to_evaluation, decision.chain)),
    )


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
