"""Replaces the model's name in the bytes of a request, and nothing else."""

import json
import re
from typing import Any

from dragoman_gateway.errors import ClientError

_KEY = b'"model"'
_VALUE = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")
"""An escape of a plain letter, with which a second key could hide."""
_BLANKS = re.compile(r"[ \t\r\n]*")
_decoder = json.JSONDecoder()


def replace_model(body: bytes, fields: dict[str, Any], name: str) -> bytes:
    """Return the body with another model's name. ``fields`` are those of the body.

    Raises ClientError if a field occurs twice: a provider could read another name than this gateway did.
    """
    span = _find_span(body)
    if fields["model"] == name:
        return body
    start, end = span
    return b"".join((body[:start], json.dumps(name).encode(), body[end:]))


def _find_span(body: bytes) -> tuple[int, int]:
    """Return where the value of the field model stands."""
    if body.count(_KEY) == 1 and not _ESCAPED_LETTER.search(body) and (found := _VALUE.search(body)):
        return found.span(1)
    return _scan(body.decode())


def _scan(text: str) -> tuple[int, int]:
    """Return the place of the value in the bytes, by reading all fields of the object."""
    seen: set[str] = set()
    span = (0, 0)
    position = _skip(text, _skip(text, 0) + 1)
    while text[position] != "}":
        key, position = _decoder.raw_decode(text, position)
        if key in seen:
            raise ClientError(f"the field {key!r:.80} occurs twice")
        seen.add(key)
        start = _skip(text, _skip(text, position) + 1)
        _, position = _decoder.raw_decode(text, start)
        if key == "model":
            span = len(text[:start].encode()), len(text[:position].encode())
        position = _skip(text, position)
        if text[position] == ",":
            position = _skip(text, position + 1)
    return span


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return position if found is None else found.end()
