"""Parses JSON of clients: it refuses NaN and infinities, and whole numbers of thousands of digits."""

import json
import math
import re
import threading
from collections import Counter
from functools import partial
from typing import Any

from pydantic_core import from_json

_BEYOND = 2**63
_SHALLOW_PART = 150
_SHALLOW = 600
"""The number of arrays and objects up to which a text cannot be nested too deeply, whatever their order is."""


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_decoder = json.JSONDecoder(parse_constant=_refuse)
_LONG = 256 * 1024
"""Bytes of a text that Python's decoder would copy, with four bytes for each character if one needs them."""


def dumps(value: Any) -> bytes:
    """Return the JSON text of a value."""
    return _encoder.encode(value).encode()


def loads(body: bytes) -> Any:
    """Return the value of a JSON text in UTF-8. Raises ValueError."""
    if len(body) > _LONG or body.count(b"[") + body.count(b"{") > _SHALLOW:
        try:
            found = from_json(body, allow_inf_nan=False, cache_strings="keys")
        except ValueError as error:
            # Python's decoder would go on to the end of its stack, where the finalizers of any objects that are
            # collected meanwhile fail. Anything else it judges itself: it takes half a surrogate pair.
            if "recursion limit" in str(error):
                raise ValueError("it is nested too deeply") from None
        else:
            if len(body) > _LONG:
                return found
    return _decoder.decode(body.decode())


def loads_request(body: bytes) -> tuple[Any, bool]:
    """Return the value of a request's JSON text, and whether it holds a number beyond 64 bits. Raises ValueError, also
    for a name that occurs twice in one object: a provider could read the other value."""
    if body.count(b"[") + body.count(b"{") > _SHALLOW:
        _check_depth(body)
    _seen.large = False
    if len(body) > _LONG and not body.isascii():
        # Numbers and ASCII names are the same in a text of one byte a character, which takes a quarter of the memory.
        _seen.foreign = False
        _byte_decoder.decode(body.decode("latin-1"))
        if not _seen.foreign:
            return loads(body), _seen.large
    return _request_decoder.decode(body.decode()), _seen.large


def decode_part(text: str, position: int, depth: int) -> tuple[Any, int]:
    """Return the value that begins at a position of a request's JSON text, and the position after it. ``depth`` is the
    number of objects and arrays around it.

    Raises ValueError as `loads_request` does, and for a number beyond 64 bits.
    """
    _seen.large = False
    value, end = _request_decoder.raw_decode(text, position)
    if _seen.large:
        raise ValueError("a number has more than 64 bits")
    if end - position > _SHALLOW_PART and (
        text.count("[", position, end) + text.count("{", position, end) > _SHALLOW_PART
    ):
        _check_depth(b"[" * depth + text[position:end].encode() + b"]" * depth)
    return value, end


_BLANK = frozenset(" \t\r\n")
_BLANKS = re.compile(r"[ \t\r\n]*")


def skip_blanks(text: str, position: int) -> int:
    """Return the position of what stands behind blanks."""
    if text[position : position + 1] not in _BLANK:
        return position
    found = _BLANKS.match(text, position)
    return position if found is None else found.end()


def is_in_range(number: float) -> bool:
    """Whether a number, made whole, has at most 64 bits with its sign."""
    return -_BEYOND <= number < _BEYOND


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the field {twice!r:.80} occurs twice")
    return fields


def _read_byte_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = _read_object(pairs)
    _seen.foreign = _seen.foreign or not "".join(fields).isascii()
    return fields


class _Seen(threading.local):
    """What the decoder has met in the text that this thread decodes. A decoder for each text would take as long as most
    texts do."""

    large = False
    foreign = False
    """Whether a name has other characters than those of ASCII."""


_seen = _Seen()


def _read_number(text: str, kind: type[int] | type[float]) -> float:
    value = kind(text)
    if not -_BEYOND <= value < _BEYOND:
        if abs(value) == math.inf:  # what `isinf` cannot answer for a long whole number
            raise ValueError("a number is too large")
        _seen.large = True
    return value


_request_decoder, _byte_decoder = (
    json.JSONDecoder(
        parse_int=partial(_read_number, kind=int),
        parse_float=partial(_read_number, kind=float),
        parse_constant=_refuse,
        object_pairs_hook=hook,
    )
    for hook in (_read_object, _read_byte_object)
)


def _check_depth(body: bytes) -> None:
    """Raise ValueError for a text that is nested too deeply. Python's decoder would go on to the end of its stack,
    where the finalizers of any objects that are collected meanwhile fail."""
    try:
        from_json(body, cache_strings="none")
    except ValueError as error:
        if "recursion limit" in str(error):
            raise ValueError("it is nested too deeply") from None
