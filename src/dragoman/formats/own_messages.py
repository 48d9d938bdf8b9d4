"""Our own messages as JSON: a list of them, one a line, or those of a session that was dumped."""

from collections.abc import Sequence
from typing import Any

from dragoman.canonical.evolve import read_message
from dragoman.canonical.message import Message
from dragoman.formats.document import entries, lines_or_document, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.histories import as_history
from dragoman.formats.written import Written

SHAPE = "messages"
SESSION = "dragoman_session"
"""The key by which a dumped session is known."""


def to_messages(messages: Sequence[Message]) -> Written[list[dict[str, Any]]]:
    """All that there is to a message; nothing is lost."""
    return Written([message.model_dump(mode="json", exclude_none=True) for message in as_history(messages)])


def from_messages(document: Any) -> list[Message]:
    """The messages, whatever version wrote them. Raises FormatError, with a path."""
    listed = lines_or_document(document, shape=SHAPE)
    at = "$"
    if isinstance(listed, dict) and SESSION in listed:
        listed, at = listed.get("messages"), "$.messages"
        if not isinstance(listed, list):
            raise FormatError("a session has a list of messages", path=at)
    read: list[Message] = []
    for path, native in entries(listed, shape=SHAPE):
        where = at + path.removeprefix("$")
        with validating(native, where):
            try:
                read.append(read_message(native))
            except ValueError as error:
                if hasattr(error, "errors"):
                    raise
                raise FormatError(str(error)[:200], path=where) from None
    return read
