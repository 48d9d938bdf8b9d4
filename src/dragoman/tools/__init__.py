"""Tools: functions that a model may call, their schemas, and the calls of a turn.

`dragoman.tools.mcp` adds the tools of an MCP server; it needs the extra `mcp` and is imported by its own name.
"""

from dragoman.adapter.options import NamedTool
from dragoman.tools.context import CallDeferred, Context, Deferred, ModelRetry, Progress
from dragoman.tools.tool import Tool, tool
from dragoman.tools.toolbox import Toolbox, Toolset

__all__ = [
    "CallDeferred",
    "Context",
    "Deferred",
    "ModelRetry",
    "NamedTool",
    "Progress",
    "Tool",
    "Toolbox",
    "Toolset",
    "tool",
]
