"""A session as JSON lines: a header, then a line for each message and each attempt.

The header states the number of lines, so that a truncated file is detected.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic_core import from_json

from dragoman.adapter import wirejson
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, copy_json
from dragoman.canonical.message import Message, read_message, write_message
from dragoman.store.columns import MALFORMED_DATA_ERRORS, unreadable_error, wrong_class
from dragoman.store.errors import StoreVersionError, UnreadableError
from dragoman.store.records import SessionRecord, StoredSession

VERSION = 1
"""The current version. Every version ever written stays readable."""


def write(stored: StoredSession) -> Iterator[str]:
    yield wirejson.dumps_text(
        {
            "dragoman_store": VERSION,
            "session": stored.record.model_dump(mode="json", exclude_none=True),
            "tool_ids": stored.tool_ids,
            "messages": len(stored.messages),
            "inherited": stored.inherited,
            "attempts": len(stored.attempts),
        }
    )
    for message in stored.messages:
        line: dict[str, Any] = {"message": from_json(write_message(message))}
        if message.id in stored.extensions:
            line["extensions"] = stored.extensions[message.id]
        yield wirejson.dumps_text(line)
    for attempt in stored.attempts:
        yield wirejson.dumps_text({"attempt": from_json(write_message(attempt))})


def read(lines: Iterable[str | bytes]) -> StoredSession:
    """Read the output of `write`; empty lines are skipped. Raises UnreadableError, naming the line, for malformed or
    missing lines, StoreVersionError for a newer version, and StoreError for what is not an iterable of lines.
    """
    if isinstance(lines, (str, bytes)) or not isinstance(lines, Iterable):
        raise wrong_class("lines", "an iterable of lines, such as a file,", lines)
    numbered = (
        (number, line) for number, line in enumerate(lines, 1) if not isinstance(line, (str, bytes)) or line.strip()
    )
    header = _parse_object(*next(numbered, (1, "null")))
    version = header.get("dragoman_store")
    if isinstance(version, int) and version > VERSION:
        raise StoreVersionError(f"the lines are of version {version}: upgrade dragoman to read them")
    try:
        if version != VERSION:
            raise ValueError("this is not an exported session of a store")
        record = SessionRecord.model_validate(header["session"], extra="ignore")
        tool_ids = dict(header["tool_ids"])
        expected_counts = (int(header["messages"]), int(header["attempts"]))
        inherited = int(header["inherited"])
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error("line 1", error) from None
    messages: list[Message] = []
    attempts: list[Message] = []
    extensions: dict[str, dict[str, Any]] = {}
    for number, line in numbered:
        entry = _parse_object(number, line)
        try:
            if "attempt" in entry:
                attempts.append(read_message(entry["attempt"]))
                continue
            messages.append(read_message(entry["message"]))
            if "extensions" in entry:
                extensions[messages[-1].id] = dict(entry["extensions"])
        except MALFORMED_DATA_ERRORS as error:
            raise unreadable_error(f"line {number}", error) from None
    if (len(messages), len(attempts)) != expected_counts:
        raise UnreadableError(
            f"{expected_counts[0]} messages and {expected_counts[1]} attempts are due, and {len(messages)} "
            f"and {len(attempts)} are there: the"
            " lines are not all of the session"
        )
    return StoredSession(record, tuple(messages), tool_ids, tuple(attempts), extensions, inherited)


def _parse_object(number: int, line: str | bytes) -> dict[str, Any]:
    try:
        value = copy_json(from_json(line, allow_inf_nan=False), MAX_DOCUMENT_DEPTH + 2)
    except MALFORMED_DATA_ERRORS as error:
        raise unreadable_error(f"line {number}", error) from None
    if not isinstance(value, dict):
        raise UnreadableError(f"line {number} is not a JSON object")
    return value
