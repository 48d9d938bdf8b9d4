"""Dragoman: one conversation with any large language model, handed from model to model.

What a swap cannot carry is a named loss, the cost of a reply is exact or marked as unknown, and a stream that was cut
is never reported as complete. Importing this package opens no socket, reads no secret and imports no vendor SDK: each
name is loaded when it is first used.

It has the names that most programs type. `dragoman.errors` has all errors, `dragoman.blocks` all kinds of content,
`dragoman.messages` what belongs to a message, and `dragoman.events` the events of streams and sessions. Every other
name is in the package of its subject: `dragoman.policy`, `dragoman.routing`, `dragoman.formats` and so on.
"""

from typing import TYPE_CHECKING, Any

from dragoman.lazy_names import lazy_names

if TYPE_CHECKING:
    from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
    from dragoman.adapter.errors import (
        AuthenticationError,
        BudgetExceededError,
        ConfigurationError,
        ContextOverflowError,
        DragomanError,
        MissingKeyError,
        ProviderError,
        RateLimitError,
        RequestTimeoutError,
        StreamTruncatedError,
        SwapRefusedError,
    )
    from dragoman.adapter.facts.capabilities import AdapterCapabilities
    from dragoman.adapter.losses import Loss
    from dragoman.adapter.registry import get_adapter
    from dragoman.adapter.wire import WireRequest, WireResponse
    from dragoman.canonical.blocks import (
        DocumentBlock,
        ImageBlock,
        MediaSource,
        TextBlock,
        ThinkingBlock,
        ToolResultBlock,
        ToolUseBlock,
    )
    from dragoman.canonical.events import MessageComplete, TextDelta, ThinkingDelta, ToolUseEnd, ToolUseStart
    from dragoman.canonical.message import Message, Role, StopReason
    from dragoman.canonical.tools import SideEffects, ToolDefinition
    from dragoman.canonical.usage import Usage
    from dragoman.client import AsyncClient, Client, set_default_client
    from dragoman.events import EventBus
    from dragoman.limits import Budget, Limit, Limits
    from dragoman.policy import Pipeline, Plugin, PolicyDeniedError
    from dragoman.pricing import cost, price_table
    from dragoman.routing import Router
    from dragoman.session import AsyncReplyStream, AsyncSession, Reply, ReplyStream, Session, ToolAnswered, ask
    from dragoman.store import Store
    from dragoman.tools import Tool, tool

__all__ = [
    "Adapter",
    "AdapterCapabilities",
    "AdapterOptions",
    "AsyncClient",
    "AsyncReplyStream",
    "AsyncSession",
    "AuthenticationError",
    "Budget",
    "BudgetExceededError",
    "Client",
    "ConfigurationError",
    "ContextOverflowError",
    "DocumentBlock",
    "DragomanError",
    "EventBus",
    "ImageBlock",
    "Limit",
    "Limits",
    "Loss",
    "MediaSource",
    "Message",
    "MessageComplete",
    "MissingKeyError",
    "Pipeline",
    "Plugin",
    "PolicyDeniedError",
    "ProviderError",
    "RateLimitError",
    "Reply",
    "ReplyStream",
    "RequestContext",
    "RequestTimeoutError",
    "Role",
    "Router",
    "Session",
    "SideEffects",
    "StopReason",
    "Store",
    "StreamTruncatedError",
    "SwapRefusedError",
    "TextBlock",
    "TextDelta",
    "ThinkingBlock",
    "ThinkingDelta",
    "Tool",
    "ToolAnswered",
    "ToolDefinition",
    "ToolResultBlock",
    "ToolUseBlock",
    "ToolUseEnd",
    "ToolUseStart",
    "Usage",
    "WireRequest",
    "WireResponse",
    "ask",
    "cost",
    "get_adapter",
    "price_table",
    "set_default_client",
    "tool",
]

_EXPORTS = {
    "adapter.contract": (
        "Adapter",
        "AdapterOptions",
        "RequestContext",
    ),
    "adapter.errors": (
        "AuthenticationError",
        "BudgetExceededError",
        "ConfigurationError",
        "ContextOverflowError",
        "DragomanError",
        "MissingKeyError",
        "ProviderError",
        "RateLimitError",
        "RequestTimeoutError",
        "StreamTruncatedError",
        "SwapRefusedError",
    ),
    "adapter.facts.capabilities": ("AdapterCapabilities",),
    "adapter.losses": ("Loss",),
    "adapter.registry": ("get_adapter",),
    "adapter.wire": (
        "WireRequest",
        "WireResponse",
    ),
    "canonical.blocks": (
        "DocumentBlock",
        "ImageBlock",
        "MediaSource",
        "TextBlock",
        "ThinkingBlock",
        "ToolResultBlock",
        "ToolUseBlock",
    ),
    "canonical.events": (
        "MessageComplete",
        "TextDelta",
        "ThinkingDelta",
        "ToolUseEnd",
        "ToolUseStart",
    ),
    "canonical.message": (
        "Message",
        "Role",
        "StopReason",
    ),
    "canonical.tools": (
        "SideEffects",
        "ToolDefinition",
    ),
    "canonical.usage": ("Usage",),
    "client": ("AsyncClient", "Client", "set_default_client"),
    "events": ("EventBus",),
    "limits": (
        "Budget",
        "Limit",
        "Limits",
    ),
    "policy": (
        "Pipeline",
        "Plugin",
        "PolicyDeniedError",
    ),
    "pricing": (
        "cost",
        "price_table",
    ),
    "routing": ("Router",),
    "session": (
        "AsyncReplyStream",
        "AsyncSession",
        "Reply",
        "ReplyStream",
        "Session",
        "ToolAnswered",
        "ask",
    ),
    "store": ("Store",),
    "tools": (
        "Tool",
        "tool",
    ),
}

__version__: str

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    _load, __dir__ = lazy_names(globals(), _EXPORTS)

    def __getattr__(name: str) -> Any:
        if name == "__version__":
            from importlib.metadata import version

            return version(__name__)
        return _load(name)
