"""Finds out whether an adapter's notes make a request fail: a store or a program may have damaged them."""

from collections.abc import Sequence

from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition


def without_notes(
    messages: Sequence[Message], tools: Sequence[ToolDefinition]
) -> tuple[list[Message], list[ToolDefinition]] | None:
    """Return the history and the tools without provider_raw; None if there is none."""
    noted = [*(message.metadata.provider_raw for message in messages), *(tool.provider_raw for tool in tools)]
    if not any(noted):
        return None
    plain = [
        message.model_copy(update={"metadata": message.metadata.model_copy(update={"provider_raw": None})})
        for message in messages
    ]
    return plain, [tool.model_copy(update={"provider_raw": None}) for tool in tools]
