"""The routing decision: why this model answered the message. Source:
docs/reference/routing-and-events.md#decision-record.
"""

from enum import StrEnum

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Text
from dragoman.canonical.words import OpenEnum


class RoutingMode(OpenEnum):
    """Which link of the routing chain chose the model. Source: docs/reference/routing-and-events.md#chain."""

    OVERRIDE = "override"
    MANUAL = "manual"
    RULE = "rule"
    PATTERN = "pattern"
    DELEGATE = "delegate"
    DEFAULT = "default"


class Refusal(StrEnum):
    """Why a model cannot take a turn. Source: docs/reference/routing-and-events.md#validation."""

    NOT_CONFIGURED = "not_configured"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    NO_VISION_SUPPORT = "no_vision_support"
    EXCEEDS_CONTEXT_WINDOW = "exceeds_context_window"
    NO_TOOL_SUPPORT = "no_tool_support"
    NO_SYSTEM_PROMPT_SUPPORT = "no_system_prompt_support"
    NO_STRUCTURED_OUTPUT_SUPPORT = "no_structured_output_support"


class RoutingDecisionRecord(FrozenModel):
    """Why this model answered. Source: docs/reference/routing-and-events.md#decision-record."""

    mode: RoutingMode
    """Which link of the routing chain chose the model."""
    chosen_model: Text
    """The model, as ``provider:name``."""
    reason: Text
    """One sentence for people."""
    rule_name: Text | None = None
    """The rule that won, if a rule did."""
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The recommender's confidence, from 0 to 1, if a recommendation won."""
    alternatives_considered: tuple[Text, ...] = ()
    """The other models of the chain, in its order."""
