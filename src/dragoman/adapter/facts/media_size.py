"""The size of an image, a document or a recording, from its first bytes, and the tokens of an image of that size by the
rules that providers publish. Nothing else is decoded.
"""

import base64
import re
import struct
from math import ceil, sqrt
from typing import Literal, NamedTuple

from dragoman.canonical.blocks import FrozenModel

_MAX_HEAD = 64 * 1024
"""The number of base64 characters that are read: an image's size is at the start, after a camera's metadata at most."""
_MAX_PDF_SCAN = 2 * 1024 * 1024
"""The part of a document that is read; the rest is assumed to be similar."""
_PAGE = re.compile(rb"/Type\s*/Page\b")
_BYTES_PER_PAGE = 60_000
_MP3_BYTES_PER_SECOND = 16_000


class Size(NamedTuple):
    """The width and height of an image, in pixels."""

    width: int
    height: int


def image_size(data: str) -> Size | None:
    """Return the size of a PNG, JPEG, GIF or WebP in base64; None if it is missing or the format is another one."""
    head = _decode_base64(data[:_MAX_HEAD])
    try:
        if head.startswith(b"\x89PNG"):
            return Size(*struct.unpack(">II", head[16:24]))
        if head.startswith(b"GIF8"):
            return Size(*struct.unpack("<HH", head[6:10]))
        if head.startswith(b"\xff\xd8"):
            return _jpeg_size(head)
        if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
            return _webp_size(head)
    except (struct.error, IndexError):
        pass
    return None


def pdf_pages(data: str) -> int:
    """Return the pages of a PDF in base64, at least 1; estimated from its length if the page list is compressed."""
    scanned = data[:_MAX_PDF_SCAN]
    counted = len(_PAGE.findall(_decode_base64(scanned)))
    return counted * len(data) // max(1, len(scanned)) or 1 + len(data) * 3 // 4 // _BYTES_PER_PAGE


def audio_seconds(data: str) -> float:
    """Return the length of a recording in base64 in seconds: exact for WAV, else estimated at 128 kbit/s."""
    size = len(data) * 3 // 4
    head = _decode_base64(data[:64])
    if head.startswith(b"RIFF") and head[8:12] == b"WAVE" and len(head) >= 32:
        (rate,) = struct.unpack("<I", head[28:32])
        return size / rate if rate else 0.0
    return size / _MP3_BYTES_PER_SECOND


def _decode_base64(data: str) -> bytes:
    try:
        return base64.b64decode(data[: len(data) // 4 * 4])
    except ValueError:
        return b""


def _jpeg_size(head: bytes) -> Size | None:
    """Return the size in the frame header, after any number of other segments."""
    at = 2
    while head[at] == 0xFF:
        marker = head[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return Size(width, height)
        at += 2 + int(struct.unpack(">H", head[at + 2 : at + 4])[0])
    return None


def _webp_size(head: bytes) -> Size | None:
    if head[12:16] == b"VP8X":
        return Size(1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little"))
    if head[12:16] == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return Size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
    width, height = struct.unpack("<HH", head[26:30])
    return Size(width & 0x3FFF, height & 0x3FFF)


_DEFAULT_SIZE = Size(1024, 768)
"""The assumed size of an image whose size is unknown, such as one by URL."""


class ImageRule(FrozenModel):
    """One of four ways to count, after scaling the image down (never up) to ``longest`` and ``shortest`` pixels a side.

    ``flat``: ``fixed`` tokens whatever the size. ``area``: one for each ``pixels``. ``tiles``: ``fixed`` and ``each``
    for each square of ``side`` pixels. ``patches``: the same, where an image of over ``most`` squares is scaled to that
    many. No image counts more than ``most`` tokens or squares; ``low`` is the count of an image in low detail, if it
    differs.
    """

    rule: Literal["flat", "area", "tiles", "patches"] = "tiles"
    fixed: float = 85
    each: float = 170
    side: int = 512
    pixels: float = 750
    longest: int = 2048
    shortest: int = 768
    most: int = 6000
    low: float | None = None

    def tokens(self, size: Size | None, detail: str | None) -> float:
        if detail == "low" and self.low is not None:
            return self.low
        if self.rule == "flat":
            return self.fixed
        size = size or _DEFAULT_SIZE
        long, short = max(*size, 1), max(min(size), 1)
        factor = min(1.0, self.longest / long, self.shortest / short)
        if self.rule == "patches":
            factor = min(factor, sqrt(self.most * self.side**2 / (long * short)))
        width, height = long * factor, short * factor
        if self.rule == "area":
            return min(self.fixed + width * height / self.pixels, self.most)
        squares = ceil(width / self.side) * ceil(height / self.side)
        return self.fixed + self.each * min(squares, self.most)
