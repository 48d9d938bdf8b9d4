"""Tools: functions that a model may call, their schemas, and the calls of a turn.

`dragoman.tools.mcp` adds the tools of an MCP server; it needs the extra `mcp` and is imported by its own name.
"""

from dragoman.tools.tool import Tool, tool
from dragoman.tools.toolbox import Toolbox

__all__ = ["Tool", "Toolbox", "tool"]
