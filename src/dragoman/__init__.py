"""Dragoman: one conversation, spoken to any large language model, and handed from model to model.

What a swap cannot carry is a named loss, what a reply costs is exact or said to be unknown, and a stream that was cut
is never taken for a complete one. Importing this opens no socket, reads no secret and imports no vendor SDK.
"""

from typing import TYPE_CHECKING, Any

from dragoman.adapter.capabilities import AdapterCapabilities
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.losses import Loss
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import ImageBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.canonical.usage import Usage

if TYPE_CHECKING:
    from dragoman.session import AsyncSession, Session, Tool, ask, tool

__all__ = [
    "Adapter",
    "AdapterCapabilities",
    "AdapterOptions",
    "AsyncSession",
    "DragomanError",
    "ImageBlock",
    "Loss",
    "Message",
    "RequestContext",
    "Role",
    "Session",
    "SideEffects",
    "TextBlock",
    "ThinkingBlock",
    "Tool",
    "ToolDefinition",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "WireRequest",
    "WireResponse",
    "ask",
    "get_adapter",
    "tool",
]

_IN_SESSION = ("AsyncSession", "Session", "Tool", "ask", "tool")


def __getattr__(name: str) -> Any:
    """Sessions bring the transports along, so they are loaded when the first of their names is used."""
    if name not in _IN_SESSION:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dragoman import session

    for each in _IN_SESSION:
        globals()[each] = getattr(session, each)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
