"""Why a message was answered by the model that answered it (specification D2)."""

from enum import StrEnum

from pydantic import Field

from dragoman.canonical.blocks import Frozen
from dragoman.canonical.guard import Text


class RoutingMode(StrEnum):
    OVERRIDE = "override"
    MANUAL = "manual"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE = "delegate"
    DEFAULT = "default"


class RoutingDecisionRecord(Frozen):
    mode: RoutingMode
    chosen_model: Text
    reason: Text
    rule_name: Text | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    alternatives_considered: tuple[Text, ...] = ()
