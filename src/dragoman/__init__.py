"""Dragoman: one conversation, spoken to any large language model, handed from model to model without silent loss."""

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

__all__ = [
    "Adapter",
    "AdapterCapabilities",
    "AdapterOptions",
    "DragomanError",
    "ImageBlock",
    "Loss",
    "Message",
    "RequestContext",
    "Role",
    "SideEffects",
    "TextBlock",
    "ThinkingBlock",
    "ToolDefinition",
    "ToolResultBlock",
    "ToolUseBlock",
    "Usage",
    "WireRequest",
    "WireResponse",
    "get_adapter",
]
