"""Messages of frameworks for agents, and of the protocols that they share."""

from dragoman.formats.importers.frameworks.autogen import from_autogen
from dragoman.formats.importers.frameworks.google_adk import from_google_adk, from_google_adk_file
from dragoman.formats.importers.frameworks.haystack import from_haystack
from dragoman.formats.importers.frameworks.llama_index import from_llama_index
from dragoman.formats.importers.frameworks.mcp import from_mcp

__all__ = [
    "from_autogen",
    "from_google_adk",
    "from_google_adk_file",
    "from_haystack",
    "from_llama_index",
    "from_mcp",
]
