"""Conversations in other shapes: read, written, and what a shape cannot carry listed as losses."""

from dragoman.formats.chatml import from_chatml, to_chatml
from dragoman.formats.cmf import extensions_in, from_cmf, to_cmf
from dragoman.formats.errors import FormatError
from dragoman.formats.native import from_native, to_native
from dragoman.formats.umf import from_umf, to_umf
from dragoman.formats.umf_events import from_umf_events
from dragoman.formats.umf_model import InternalMessage
from dragoman.formats.umf_tools import InternalTool, internal_tool, tool_definition, tool_from_mcp, tool_to_mcp
from dragoman.formats.written import Written

__all__ = [
    "FormatError",
    "InternalMessage",
    "InternalTool",
    "Written",
    "extensions_in",
    "from_chatml",
    "from_cmf",
    "from_native",
    "from_umf",
    "from_umf_events",
    "internal_tool",
    "to_chatml",
    "to_cmf",
    "to_native",
    "to_umf",
    "tool_definition",
    "tool_from_mcp",
    "tool_to_mcp",
]
