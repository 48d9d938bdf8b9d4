"""What a document said beyond what messages hold: kept as it was, for as long as the messages are as they were.

One entry of a document may become several messages. The first of them keeps the entry in its ``provider_raw``, under
the name of the shape, with a digest of what was read from it; a writer of that shape gives the entry back where that
still holds, and writes the messages anew where it does not. Every message keeps the document's own tool ids there.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from dragoman.canonical.message import Message


def attach(messages: Sequence[Message], format_name: str, native: Mapping[str, Any]) -> list[Message]:
    """The messages that one entry became, with the entry noted on the first of them."""
    first, *rest = messages
    note = {"native": dict(native), "messages": len(messages), "digest": _digest(messages)}
    return [_add_note(first, format_name, note), *rest]


def attach_ids(message: Message, format_name: str, tool_ids: Mapping[str, str]) -> Message:
    """The message with the document's own names for its calls, by their canonical ids."""
    return _add_note(message, format_name, {"tool_ids": dict(tool_ids)}) if tool_ids else message


def recover(messages: Sequence[Message], start: int, format_name: str) -> tuple[dict[str, Any], int] | None:
    """The entry that the messages from ``start`` on were read from, and how many they are; None where none holds."""
    found = noted_entry(messages[start], format_name)
    if found is None:
        return None
    group = messages[start : start + found[1]]
    if len(group) != found[1] or _digest(group) != _note(messages[start], format_name).get("digest"):
        return None
    return found


def noted_entry(message: Message, format_name: str) -> tuple[dict[str, Any], int] | None:
    """The entry that a message was the first to be read from, and how many were, whatever has changed since."""
    note = _note(message, format_name)
    count = note.get("messages")
    return (dict(note["native"]), count) if isinstance(count, int) and isinstance(note.get("native"), dict) else None


def tool_ids(messages: Sequence[Message], format_name: str) -> dict[str, str]:
    """The document's own tool ids of a whole history, by the canonical ones."""
    found: dict[str, str] = {}
    for message in messages:
        found |= _note(message, format_name).get("tool_ids", {})
    return found


def strip_note(raw: Mapping[str, Any] | None, format_name: str) -> dict[str, Any] | None:
    """``provider_raw`` without this module's note of a shape; None where nothing else was in it."""
    if raw is None or format_name not in raw:
        return None if raw is None else dict(raw)
    rest = {name: value for name, value in raw.items() if name != format_name}
    return None if rest == {"by": format_name} else rest


def _note(message: Message, format_name: str) -> dict[str, Any]:
    note = (message.metadata.provider_raw or {}).get(format_name)
    return note if isinstance(note, dict) else {}


def _add_note(message: Message, format_name: str, note: Mapping[str, Any]) -> Message:
    raw = message.metadata.provider_raw or {"by": format_name}
    changed = {**raw, format_name: {**_note(message, format_name), **note}}
    metadata = message.metadata.model_copy(update={"provider_raw": changed})
    return message.model_copy(update={"metadata": metadata})


def _digest(messages: Sequence[Message]) -> str:
    """Of what was said and what is known about it; when, where and under which id it was said does not count."""
    parts = [
        (
            message.role,
            message.channel,
            [block.model_dump(mode="json") for block in message.content],
            message.metadata.model_dump(mode="json", exclude={"provider_raw"}),
        )
        for message in messages
    ]
    return hashlib.sha256(to_json(parts)).hexdigest()
