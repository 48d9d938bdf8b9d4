"""Dragoman: one conversation with any large language model, handed from model to model.

What a swap cannot carry is a named loss, the cost of a reply is exact or marked as unknown, and a stream that was cut
is never reported as complete. Importing this package opens no socket, reads no secret and imports no vendor SDK: each
name is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
    from dragoman.adapter.errors import DragomanError
    from dragoman.adapter.facts.capabilities import AdapterCapabilities
    from dragoman.adapter.losses import Loss
    from dragoman.adapter.registry import get_adapter
    from dragoman.adapter.wire import WireRequest, WireResponse
    from dragoman.canonical.blocks import ImageBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
    from dragoman.canonical.message import Message, Role
    from dragoman.canonical.tools import SideEffects, ToolDefinition
    from dragoman.canonical.usage import Usage
    from dragoman.session import AsyncSession, Session, ask
    from dragoman.tools import Tool, tool

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

_EXPORTS = {
    "adapter.facts.capabilities": ("AdapterCapabilities",),
    "adapter.contract": ("Adapter", "AdapterOptions", "RequestContext"),
    "adapter.errors": ("DragomanError",),
    "adapter.losses": ("Loss",),
    "adapter.registry": ("get_adapter",),
    "adapter.wire": ("WireRequest", "WireResponse"),
    "canonical.blocks": ("ImageBlock", "TextBlock", "ThinkingBlock", "ToolResultBlock", "ToolUseBlock"),
    "canonical.message": ("Message", "Role"),
    "canonical.tools": ("SideEffects", "ToolDefinition"),
    "canonical.usage": ("Usage",),
    "session": ("AsyncSession", "Session", "ask"),
    "tools": ("Tool", "tool"),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
