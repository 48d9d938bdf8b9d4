"""The routing decision: why this model answered the message. Source:
docs/reference/routing-and-events.md#decision-record.
"""

from enum import StrEnum

from pydantic import Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import Text
from dragoman.canonical.words import OpenEnum


class RoutingMode(OpenEnum):
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
    mode: RoutingMode
    chosen_model: Text
    reason: Text
    rule_name: Text | None = None
    confidence: float | None = Field(default=None, ge=0, le=1)
    alternatives_considered: tuple[Text, ...] = ()
