"""Keeps the original entry of a document on the messages read from it, so that unchanged messages are written back
unchanged.

One entry of a document may become several messages. The first of them keeps the entry in its ``provider_raw``, under
the name of the format, with a digest of the messages. A writer of that format uses the entry if the digest
still matches, and writes the messages again if not. Every message keeps the document's own tool ids there.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.notes import add_note, read_note
from dragoman.canonical.message import Message
from dragoman.formats.document import iter_entries as iter_documents
from dragoman.formats.reading.tool_calls import ToolIdReader, report_repeated

_UNDIGESTED = {"provider_raw"}
_UNLABELLED = {"provider_raw", "labels"}
"""Stored digests of messages without labels are older than the field."""


def attach(messages: Sequence[Message], format_name: str, native: Mapping[str, Any]) -> list[Message]:
    """Return the messages of one entry, with the entry stored on the first of them."""
    first, *rest = messages
    note = {"native": dict(native), "messages": len(messages), "digest": _digest(messages)}
    return [add_note(first, format_name, note), *rest]


def read_entries(
    document: Any,
    format_name: str,
    label: str,
    read: Callable[[dict[str, Any], str, ToolIdReader], tuple[list[Message], dict[str, str]]],
    writer: Callable[[list[Message], dict[str, str]], Callable[[Message], list[dict[str, Any]]]],
) -> list[tuple[list[Message], dict[str, Any]]]:
    """Return the messages of each entry of a document, with the entry. They keep the entry and its ids, except a single
    message that would be written as the same entry again.

    ``read`` returns the messages of an entry and the document's own tool ids by ours. ``writer`` returns the function
    that writes messages of this history. Raises FormatError, with a path.
    """
    ids = ToolIdReader()
    entries = list(iter_documents(document, format_name=label))
    groups = [read(native, path, ids) for path, native in entries]
    report_repeated([messages for messages, _ in groups], [path for path, _ in entries])
    native_ids = {ours: theirs for _, group_ids in groups for ours, theirs in group_ids.items()}
    write = writer([message for messages, _ in groups for message in messages], native_ids)
    kept: list[tuple[list[Message], dict[str, Any]]] = []
    for (messages, group_ids), (_, native) in zip(groups, entries, strict=True):
        if group_ids:
            messages = [add_note(message, format_name, {"tool_ids": dict(group_ids)}) for message in messages]
        is_same = len(messages) == 1 and not group_ids and write(messages[0]) == [native]
        kept.append((messages if is_same else attach(messages, format_name, native), native))
    return kept


def recover(messages: Sequence[Message], start: int, format_name: str) -> tuple[dict[str, Any], int] | None:
    """Return the entry of the messages from ``start`` on, and how many they are; None if no entry matches."""
    found = noted_entry(messages[start], format_name)
    if found is None:
        return None
    group = messages[start : start + found[1]]
    if len(group) != found[1] or _digest(group) != read_note(messages[start], format_name).get("digest"):
        return None
    return found


def iter_entries(messages: Sequence[Message], format_name: str) -> Iterator[tuple[int, int, dict[str, Any] | None]]:
    """Yield the position of each entry's first message, how many messages it became, and the entry as it was read; None
    for a message that has to be written.
    """
    index = 0
    while index < len(messages):
        native, count = recover(messages, index, format_name) or (None, 1)
        yield index, count, native
        index += count


def noted_entry(message: Message, format_name: str) -> tuple[dict[str, Any], int] | None:
    """Return the entry stored on a message, and how many messages it became, even if they were changed."""
    note = read_note(message, format_name)
    count = note.get("messages")
    return (dict(note["native"]), count) if isinstance(count, int) and isinstance(note.get("native"), dict) else None


def tool_ids(messages: Sequence[Message], format_name: str) -> dict[str, str]:
    """Return the document's own tool ids of a whole history, by the canonical ones."""
    found: dict[str, str] = {}
    for message in messages:
        noted = read_note(message, format_name).get("tool_ids")
        found |= noted if isinstance(noted, dict) else {}
    return found


def _digest(messages: Sequence[Message]) -> str:
    """Return a digest of content and metadata; time, session and id do not count."""
    parts = [
        (
            message.role,
            message.channel,
            [block.model_dump(mode="json") for block in message.content],
            message.metadata.model_dump(mode="json", exclude=_UNDIGESTED if message.metadata.labels else _UNLABELLED),
        )
        for message in messages
    ]
    return hashlib.sha256(to_json(parts)).hexdigest()
