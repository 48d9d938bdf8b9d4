"""JSON as providers use it: exact integers, no NaN, no repair. Dotted paths, such as ``reasoning.effort``, name its
values.

pydantic-core's parser refuses NaN, integers of over 4,300 digits and more than 200 levels; the same library writes. A
number beyond a double's range, such as 1e999, still parses as infinity. To look for it here would take longer than the
parsing itself, for every event of a stream; the canonical form refuses it in a message.
"""

from functools import cache, partial
from typing import Any

from pydantic_core import from_json, to_json

from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, copy_json

_parse = partial(from_json, allow_inf_nan=False, cache_strings="keys")


def loads(data: bytes | str, *, what: str = "the reply") -> Any:
    """Parse JSON. Raises MalformedReplyError if the data is not JSON."""
    try:
        return _parse(data)
    except ValueError as error:
        raise _not_json_error(what, error) from None


def loads_object(data: bytes | str, *, what: str = "the reply") -> dict[str, Any]:
    """Parse a JSON object. Raises MalformedReplyError if the data is not a JSON object."""
    try:
        value = _parse(data)
    except ValueError as error:
        raise _not_json_error(what, error) from None
    if not isinstance(value, dict):
        raise MalformedReplyError(f"{what} is a JSON {type(value).__name__}, not an object")
    return value


def _not_json_error(what: str, error: ValueError) -> MalformedReplyError:
    return MalformedReplyError(f"{what} is not valid JSON: {error}")


def dumps(value: Any) -> bytes:
    """Write JSON as compact UTF-8, in insertion order: the same value gives the same bytes in every process.

    Raises RequestError if the value cannot be written as JSON: NaN, infinity, a lone surrogate, another type.
    """
    try:
        data = to_json(value)
        # NaN and infinity are the words that differ in the other mode. Most texts have no such letter; base64 has both.
        if (
            (b"N" in data or b"I" in data)
            and (b"NaN" in data or b"Infinity" in data)
            and to_json(value, inf_nan_mode="null") != data
        ):
            copy_json(value, MAX_DOCUMENT_DEPTH)
    except ValueError as error:
        raise RequestError(f"the request cannot be written as JSON: {error}") from None
    return data


def dumps_text(value: Any) -> str:
    return dumps(value).decode()


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """Parse a tool call's arguments: the object, or an empty one and the text as received if it is not an object.

    Empty text means no arguments. Half an object is never completed: it could run with other defaults. An object that
    no message holds (a number beyond a double's range, too many levels) stays a text like any other.
    """
    if not text.strip():
        return {}, None
    try:
        value = copy_json(from_json(text, allow_inf_nan=False))
    except ValueError:
        return {}, text
    return (value, None) if isinstance(value, dict) else ({}, text)


Path = str
"""The dotted path of a value in a JSON object."""


@cache
def split_path(path: Path) -> tuple[str, ...]:
    """Return the names on a path."""
    return tuple(path.split("."))


def lookup_path(native: Any, path: Path) -> Any:
    """Return the value at a path; None if there is none."""
    for name in split_path(path):
        if not isinstance(native, dict):
            return None
        native = native.get(name)
    return native


def assign_path(body: dict[str, Any], path: Path, value: Any) -> None:
    """Set the value at a path and create the objects on the way."""
    *outer, name = split_path(path)
    for step in outer:
        body = body.setdefault(step, {})
    body[name] = value
