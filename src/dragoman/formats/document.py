"""Reads documents of other programs: JSON only, safe for a message, and with a path to every fault."""

import codecs
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError, from_json

from dragoman.canonical.guard import MAX_DOCUMENT_DEPTH, copy_json
from dragoman.formats.errors import FormatError

MAX_TEXT_BYTES = 1024 * 1024 * 1024
"""For a whole document; each of its messages has the size limit of a message."""

_MAX_REASON = 300
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_IS_UTF_16 = "this is UTF-16: convert it to UTF-8"


def parse(data: Any, *, format_name: str) -> Any:
    """Parse a JSON text; Python lists and dicts are returned as they are.

    Raises FormatError if the text is not JSON. Python values are not checked here: see `copy_json_at`.
    """
    if not isinstance(data, (str, bytes, bytearray)):
        return data
    if len(data) > MAX_TEXT_BYTES:
        raise FormatError(f"a document of {format_name} can have at most {MAX_TEXT_BYTES} bytes")
    if not isinstance(data, str) and data.startswith(_UTF_16):
        raise FormatError(_IS_UTF_16)
    try:
        text = data.encode() if isinstance(data, str) else bytes(data)
        return from_json(text.removeprefix(codecs.BOM_UTF8), allow_inf_nan=False)
    except ValueError as error:
        raise FormatError(_shorten(f"this is not valid JSON: {error}")) from None


def parse_or_none(data: Any, *, format_name: str) -> Any:
    """As `parse`; None if the text is not JSON."""
    try:
        return parse(data, format_name=format_name)
    except FormatError:
        return None


def read_document(path: Path) -> bytes:
    """Return the content of a file. Raises FormatError, without reading it, if no document can be so long; OSError."""
    if path.stat().st_size > MAX_TEXT_BYTES:
        raise FormatError(f"a document can have at most {MAX_TEXT_BYTES} bytes")
    return path.read_bytes()


def decode_text(data: str | bytes | bytearray) -> str:
    """Decode bytes. Raises FormatError if they are not UTF-8, or no text at all."""
    if isinstance(data, str):
        return data.removeprefix("\ufeff")
    if not isinstance(data, (bytes, bytearray)):
        raise FormatError(f"the document must be a text, not {kind_of(data)}")
    if data.startswith(_UTF_16):
        raise FormatError(_IS_UTF_16)
    try:
        return bytes(data).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"this is not UTF-8: byte {error.start}") from None


def parse_json_or_lines(data: Any, *, format_name: str) -> Any:
    """Parse a JSON document, or JSON lines with one object per line as a list.

    Raises FormatError, with the number of the line.
    """
    if not isinstance(data, (str, bytes, bytearray)):
        return data
    data = decode_text(data)
    lines = [line for line in data.split("\n") if line.strip()]
    starts = lines[0].lstrip() if len(lines) > 1 else ""
    if not starts.startswith("{") or parse_or_none(starts, format_name=format_name) is None:
        return parse(data, format_name=format_name)
    read = []
    for number, line in enumerate(lines):
        try:
            read.append(parse(line, format_name=format_name))
        except FormatError as error:
            raise FormatError(error.reason, path=f"$[{number}]") from None
    return read


def copy_json_at(value: Any, path: str = "$") -> Any:
    """Return a copy of a JSON value that shares nothing with it. Raises FormatError if a message could not hold it."""
    try:
        return copy_json(value, MAX_DOCUMENT_DEPTH)
    except PydanticCustomError as error:
        inner_path = str((error.context or {}).get("path", "$"))
        reason = error.message().removeprefix(inner_path).strip()
        raise FormatError(_shorten(reason), path=path + inner_path.removeprefix("$")) from None


def iter_entries(data: Any, *, format_name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a document that is a list of them, or a single one, each with its path."""
    value = parse(data, format_name=format_name)
    is_list = isinstance(value, (list, tuple))
    for index, item in enumerate(value if is_list else [value]):
        path = f"$[{index}]" if is_list else "$"
        copied = copy_json_at(item, path)
        if not isinstance(copied, dict):
            raise FormatError(f"an entry of {format_name} must be an object, not {kind_of(copied)}", path=path)
        yield path, copied


def read_list(value: Any, path: str) -> list[Any]:
    """Return a list of a document; null is an empty one. Raises FormatError if it is something else."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise FormatError(f"must be a list, not {kind_of(value)}", path=path)
    return value


def dig(value: Any, *steps: str) -> Any:
    """Return what is at the end of these steps in an object; None if there is no such object or field."""
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def text_in(*values: Any) -> str | None:
    """Return the first of these values that is a text, and not an empty one."""
    return next((value for value in values if isinstance(value, str) and value), None)


def objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list, without its other items; none of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def nested_objects_in(value: Any) -> list[dict[str, Any]]:
    """Return the objects of a list and of the lists in it."""
    items = value if isinstance(value, list) else []
    return objects_in([each for item in items for each in (item if isinstance(item, list) else [item])])


def kind_of(value: Any) -> str:
    """Return the JSON type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case dict():
            return "an object"
        case _:
            return "a list"


@contextmanager
def validating(value: Any, path: str) -> Iterator[None]:
    """Turn a pydantic error about ``value``, which is at ``path``, into a FormatError."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        reason = first["msg"]
        if error.error_count() > 1:
            reason += f" (and {error.error_count() - 1} more faults)"
        raise FormatError(_shorten(reason), path=path + _steps(value, first["loc"])) from None


def _steps(value: Any, location: Sequence[str | int]) -> str:
    """Return a pydantic location as a path, without the names of union members that pydantic puts between the keys.

    A key exists in the object, or is the last step if it is missing: any other word is such a name.
    """
    path = ""
    for number, step in enumerate(location, 1):
        if isinstance(step, int):
            path += f"[{step}]"
            value = value[step] if isinstance(value, (list, tuple)) and step < len(value) else None
        elif isinstance(value, dict) and (step in value or number == len(location)):
            path += f".{step}"
            value = value.get(step)
    return path


def _shorten(reason: str) -> str:
    return reason if len(reason) <= _MAX_REASON else reason[:_MAX_REASON] + "…"
