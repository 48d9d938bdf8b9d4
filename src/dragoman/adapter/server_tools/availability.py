"""Which installed providers have a server tool, for error messages."""

from dragoman.adapter.registry import adapter_class, providers
from dragoman.canonical.tools.server import ServerTool


def providers_with(tool: ServerTool) -> tuple[str, ...]:
    """Return the providers that have the tool for some model."""
    return tuple(name for name in sorted(providers()) if tool.WORD in adapter_class(name).server_tools.rows)
