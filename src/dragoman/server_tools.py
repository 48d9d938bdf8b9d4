"""Tools that providers run, and tools that they define and the program runs (docs/server-tools.md)."""

from dragoman.canonical.tools.base import ClientTool, ProviderTool, ServerTool
from dragoman.canonical.tools.client import (
    ApplyPatch,
    Bash,
    ComputerUse,
    CustomTool,
    Memory,
    Shell,
    TextEditor,
)
from dragoman.canonical.tools.server import (
    CodeExecution,
    FileSearch,
    ImageGeneration,
    McpServer,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
)

__all__ = [
    "ApplyPatch",
    "Bash",
    "ClientTool",
    "CodeExecution",
    "ComputerUse",
    "CustomTool",
    "FileSearch",
    "ImageGeneration",
    "McpServer",
    "Memory",
    "ProviderTool",
    "ServerTool",
    "Shell",
    "TextEditor",
    "ToolSearch",
    "UserLocation",
    "WebFetch",
    "WebSearch",
]
