"""Encodes media for Converse: a format instead of a media type, bytes as base64, a name for each document.

Source: docs.aws.amazon.com/bedrock/latest/APIReference, ImageBlock, DocumentBlock, VideoBlock and AudioBlock.
"""

import base64
import re
from collections.abc import Callable
from typing import Any

from dragoman.canonical.blocks import AudioBlock, DocumentBlock, ImageBlock, VideoBlock

MEDIA_TYPES = {
    "image": {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"},
    "document": {
        "pdf": "application/pdf",
        "csv": "text/csv",
        "doc": "application/msword",
        "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "xls": "application/vnd.ms-excel",
        "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "html": "text/html",
        "txt": "text/plain",
        "md": "text/markdown",
    },
    "video": {
        "mp4": "video/mp4",
        "mov": "video/quicktime",
        "mkv": "video/x-matroska",
        "webm": "video/webm",
        "flv": "video/x-flv",
        "mpeg": "video/mpeg",
        "mpg": "video/mpg",
        "wmv": "video/x-ms-wmv",
        "three_gp": "video/3gpp",
    },
    "audio": {
        "mp3": "audio/mpeg",
        "wav": "audio/wav",
        "flac": "audio/flac",
        "aac": "audio/aac",
        "ogg": "audio/ogg",
        "opus": "audio/opus",
        "m4a": "audio/mp4",
        "webm": "audio/webm",
        "pcm": "audio/pcm",
    },
}
"""Media types by kind of block and format."""

_FORMATS = {kind: {media: name for name, media in formats.items()} for kind, formats in MEDIA_TYPES.items()}
_DEFAULT_FORMATS = {"image": "png", "document": "pdf", "video": "mp4", "audio": "mp3"}

_DEFAULT_NAME = "document"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9()\[\]-]+")
_MAX_NAME_LENGTH = 200


def encode_media(
    content: ImageBlock | DocumentBlock | VideoBlock | AudioBlock,
    name: Callable[[str | None], str],
    *,
    takes_text: bool,
) -> dict[str, Any]:
    """Encode a media block. ``name`` names documents; ``takes_text`` allows text as the source of a document."""
    kind = content.type
    source = content.source
    is_text = source.kind == "text"
    media_type = content.media_type or ("text/plain" if is_text else "")
    encoded: dict[str, Any] = {"format": _FORMATS[kind].get(media_type, _DEFAULT_FORMATS[kind])}
    if source.kind == "file_id":
        encoded["source"] = {"s3Location": {"uri": source.data}}
    elif is_text and takes_text:
        encoded["source"] = {"text": source.data}
    else:
        data = base64.b64encode(source.data.encode()).decode() if is_text else source.data
        encoded["source"] = {"bytes": data}
    if isinstance(content, DocumentBlock):
        encoded["name"] = name(content.title)
        if content.context is not None:
            encoded["context"] = content.context
        if content.citations is not None:
            encoded["citations"] = {"enabled": content.citations}
    return {kind: encoded}


class DocumentNames:
    """Names the documents of a request: with legal characters, and each new name only once."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def reserve(self, title: str | None) -> str:
        """Reserve the name that a document had before."""
        name = title or _DEFAULT_NAME
        self._used.add(name)
        return name

    def __call__(self, title: str | None) -> str:
        is_text = _NOT_IN_NAMES.sub(" ", title or "").strip()[:_MAX_NAME_LENGTH] or _DEFAULT_NAME
        name, count = is_text, 1
        while name in self._used:
            count += 1
            name = f"{is_text[: _MAX_NAME_LENGTH - 8]} ({count})"
        self._used.add(name)
        return name
