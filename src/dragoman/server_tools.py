"""Tools that providers run, and tools that they define and the program runs (docs/server-tools.md)."""

from dragoman.canonical.server_tools import (
    ApplyPatch,
    Bash,
    CodeExecution,
    ComputerUse,
    FileSearch,
    ImageGeneration,
    McpServer,
    Memory,
    Shell,
    TextEditor,
    ToolSearch,
    UserLocation,
    WebFetch,
    WebSearch,
)
from dragoman.canonical.tools import ClientTool, CustomTool, ProviderTool, ServerTool

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
