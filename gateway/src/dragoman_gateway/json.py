"""JSON of clients: without NaN and infinities, and without whole numbers of thousands of digits."""

import json
from typing import Any

from pydantic_core import from_json

_SHALLOW = 600
"""Arrays and objects that cannot be nested too deeply, whatever their order is."""


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_decoder = json.JSONDecoder(parse_constant=_refuse)


def dumps(value: Any) -> bytes:
    """Return the JSON text of a value."""
    return _encoder.encode(value).encode()


def loads(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8. Raises ValueError."""
    if body.count(b"[") + body.count(b"{") > _SHALLOW:
        _check_depth(body)
    return _decoder.decode(body.decode())


def _check_depth(body: bytes) -> None:
    """Raise ValueError for a text that is nested too deeply. Python's decoder would go on to the end of its stack,
    where the finalizers of any objects that are collected meanwhile fail."""
    try:
        from_json(body, cache_strings="none")
    except ValueError as error:
        if "recursion limit" in str(error):
            raise ValueError("it is nested too deeply") from None
