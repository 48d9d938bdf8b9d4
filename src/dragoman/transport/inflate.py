"""Decompresses bodies piece by piece: a kilobyte that expands to a gigabyte is never in memory at once."""

import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dragoman.adapter.errors import MalformedReplyError, StreamTruncatedError

if TYPE_CHECKING:
    from zlib import _Decompress

_MAX_PIECE = 256 * 1024
"""The maximum of bytes passed on at once."""
_GZIP = zlib.MAX_WBITS | 16
STREAM_RATIO = 100
"""How many times its size a compressed stream may expand: streams are requested uncompressed. Events in JSON expand
about twenty times; a bomb expands a thousand times."""
_FREE_BYTES = 1024 * 1024
"""Bytes that may come out whatever the ratio."""
_MAX_MEMBERS = 2048
"""The maximum of gzip members in a stream: each costs time, however small it is."""
_FEED_SIZE = 16 * 1024
"""Compressed bytes that are opened at once. zlib copies all that follows a member, so many small members in one large
piece would take quadratic time."""


class Inflater:
    """Decompresses one body: gzip (one or many members) or deflate (with or without the zlib header).

    ``max_ratio``: how many times its size the body may expand; None means any number of times.
    """

    def __init__(self, encoding: str, *, max_ratio: int | None = None) -> None:
        self._max_ratio = max_ratio
        self._taken = 0
        self._given = 0
        self._members = 1
        self._gzip = encoding in ("gzip", "x-gzip")
        self._decompressor: _Decompress | None = zlib.decompressobj(_GZIP) if self._gzip else None
        self._head = b""
        self._fed = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the plain bytes, in pieces of at most 256 KiB. Raises MalformedReplyError for invalid data."""
        for start in range(0, len(data), _FEED_SIZE):
            compressed = data[start : start + _FEED_SIZE]
            self._taken += len(compressed)
            for piece in self._feed(compressed):
                self._given += len(piece)
                if self._max_ratio and self._given > max(_FREE_BYTES, self._max_ratio * self._taken):
                    raise MalformedReplyError(f"the compressed reply expands to over {self._max_ratio} times its size")
                yield piece

    def _feed(self, data: bytes) -> Iterator[bytes]:
        self._fed = self._fed or bool(data)
        if self._decompressor is None:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            has_zlib_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._decompressor = zlib.decompressobj(zlib.MAX_WBITS if has_zlib_header else -zlib.MAX_WBITS)
        while data:
            if self._decompressor.eof:
                if not self._gzip or not data.strip(b"\0"):
                    return
                self._members += 1
                if self._max_ratio and self._members > _MAX_MEMBERS:
                    raise MalformedReplyError(f"the compressed reply has over {_MAX_MEMBERS} parts")
                self._decompressor = zlib.decompressobj(_GZIP)
            piece = _inflate(self._decompressor, data)
            while piece:
                yield piece
                if self._decompressor.eof:
                    break  # what follows this member is in unused_data, and also in unconsumed_tail
                # Output may still wait inside after all input is taken; it is over when a piece is not full.
                more = self._decompressor.unconsumed_tail
                piece = _inflate(self._decompressor, more) if more or len(piece) == _MAX_PIECE else b""
            data = self._decompressor.unused_data

    def finish(self) -> None:
        """Raise StreamTruncatedError if the compressed data is incomplete."""
        if self._fed and (self._decompressor is None or not self._decompressor.eof):
            raise StreamTruncatedError("the compressed reply is incomplete")


def _inflate(decompressor: "_Decompress", data: bytes) -> bytes:
    try:
        return decompressor.decompress(data, _MAX_PIECE)
    except zlib.error:
        raise MalformedReplyError("the reply's compressed data is damaged") from None


def inflater_for(encoding: str, *, max_ratio: int | None = None) -> Inflater | None:
    """Return the decompressor for a content-encoding; None if the body is plain.

    Raises MalformedReplyError for an encoding that was not requested.
    """
    normalized = encoding.strip().lower()
    if normalized in ("identity", ""):
        return None
    if normalized in ("gzip", "x-gzip", "deflate"):
        return Inflater(normalized, max_ratio=max_ratio)
    raise MalformedReplyError(f"the reply is compressed as {normalized!r:.40}, which was not requested")
