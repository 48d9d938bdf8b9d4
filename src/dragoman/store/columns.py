"""Converts values to columns and back: text, time and JSON. Checks what programs pass to a store."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import ValidationError
from pydantic_core import from_json

from dragoman.adapter import wirejson
from dragoman.adapter.errors import RequestError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, check_text, copy_json
from dragoman.canonical.message import Message
from dragoman.sql import MAX_ID
from dragoman.store.errors import StoreError, UnreadableError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MALFORMED_DATA_ERRORS = (ValueError, TypeError, KeyError, AttributeError, ArithmeticError, RecursionError)
"""Errors that reading malformed data may raise; pydantic's ValidationError is a ValueError."""
_ESCAPES = {"\\": "\\", "0": "\0"}
_MAX_MISTAKES = 3


def read_messages(name: str, messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return the messages. Raises StoreError if they are not a list of Message."""
    wrong: Any = messages
    if isinstance(messages, Iterable) and not isinstance(messages, (str, bytes, Message)):
        found = tuple(messages)
        if all(isinstance(each, Message) for each in found):
            return found
        wrong = next(each for each in found if not isinstance(each, Message))
    raise wrong_class(name, "a list of Message, such as [Message.user(...)],", wrong)


def read_mapping(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value as a dict. Raises StoreError if it is not a mapping."""
    if not isinstance(value, Mapping):
        raise wrong_class(name, "a dict", value)
    return dict(value)


def check_integer(name: str, value: int) -> None:
    """Raise StoreError if the value is not an integer."""
    if not isinstance(value, int):
        raise wrong_class(name, "an integer", value)


def wrong_class(name: str, wanted: str, value: object) -> StoreError:
    """Return the error of a value that is not what was wanted."""
    return StoreError(f"{name} must be {wanted} and has a value of the class {type(value).__name__}")


def encode_text(value: str) -> str:
    """Encode U+0000, which PostgreSQL's text cannot hold, as ``\\0``, and double ``\\``.

    Raises StoreError if it is not text, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise StoreError(f"a text is needed, not a value of the class {type(value).__name__}")
    try:
        check_text(value)
    except ValueError as error:
        raise StoreError(f"a text cannot be stored: {error}") from None
    return value if "\\" not in value and "\0" not in value else value.replace("\\", "\\\\").replace("\0", "\\0")


def decode_text(stored: str) -> str:
    """The inverse of `encode_text`."""
    return stored if "\\" not in stored else re.sub(r"\\([\\0])", lambda found: _ESCAPES[found[1]], stored)


def encode_optional(value: str | None) -> str | None:
    return None if value is None else encode_text(value)


def decode_optional(stored: str | None) -> str | None:
    return None if stored is None else decode_text(stored)


def encode_id(value: str, what: str) -> str:
    """Encode an id. Raises StoreError if it is not text, or if no index can hold it."""
    if not isinstance(value, str):
        raise StoreError(f"{what} must be a text such as 'sess_1', not a value of the class {type(value).__name__}")
    stored = encode_text(value)
    if not 0 < len(stored) <= MAX_ID:
        raise StoreError(f"{what} has {len(value)} characters: an id in the store must have 1 to {MAX_ID}")
    return stored


def encode_optional_id(value: str | None, what: str) -> str | None:
    return None if value is None else encode_id(value, what)


def to_micros(time: datetime) -> int:
    """Return the microseconds since 1970, UTC. Raises StoreError if it is not a time, or has no zone."""
    if not isinstance(time, datetime):
        raise wrong_class("a time", "a datetime, such as datetime.now(UTC),", time)
    if time.tzinfo is None:
        raise StoreError("a time needs a time zone: set tzinfo=UTC")
    return (time - _EPOCH) // _MICROSECOND


def from_micros(stored: int) -> datetime:
    return _EPOCH + stored * _MICROSECOND


def encode_json(value: Any) -> str:
    """Return the value as JSON text. Raises StoreError if it is not JSON."""
    try:
        return wirejson.dumps_text(copy_json(value, MAX_DOCUMENT_DEPTH))
    except (ValueError, RequestError) as error:
        raise StoreError(f"an object cannot be stored as JSON: {error}") from None


def decode_json(stored: str | None) -> Any:
    """Return the value of a JSON text; None for None. Raises ValueError and TypeError if it is not JSON."""
    return None if stored is None else copy_json(from_json(stored, allow_inf_nan=False), MAX_DOCUMENT_DEPTH)


def decode_json_object(stored: str | None) -> dict[str, Any] | None:
    """As `decode_json`. Raises ValueError if it is not an object."""
    value = decode_json(stored)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, not a {type(value).__name__}")
    return value


def encode_optional_json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else encode_json(dict(value))


def unreadable_error(what: str, error: Exception) -> UnreadableError:
    """Return the error for a malformed row or line. It does not show the content."""
    return UnreadableError(f"{what} cannot be read: {describe_mistake(error)}")


def describe_mistake(error: Exception) -> str:
    """Describe why a value is invalid, without the value: it may be part of a conversation."""
    if not isinstance(error, ValidationError):
        # Python quotes a value in its message, as in "'x' is not a valid Role".
        text = str(error)
        return type(error).__name__ if "'" in text or '"' in text else f"{type(error).__name__}: {text:.300}"
    mistakes = error.errors(include_input=False, include_url=False, include_context=False)
    shown = []
    for mistake in mistakes[:_MAX_MISTAKES]:
        # The keys of a caller's own objects are content, and fields of ours are short names.
        parts = [str(part) for part in mistake["loc"][:4]]
        place = ".".join(part if part.isidentifier() or part.isdigit() else "?" for part in parts)[:80] or "?"
        shown.append(f"{place}: {mistake['type']}")
    return f"{len(mistakes)} invalid values ({'; '.join(shown)})"
