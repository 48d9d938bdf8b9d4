"""Replaces the model's name, or the name of a field, in the bytes of a request, and nothing else."""

import json
import re
from collections.abc import Mapping
from typing import Any

from dragoman_gateway.errors import ClientError
from dragoman_gateway.json import skip_blanks

_KEY = b'"model"'
_VALUE = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")')
_ESCAPED_LETTER = re.compile(rb"\\u00[67]")
"""An escape of a plain letter, with which a second key could hide."""
_decoder = json.JSONDecoder()


def replace_model(body: bytes, fields: dict[str, Any], name: str) -> bytes:
    """Return the body with another model's name. ``fields`` are those of the body.

    Raises ClientError if a field occurs twice: a provider could read another name than this gateway did.
    """
    if body.count(_KEY) == 1 and not _ESCAPED_LETTER.search(body) and (found := _VALUE.search(body)):
        start, end = found.span(1)
    else:
        _, (start, end) = _scan(body.decode(), "model")
    if fields["model"] == name:
        return body
    return b"".join((body[:start], json.dumps(name).encode(), body[end:]))


def rename_fields(body: bytes, fields: Mapping[str, Any], names: Mapping[str, str]) -> bytes:
    """Return the body with new names of its own fields, by the old ones. A name that the body has already is left out.
    ``fields`` are those of the body."""
    for old, new in names.items():
        if fields.get(old) is not None and new not in fields:
            key = json.dumps(old).encode()
            if body.count(key) == 1 and b"\\u00" not in body:  # no other spelling of it
                start = body.index(key)
                end = start + len(key)
            else:
                (start, end), _ = _scan(body.decode(), old)
            body = b"".join((body[:start], json.dumps(new).encode(), body[end:]))
    return body


def _scan(text: str, name: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the places of a field's name and of its value in the bytes, by reading all fields of the object."""
    seen: set[str] = set()
    key_span = span = (0, 0)
    position = skip_blanks(text, skip_blanks(text, 0) + 1)
    while text[position] != "}":
        begin = position
        key, position = _decoder.raw_decode(text, position)
        if key in seen:
            raise ClientError(f"the field {key!r:.80} occurs twice")
        seen.add(key)
        key_end, start = position, skip_blanks(text, skip_blanks(text, position) + 1)
        _, position = _decoder.raw_decode(text, start)
        if key == name:
            key_span = len(text[:begin].encode()), len(text[:key_end].encode())
            span = len(text[:start].encode()), len(text[:position].encode())
        position = skip_blanks(text, position)
        if text[position] == ",":
            position = skip_blanks(text, position + 1)
    return key_span, span
