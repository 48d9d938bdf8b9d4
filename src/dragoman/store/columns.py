"""Values on their way into a column and back: text, time and JSON."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_core import from_json

from dragoman.adapter import wirejson
from dragoman.adapter.errors import RequestError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, check_text, own_json
from dragoman.store.errors import StoreError, UnreadableError
from dragoman.store.schema import MAX_ID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

MALFORMED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What reading data of any shape may raise; pydantic's ValidationError is a ValueError."""


def text(value: str) -> str:
    """PostgreSQL's text holds every character but U+0000, so that one is written as ``\\0``, and ``\\`` doubled.

    Raises StoreError where the text has a lone surrogate.
    """
    try:
        check_text(value)
    except ValueError as error:
        raise StoreError(f"a text cannot be stored: {error}") from None
    return value if "\\" not in value and "\0" not in value else value.replace("\\", "\\\\").replace("\0", "\\0")


def plain(stored: str) -> str:
    """What `text` was given."""
    return stored if "\\" not in stored else re.sub(r"\\([\\0])", lambda found: _PLAIN[found[1]], stored)


_PLAIN = {"\\": "\\", "0": "\0"}


def optional(value: str | None) -> str | None:
    return None if value is None else text(value)


def optional_plain(stored: str | None) -> str | None:
    return None if stored is None else plain(stored)


def key(value: str, what: str) -> str:
    """An id. Raises StoreError where no index can hold it."""
    stored = text(value)
    if not 0 < len(stored) <= MAX_ID:
        raise StoreError(f"{what} has {len(value)} characters: an id in the store has 1 to {MAX_ID}")
    return stored


def optional_key(value: str | None, what: str) -> str | None:
    return None if value is None else key(value, what)


def micros(time: datetime) -> int:
    """Raises StoreError where the time has no zone."""
    if time.tzinfo is None:
        raise StoreError("a time without a zone is no moment: give it tzinfo=UTC")
    return (time - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    return _EPOCH + stored * _MICROSECOND


def json_text(value: Any) -> str:
    """Raises StoreError where the value is no JSON."""
    try:
        return wirejson.dumps_text(own_json(value, MAX_DOCUMENT_DEPTH))
    except (ValueError, RequestError) as error:
        raise StoreError(f"an object cannot be stored as JSON: {error}") from None


def json_value(stored: str | None) -> Any:
    """None where there is none. Raises ValueError and TypeError where it is no JSON."""
    return None if stored is None else own_json(from_json(stored, allow_inf_nan=False), MAX_DOCUMENT_DEPTH)


def json_object(stored: str | None) -> dict[str, Any] | None:
    """As `json_value`. Raises ValueError where it is no object."""
    value = json_value(stored)
    if value is not None and not isinstance(value, dict):
        raise ValueError(f"a JSON object is due, not a {type(value).__name__}")
    return value


def optional_json(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else json_text(dict(value))


def unreadable(what: str, error: Exception) -> UnreadableError:
    """The error for a row or a line. What it holds is not shown."""
    return UnreadableError(f"{what} cannot be read: {type(error).__name__}: {error!s:.300}")
