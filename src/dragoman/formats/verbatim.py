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


def keep(messages: Sequence[Message], shape: str, native: Mapping[str, Any]) -> list[Message]:
    """The messages that one entry became, with the entry noted on the first of them."""
    first, *rest = messages
    kept = {"native": dict(native), "messages": len(messages), "digest": _digest(messages)}
    return [_noted(first, shape, kept), *rest]


def keep_ids(message: Message, shape: str, ids: Mapping[str, str]) -> Message:
    """The message with the document's own names for its calls, by their canonical ids."""
    return _noted(message, shape, {"tool_ids": dict(ids)}) if ids else message


def kept(messages: Sequence[Message], start: int, shape: str) -> tuple[dict[str, Any], int] | None:
    """The entry that the messages from ``start`` on were read from, and how many they are; None where none holds."""
    found = entry(messages[start], shape)
    if found is None:
        return None
    group = messages[start : start + found[1]]
    if len(group) != found[1] or _digest(group) != _note(messages[start], shape).get("digest"):
        return None
    return found


def entry(message: Message, shape: str) -> tuple[dict[str, Any], int] | None:
    """The entry that a message was the first to be read from, and how many were, whatever has changed since."""
    note = _note(message, shape)
    count = note.get("messages")
    return (dict(note["native"]), count) if isinstance(count, int) and isinstance(note.get("native"), dict) else None


def ids(messages: Sequence[Message], shape: str) -> dict[str, str]:
    """The document's own tool ids of a whole history, by the canonical ones."""
    found: dict[str, str] = {}
    for message in messages:
        found |= _note(message, shape).get("tool_ids", {})
    return found


def without(raw: Mapping[str, Any] | None, shape: str) -> dict[str, Any] | None:
    """``provider_raw`` without this module's note of a shape; None where nothing else was in it."""
    if raw is None or shape not in raw:
        return None if raw is None else dict(raw)
    rest = {name: value for name, value in raw.items() if name != shape}
    return None if rest == {"by": shape} else rest


def _note(message: Message, shape: str) -> dict[str, Any]:
    note = (message.metadata.provider_raw or {}).get(shape)
    return note if isinstance(note, dict) else {}


def _noted(message: Message, shape: str, note: Mapping[str, Any]) -> Message:
    raw = message.metadata.provider_raw or {"by": shape}
    changed = {**raw, shape: {**_note(message, shape), **note}}
    metadata = message.metadata.model_copy(update={"provider_raw": changed})
    return message.model_copy(update={"metadata": metadata})


def _digest(messages: Sequence[Message]) -> str:
    """Of what was said and what is known about it; when, where and under which id it was said does not count."""
    said = [
        (
            message.role,
            message.channel,
            [block.model_dump(mode="json") for block in message.content],
            message.metadata.model_dump(mode="json", exclude={"provider_raw"}),
        )
        for message in messages
    ]
    return hashlib.sha256(to_json(said)).hexdigest()
