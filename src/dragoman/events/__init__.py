"""Session events, delivered to subscribers without blocking the session."""

from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import EventError, EventOverflowError
from dragoman.events.bus import EventBus
from dragoman.events.catalogue import (
    CATALOGUE,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    ModelSwapped,
    ModelSwapRefused,
    PolicyDeclassified,
    PolicyDenied,
    PolicyEvaluation,
    PolicyHeadersWritten,
    RouteDecided,
    ToolCalled,
    ToolCompleted,
    ToolFailed,
    ToolInputInvalid,
    TurnCancelled,
    TurnCompleted,
    TurnStarted,
)
from dragoman.events.event import Actor, Event, Payload, Sensitivity, UnknownPayload, read_event
from dragoman.events.json_lines import JsonLines, read_json_lines
from dragoman.events.subscription import Subscription
from dragoman.events.umf import history_to_umf, signal_to_umf

if TYPE_CHECKING:
    from dragoman.events.telemetry import Telemetry

__all__ = [
    "CATALOGUE",
    "Actor",
    "Event",
    "EventBus",
    "EventError",
    "EventOverflowError",
    "JsonLines",
    "LlmCallCompleted",
    "LlmCallFailed",
    "LlmCallStarted",
    "ModelSwapRefused",
    "ModelSwapped",
    "Payload",
    "PolicyDeclassified",
    "PolicyDenied",
    "PolicyEvaluation",
    "PolicyHeadersWritten",
    "RouteDecided",
    "Sensitivity",
    "Subscription",
    "Telemetry",
    "ToolCalled",
    "ToolCompleted",
    "ToolFailed",
    "ToolInputInvalid",
    "TurnCancelled",
    "TurnCompleted",
    "TurnStarted",
    "UnknownPayload",
    "history_to_umf",
    "read_event",
    "read_json_lines",
    "signal_to_umf",
]


def __getattr__(name: str) -> Any:
    """Import OpenTelemetry only when it is used."""
    if name == "Telemetry":
        from dragoman.events.telemetry import Telemetry

        return Telemetry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
