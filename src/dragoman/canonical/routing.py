"""Why a message was answered by the model that answered it (specification D2)."""

from enum import StrEnum

from pydantic import Field

from dragoman.canonical.blocks import Frozen


class RoutingMode(StrEnum):
    OVERRIDE = "override"
    MANUAL = "manual"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE = "delegate"
    DEFAULT = "default"


class RoutingDecisionRecord(Frozen):
    mode: RoutingMode
    chosen_model: str
    reason: str
    rule_name: str | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    alternatives_considered: tuple[str, ...] = ()
