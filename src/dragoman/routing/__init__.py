"""Routing: chooses the model of a turn, and records why, and why not the others."""

from dragoman.adapter.errors import NoModelError
from dragoman.canonical.message_fields import Refusal
from dragoman.routing.availability import Availability, Outage, OutageThresholds
from dragoman.routing.configuration import ReplyFault, ReplyTest
from dragoman.routing.decision import Candidate, RefusalReason, RouteDecision, RoutingPolicy, Verdict
from dragoman.routing.request import Recommendation, Recommender, RouteRequest
from dragoman.routing.router import Router
from dragoman.routing.rules import Rule, When, label_rules

__all__ = [
    "Availability",
    "Candidate",
    "NoModelError",
    "Outage",
    "OutageThresholds",
    "Recommendation",
    "Recommender",
    "Refusal",
    "RefusalReason",
    "ReplyFault",
    "ReplyTest",
    "RouteDecision",
    "RouteRequest",
    "Router",
    "RoutingPolicy",
    "Rule",
    "Verdict",
    "When",
    "label_rules",
]
