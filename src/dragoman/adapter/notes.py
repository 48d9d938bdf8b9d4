"""The notes in ``provider_raw``. Their content belongs to the adapter that wrote them. This module has what all of them
share: packages above the adapters read and write notes only through these functions and through methods of the adapter.

``by`` names the writer, and ``tool_ids`` holds the provider's own ids of calls by the canonical ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition

_BY = "by"


def raw_notes(message: Message) -> Mapping[str, Any] | None:
    """Return all notes on a message, for people to look at."""
    return message.metadata.provider_raw


def read_note(message: Message, name: str) -> dict[str, Any]:
    """Return the note of that name on a message; empty if there is none, or if it is damaged."""
    note = (message.metadata.provider_raw or {}).get(name)
    return note if isinstance(note, dict) else {}


def add_note(message: Message, name: str, note: Mapping[str, Any]) -> Message:
    """Return the message with fields added to the note of that name. Without other notes it becomes the writer."""
    raw = message.metadata.provider_raw or {_BY: name}
    changed = {**raw, name: {**read_note(message, name), **note}}
    metadata = message.metadata.model_copy(update={"provider_raw": changed})
    return message.model_copy(update={"metadata": metadata})


def strip_note(metadata: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return dumped metadata without the note of that name, and without ``provider_raw`` if nothing else is in it."""
    raw = metadata.get("provider_raw")
    if raw is None or name not in raw:
        return dict(metadata)
    rest = {key: value for key, value in raw.items() if key != name}
    kept = {key: value for key, value in metadata.items() if key != "provider_raw"}
    return kept if rest == {_BY: name} else {**kept, "provider_raw": rest}


def native_tool_ids(message: Message) -> dict[str, str]:
    """Return the provider's own ids of the calls of a message, by the canonical ones."""
    return {ours: theirs for ours, theirs in read_note(message, "tool_ids").items() if isinstance(theirs, str)}


def is_foreign_tool(tool: ToolDefinition) -> bool:
    """Whether the tool was read from a document or a request, so that the program did not describe it itself."""
    return tool.provider_raw is not None


def own_notes(tool: ToolDefinition, provider: str) -> Mapping[str, Any]:
    """Return the notes of that provider's adapter on a tool; empty if another adapter wrote them."""
    raw = tool.provider_raw
    return raw if raw is not None and raw.get(_BY) == provider else {}


def tool_note(name: str, note: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return ``provider_raw`` of a tool with a format's note on it; None if the note is empty."""
    return {_BY: name, "metadata": dict(note)} if note else None


def read_tool_note(tool: ToolDefinition, name: str) -> dict[str, Any]:
    """Return a format's note on a tool; empty if another wrote it."""
    raw = tool.provider_raw or {}
    note = raw.get("metadata") if raw.get(_BY) == name else None
    return dict(note) if isinstance(note, dict) else {}


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
