"""Decodes the media blocks of Converse."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, MediaSource, VideoBlock
from dragoman_adapters.bedrock.encode_blocks import MEDIA_TYPES


def decode_media(kind: str, native: Mapping[str, Any], provider: str) -> ContentBlock | None:
    """Decode a media block; None if the canonical form does not support its kind of source."""
    source = _decode_source(native.get("source") or {}, provider)
    if source is None:
        return None
    media_type = MEDIA_TYPES[kind].get(native.get("format") or "")
    match kind:
        case "image":
            return ImageBlock(source=source, media_type=media_type)
        case "document":
            return DocumentBlock(
                source=source, media_type=media_type, title=native.get("name"), context=native.get("context")
            )
        case "video":
            return VideoBlock(source=source, media_type=media_type)
        case _:
            return AudioBlock(source=source, media_type=media_type)


def _decode_source(native: Mapping[str, Any], provider: str) -> MediaSource | None:
    match native:
        case {"bytes": str(data)}:
            return MediaSource(kind="base64", data=data)
        case {"text": str(text)}:
            return MediaSource(kind="text", data=text)
        case {"content": list(parts)} if all(isinstance(part.get("text"), str) for part in parts):
            return MediaSource(kind="text", data="\n".join(part["text"] for part in parts))
        case {"s3Location": {"uri": str(uri)}}:  # only this provider can read it, and for its owner alone
            return MediaSource(kind="file_id", data=uri, provider=provider)
        case _:
            return None
