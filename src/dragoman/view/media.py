"""Media of a message as data URLs. The first bytes decide the type, not the declared one."""

import base64
import binascii

from dragoman.canonical.blocks import AudioBlock, ImageBlock, MediaBlock, MediaSource, VideoBlock

_HEAD = 64
"""Base64 characters that are inspected."""

_EMBEDDABLE: dict[type, tuple[str, tuple[str, ...]]] = {
    ImageBlock: ("img", ("image/png", "image/jpeg", "image/gif", "image/webp", "image/avif")),
    AudioBlock: ("audio", ("audio/wav", "audio/mpeg", "audio/ogg", "audio/flac", "audio/mp4")),
    VideoBlock: ("video", ("video/mp4", "video/webm")),
}
"""The HTML element that shows a block, and the types that it may have."""

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
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
"""The offset and first bytes of each type. SVG is excluded: it may contain scripts."""


def embed(block: MediaBlock) -> tuple[str, str]:
    """Return the HTML element that shows an image, audio or video, and its data URL.

    Both are empty if the block has no bytes here, or none of a known type.
    """
    tag, types = _EMBEDDABLE.get(type(block), ("", ()))
    if block.source.kind == "base64" and (media_type := detect_media_type(block.source.data)) in types:
        data = _decode_base64(block.source.data)
        if data is not None:
            return tag, f"data:{media_type};base64,{base64.b64encode(data).decode()}"
    return "", ""


def detect_media_type(data: str) -> str | None:
    """Return the media type of base64 data by its first bytes; None if it is not a known one."""
    head = _decode_base64(data[:_HEAD]) or b""
    return next(
        (media_type for at, signature, media_type in _SIGNATURES if head[at : at + len(signature)] == signature), None
    )


def size(source: MediaSource) -> int | None:
    """Return the size in bytes; None if the data is elsewhere."""
    match source.kind:
        case "base64":
            return len(source.data.rstrip("=")) * 3 // 4
        case "text":
            return len(source.data.encode())
        case _:
            return None


def _decode_base64(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
