"""Tools as a policy sees them: what they do with data, and those that a provider runs.

To offer a tool that a provider runs is to call it, as nobody is asked before it runs. One that is not allowed is
withheld: the request leaves without it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.extensions.slots import ToolMetadata
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.canonical.tools.base import ServerTool
from dragoman.tools.tool import ACTIONS, SIDE_EFFECTS, Tool

_ACTIONS = {
    SideEffects.READ: ("read",),
    SideEffects.WRITE: ("write",),
    SideEffects.EXECUTE: ("execute",),
    SideEffects.NETWORK: ("export",),
}
"""What a tool does with its input, as data policies name it."""
_SECRETS = frozenset({"authorization", "headers"})
_READ_ONLY = (SideEffects.NONE, SideEffects.READ)


def tool_metadata(tool: Tool | None) -> ToolMetadata | None:
    """Return the metadata of the tool's server, else that of its definition."""
    if tool is None:
        return None
    metadata = getattr(tool, "metadata", None)
    if isinstance(metadata, ToolMetadata):
        return metadata
    effects = tool.definition.side_effects
    return ToolMetadata(
        name=tool.name,
        description=tool.definition.description or None,
        input_schema=tool.definition.input_schema,
        annotations={SIDE_EFFECTS: str(effects), "readOnlyHint": effects in _READ_ONLY},
    )


def actions_of(tool: ToolMetadata | None) -> tuple[str, ...]:
    """Return what the tool does with data, as data policies name it. An unknown tool is never run."""
    if tool is None:
        return ()
    annotations: Mapping[str, Any] = tool.annotations
    effects = annotations.get(SIDE_EFFECTS)
    declared = annotations.get(ACTIONS) or ()
    known = _ACTIONS.get(SideEffects(effects), ()) if effects in list(SideEffects) else ()
    outside = ("export",) if annotations.get("openWorldHint") else ()
    return tuple(dict.fromkeys((*known, *outside, *(str(each) for each in declared))))


def describe(tool: ToolDefinition, provider: str) -> ToolMetadata:
    """Return the metadata of a tool that a provider runs; the provider is its namespace."""
    return ToolMetadata(
        name=tool.name,
        description=tool.description or None,
        namespace=provider,
        annotations={
            SIDE_EFFECTS: str(tool.side_effects),
            "readOnlyHint": tool.side_effects in _READ_ONLY,
            # Code that the provider runs may send data elsewhere, unless a setting closes its network.
            "openWorldHint": getattr(tool, "network", "off") != "off",
        },
    )


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
