"""Events: the parts of a reply as they stream, and session events, delivered without blocking the session.

A stream yields `TextDelta`, `MessageComplete` and the other members of `StreamEvent`. An `EventBus` delivers `Event`
objects, with a payload such as `TurnStarted`.
"""

from typing import TYPE_CHECKING

from dragoman.adapter.errors import EventError, EventOverflowError
from dragoman.canonical.events import (
    BackgroundProgress,
    ErrorEvent,
    MessageComplete,
    MessageStart,
    OutputComplete,
    OutputPartial,
    OutputProblem,
    OutputRetry,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.events.bus import EventBus
from dragoman.events.catalogue import (
    CATALOGUE,
    LlmCallCompleted,
    LlmCallFailed,
    LlmCallStarted,
    LlmReplyDrifted,
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
from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.events.telemetry import Telemetry

__all__ = [
    "CATALOGUE",
    "Actor",
    "BackgroundProgress",
    "ErrorEvent",
    "Event",
    "EventBus",
    "EventError",
    "EventOverflowError",
    "JsonLines",
    "LlmCallCompleted",
    "LlmCallFailed",
    "LlmCallStarted",
    "LlmReplyDrifted",
    "MessageComplete",
    "MessageStart",
    "ModelSwapRefused",
    "ModelSwapped",
    "OutputComplete",
    "OutputPartial",
    "OutputProblem",
    "OutputRetry",
    "Payload",
    "PolicyDeclassified",
    "PolicyDenied",
    "PolicyEvaluation",
    "PolicyHeadersWritten",
    "RouteDecided",
    "Sensitivity",
    "StreamEvent",
    "Subscription",
    "Telemetry",
    "TextDelta",
    "ThinkingDelta",
    "ToolCalled",
    "ToolCompleted",
    "ToolFailed",
    "ToolInputInvalid",
    "ToolProgress",
    "ToolUseEnd",
    "ToolUseInputDelta",
    "ToolUseStart",
    "TurnCancelled",
    "TurnCompleted",
    "TurnStarted",
    "UnknownPayload",
    "UsageUpdate",
    "read_event",
    "read_json_lines",
]

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), {"events.telemetry": ("Telemetry",)})  # it imports OpenTelemetry
