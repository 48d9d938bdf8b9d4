"""Messages and what belongs to one: its metadata, its usage, and its stored form."""

from dragoman.canonical.message import (
    Alternative,
    Channel,
    InputTransformation,
    Message,
    MessageMetadata,
    MessageStatus,
    Role,
    StopReason,
    read_message,
    write_message,
)
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.rules import check
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage

__all__ = [
    "Alternative",
    "Channel",
    "CostStatus",
    "InputTransformation",
    "Message",
    "MessageMetadata",
    "MessageStatus",
    "Role",
    "RoutingDecisionRecord",
    "RoutingMode",
    "StopReason",
    "TokenUsage",
    "Usage",
    "check",
    "read_message",
    "write_message",
]
