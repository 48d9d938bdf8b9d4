"""Counts the values of a JSON text before it is parsed: a few bytes of each become a hundred in memory."""

import re
from collections.abc import Iterator, Sequence

from dragoman_gateway.errors import BodyTooLargeError

_BACKSLASHES = re.compile(rb"\\*+")
_PIECE = 64 * 1024
"""Bytes that are looked at in one step, between which other threads run."""


def check_values(texts: Sequence[bytes], most: int, what: str = "the body has") -> None:
    """Raise BodyTooLargeError if the texts have more values than that together. They need not be JSON: what a parser
    makes of them before it stops is counted."""
    if sum(map(len, texts)) <= most:
        return
    pieces = (text[start : start + _PIECE] for text in texts for start in range(0, len(text), _PIECE))
    if sum(map(_count_beginnings, pieces)) <= most:
        return  # although some of these may stand in strings
    count = 0
    for text in texts:
        for plain in _without_strings(text):
            count += _count_beginnings(plain)
            if count > most:
                raise BodyTooLargeError(
                    f"{what} more than {most} values, such as objects, lists and texts: send a part of it"
                )


def count_values(text: bytes) -> int:
    """Return the number of values in a text, but for the first one."""
    return sum(map(_count_beginnings, _without_strings(text)))


def _count_beginnings(text: bytes) -> int:
    # Each value but the first of all stands behind one of these.
    return sum(map(text.count, (b"{", b"[", b",")))


def _without_strings(body: bytes) -> Iterator[bytes]:
    """Yield the text without its strings, piece by piece. One that does not end hides all behind it."""
    start = opened = 0
    while start < len(body):
        end = start + _PIECE
        if body[end - 1 : end] == b"\\" and (escapes := _BACKSLASHES.match(body, end)) is not None:
            end = escapes.end() + 1  # not between a backslash and what it escapes
        parts = body[start:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[opened::2])  # each other one stands between two quotes
        start, opened = end, (opened + len(parts) - 1) % 2
