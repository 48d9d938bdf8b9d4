"""Routing: which model a turn goes to, who said so, and what spoke against the others."""

from dragoman.adapter.errors import NoModelError
from dragoman.canonical.routing import Refusal
from dragoman.routing.availability import Availability, Limits, Outage
from dragoman.routing.chain import Router
from dragoman.routing.decision import Candidate, Policy, RouteDecision, Verdict
from dragoman.routing.label_rules import label_rules
from dragoman.routing.request import Recommendation, Recommender, RouteRequest
from dragoman.routing.rules import Rule, When
from dragoman.routing.validation import Refused

__all__ = [
    "Availability",
    "Candidate",
    "Limits",
    "NoModelError",
    "Outage",
    "Policy",
    "Recommendation",
    "Recommender",
    "Refusal",
    "Refused",
    "RouteDecision",
    "RouteRequest",
    "Router",
    "Rule",
    "Verdict",
    "When",
    "label_rules",
]
