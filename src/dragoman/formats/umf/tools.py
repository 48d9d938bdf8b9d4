"""Lossless conversions between the tools of MCP, of UMF and ours. Source: docs/reference/umf.md#tools."""

from typing import Any, Self

from pydantic import Field

from dragoman.adapter.notes import read_tool_note, tool_note
from dragoman.canonical.guard import copy_json
from dragoman.canonical.tools import SideEffects, ToolDefinition
from dragoman.formats.document import copy_json_at, kind_of, parse, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.umf.models import UmfModel

_SPECIFIED = {"title": "mcp_title", "outputSchema": "mcp_output_schema", "annotations": "mcp_annotations"}
_OTHERS = "mcp_others"
"""The fields of an MCP tool that UMF does not define, and the mark of a missing description."""
_SIDE_EFFECTS = "dragoman_side_effects"
_NEEDS_WORKSPACE = "dragoman_requires_workspace"


class InternalTool(UmfModel):
    """UMF's own form: ``parameters`` is a JSON Schema, keys of ``metadata`` start with the protocol that they come
    from.
    """

    name: str
    """The name under which the tool is offered."""
    description: str = ""
    """What the tool does, for the model."""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    metadata: dict[str, Any] = Field(default_factory=dict)

    def with_metadata(self, key: str, value: Any) -> Self:
        """Return a copy with this key set."""
        return self.model_copy(update={"metadata": {**self.metadata, key: copy_json(value)}})

    def has_metadata(self, key: str) -> bool:
        """Return whether ``metadata`` has this key."""
        return key in self.metadata


def tool_from_mcp(data: Any) -> InternalTool:
    """Read a tool as an MCP server lists it. Raises FormatError, with a path."""
    native = copy_json_at(parse(data, format_name="MCP"))
    if not isinstance(native, dict):
        raise FormatError(f"a tool of MCP must be an object, not {kind_of(native)}")
    schema = native.get("inputSchema")
    if not isinstance(schema, dict):
        raise FormatError("a tool of MCP must have an inputSchema, which is an object", path="$.inputSchema")
    metadata = {umf_key: native[mcp_key] for mcp_key, umf_key in _SPECIFIED.items() if mcp_key in native}
    handled = {"name", "inputSchema", *_SPECIFIED} | ({"description"} if native.get("description") else set())
    if others := {name: value for name, value in native.items() if name not in handled}:
        metadata[_OTHERS] = others
    read = {"name": native.get("name"), "description": native.get("description") or ""}
    with validating(native, "$"):
        return InternalTool.model_validate({**read, "parameters": schema, "metadata": metadata})


def tool_to_mcp(tool: InternalTool) -> dict[str, Any]:
    """Write the tool as an MCP server lists it; metadata of other protocols is left out."""
    others = tool.metadata.get(_OTHERS)
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    written["inputSchema"] = copy_json(tool.parameters)
    written |= {
        mcp_key: copy_json(tool.metadata[umf_key])
        for mcp_key, umf_key in _SPECIFIED.items()
        if umf_key in tool.metadata
    }
    for name, value in (others if isinstance(others, dict) else {}).items():
        written.setdefault(name, copy_json(value))
    return written


def tool_definition(tool: InternalTool, *, trusted: bool = False) -> ToolDefinition:
    """Return our form. What a server or a document says of side effects is not believed: the worst is assumed.

    ``trusted``: the document is the program's own, and its word of side effects holds."""
    effects = tool.metadata.get(_SIDE_EFFECTS) if trusted else None
    known = {str(each): each for each in SideEffects}
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        input_schema=tool.parameters,
        side_effects=known.get(str(effects), SideEffects.EXECUTE),
        requires_workspace=tool.metadata.get(_NEEDS_WORKSPACE) is not False,
        provider_raw=tool_note("umf", tool.metadata),
    )


def internal_tool(tool: ToolDefinition) -> InternalTool:
    """Return UMF's form, with the metadata that the definition was made from."""
    metadata = read_tool_note(tool, "umf")
    if tool.side_effects is not SideEffects.EXECUTE:
        metadata[_SIDE_EFFECTS] = str(tool.side_effects)
    if not tool.requires_workspace or _NEEDS_WORKSPACE in metadata:
        metadata[_NEEDS_WORKSPACE] = tool.requires_workspace
    return InternalTool(name=tool.name, description=tool.description, parameters=tool.input_schema, metadata=metadata)
