"""Tools: functions that the caller runs, and tools that providers run."""

from dragoman.canonical.tools.base import KEYWORDS, SideEffects, ToolDefinition, schema_problems

__all__ = ["KEYWORDS", "SideEffects", "ToolDefinition", "schema_problems"]
