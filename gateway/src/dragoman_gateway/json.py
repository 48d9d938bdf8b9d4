"""JSON of clients: without NaN and infinities, and without whole numbers of thousands of digits."""

import json
from typing import Any


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_decoder = json.JSONDecoder(parse_constant=_refuse)


def dumps(value: Any) -> bytes:
    """Return the JSON text of a value."""
    return _encoder.encode(value).encode()


def loads(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8. Raises ValueError."""
    return _decoder.decode(body.decode())
