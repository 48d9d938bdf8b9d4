"""JSON as the wires speak it: exact integers, no NaN, no guessing.

pydantic-core's parser keeps integers of any length, refuses NaN and stops at 200 levels; the same library writes.
"""

from typing import Any

from pydantic_core import from_json, to_json

from dragoman.adapter.errors import MalformedReplyError, RequestError


def loads(data: bytes | str, *, what: str = "the reply") -> Any:
    """Raises MalformedReplyError where the data is not JSON."""
    try:
        return from_json(data, allow_inf_nan=False, cache_strings="keys")
    except ValueError as error:
        raise MalformedReplyError(f"{what} is not valid JSON: {error}") from None


def loads_object(data: bytes | str, *, what: str = "the reply") -> dict[str, Any]:
    """Raises MalformedReplyError where the data is not a JSON object."""
    value = loads(data, what=what)
    if not isinstance(value, dict):
        raise MalformedReplyError(f"{what} is a JSON {type(value).__name__}, not an object")
    return value


def dumps(value: Any) -> bytes:
    """Compact UTF-8 in insertion order: the same value gives the same bytes in every process."""
    try:
        return to_json(value)
    except ValueError as error:
        raise RequestError(f"the request cannot be written as JSON: {error}") from None


def dumps_text(value: Any) -> str:
    return dumps(value).decode()


def parse_arguments(text: str) -> tuple[dict[str, Any], str | None]:
    """A tool call's arguments: the object, or an empty one and the text as received where it is no object.

    Empty text means no arguments. Half an object is never completed: it could run with other defaults.
    """
    if not text.strip():
        return {}, None
    try:
        value = from_json(text, allow_inf_nan=False)
    except ValueError:
        return {}, text
    return (value, None) if isinstance(value, dict) else ({}, text)
