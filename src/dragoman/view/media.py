"""Media of a message as data URLs. What they are is told by their first bytes, whatever they are called."""

import base64
import binascii
from typing import NamedTuple

from dragoman.canonical.blocks import AudioBlock, DocumentBlock, ImageBlock, MediaSource, VideoBlock

MediaBlock = ImageBlock | AudioBlock | VideoBlock | DocumentBlock

_HEAD = 64
"""Base64 characters that are looked at."""

_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")
_SOUNDS = ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4")
_FILMS = ("video/mp4", "video/webm")
_SHOWN = {ImageBlock: _PICTURES, AudioBlock: _SOUNDS, VideoBlock: _FILMS}

_MARKS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "image/png"),
    (0, b"\xff\xd8\xff", "image/jpeg"),
    (0, b"GIF87a", "image/gif"),
    (0, b"GIF89a", "image/gif"),
    (8, b"WEBP", "image/webp"),
    (4, b"ftypavif", "image/avif"),
    (8, b"WAVE", "audio/wav"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf3", "audio/mpeg"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (4, b"ftypM4A", "audio/mp4"),
    (4, b"ftyp", "video/mp4"),
    (0, b"\x1aE\xdf\xa3", "video/webm"),
    (0, b"%PDF-", "application/pdf"),
)
"""Where a kind's first bytes stand, and what they are; SVG is not among them: it may hold scripts."""


class Shown(NamedTuple):
    """``tag`` is the element of HTML that plays it."""

    tag: str
    url: str


_TAGS = {ImageBlock: "img", AudioBlock: "audio", VideoBlock: "video"}


def shown(block: MediaBlock) -> Shown | None:
    """The block as something to look at or listen to; None where its bytes are elsewhere, or no such thing."""
    kinds = _SHOWN.get(type(block))
    if kinds is None or block.source.kind != "base64":
        return None
    found = sniffed(block.source.data)
    whole = _decoded(block.source.data) if found in kinds else None
    if whole is None:
        return None
    return Shown(_TAGS[type(block)], f"data:{found};base64,{base64.b64encode(whole).decode()}")


def sniffed(data: str) -> str | None:
    """The media type that base64 data begins like; None where it is not one of those that are known here."""
    head = _decoded(data[:_HEAD]) or b""
    return next((kind for at, mark, kind in _MARKS if head[at : at + len(mark)] == mark), None)


def size(source: MediaSource) -> int | None:
    """Bytes; None where they are elsewhere."""
    match source.kind:
        case "base64":
            return len(source.data.rstrip("=")) * 3 // 4
        case "text":
            return len(source.data.encode())
        case _:
            return None


def _decoded(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
