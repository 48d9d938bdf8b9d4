"""Tools that a provider runs, as a policy sees them: to offer one is to call it, as nobody is asked before it runs.

A tool that is not allowed is withheld: the request leaves without it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.extensions.mcp import ToolMetadata
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.canonical.tools.base import ServerTool
from dragoman.tools.tool import SIDE_EFFECTS

_SECRETS = frozenset({"authorization", "headers"})


def describe(tool: ToolDefinition, provider: str) -> ToolMetadata:
    """Return the metadata of a tool that a provider runs; the provider is its namespace."""
    return ToolMetadata(
        name=tool.name,
        description=tool.description or None,
        namespace=provider,
        annotations={
            SIDE_EFFECTS: str(tool.side_effects),
            "readOnlyHint": tool.side_effects in (SideEffects.NONE, SideEffects.READ),
            "openWorldHint": _reaches_the_web(tool),
        },
    )


def _reaches_the_web(tool: ToolDefinition) -> bool:
    """Whether code that the provider runs may send data elsewhere: its network is open unless a setting closes it."""
    return getattr(tool, "network", "off") != "off"


def settings_of(tool: ToolDefinition) -> dict[str, Any]:
    """Return the settings of a tool that a provider runs as JSON, without secrets."""
    names = tool.settings().keys() - _SECRETS if isinstance(tool, ServerTool) else set()
    return tool.model_dump(mode="json", include=names) if names else {}


def as_call(tool: ToolDefinition, session_id: str) -> Message:
    """Return the call that stands for the offer of a tool: its arguments are the settings, without secrets."""
    call = ToolUseBlock(id=f"offer_{tool.name}", name=tool.name, input=settings_of(tool))
    return Message(id=call.id, session_id=session_id, role=Role.ASSISTANT, content=(call,))


def without_choice(options: AdapterOptions, withheld: Iterable[str], *, any_left: bool) -> AdapterOptions:
    """Return the options without a choice of tools that the request no longer has."""
    choice = options.tool_choice
    is_gone = choice.name in withheld if isinstance(choice, NamedTool) else choice == "required" and not any_left
    return replace(options, tool_choice=None) if is_gone else options
