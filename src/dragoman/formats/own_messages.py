"""Our own messages as JSON: a list, one per line, or those of a dumped session."""

from collections.abc import Sequence
from typing import Any

from dragoman.canonical.extensions.message_labels import label_messages
from dragoman.canonical.message import Message, read_message
from dragoman.formats.document import iter_entries, parse_json_or_lines, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.results import Conversion, as_history

FORMAT = "messages"
SESSION = "dragoman_session"
"""The key that identifies a dumped session."""


def to_messages(messages: Sequence[Message]) -> Conversion[list[dict[str, Any]]]:
    """Write messages with all their fields; nothing is lost."""
    return Conversion([message.model_dump(mode="json", exclude_none=True) for message in as_history(messages)])


def from_messages(document: Any) -> list[Message]:
    """Read messages of any version, with the labels that a session stores for them. Raises FormatError, with a path."""
    entries = parse_json_or_lines(document, format_name=FORMAT)
    at, extensions = "$", None
    if isinstance(entries, dict) and SESSION in entries:
        extensions = entries.get("extensions")
        entries, at = entries.get("messages"), "$.messages"
        if not isinstance(entries, list):
            raise FormatError("a session must have a list of messages", path=at)
        if extensions is not None and not isinstance(extensions, dict):
            raise FormatError("the extensions of a session must be an object", path="$.extensions")
    read: list[Message] = []
    for path, native in iter_entries(entries, format_name=FORMAT):
        entry_path = at + path.removeprefix("$")
        with validating(native, entry_path):
            try:
                read.append(read_message(native))
            except ValueError as error:
                if hasattr(error, "errors"):
                    raise
                raise FormatError(str(error)[:200], path=entry_path) from None
    kept = {name: each for name, each in extensions.items() if isinstance(each, dict)} if extensions else {}
    return [*label_messages(read, kept)]
