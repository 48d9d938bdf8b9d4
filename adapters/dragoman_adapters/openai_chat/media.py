"""Encodes and decodes media as content parts (docs/reference/wires/openai-chat.md)."""

from typing import Any

from dragoman.canonical.blocks import AudioBlock, ContentBlock, DocumentBlock, ImageBlock, MediaSource, VideoBlock
from dragoman_adapters.openai_chat.dialect import Dialect

_FORMATS = {"audio/mpeg": "mp3", "audio/mp3": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}
_AUDIO_TYPES = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def decode_media(part: dict[str, Any], provider: str) -> ContentBlock | None:
    """Decode a part; None if it is not media or its form is unknown."""
    match part["type"]:
        case "image_url":
            image = part["image_url"]
            image = {"url": image} if isinstance(image, str) else image
            source, media_type = _decode_source(image["url"])
            return ImageBlock(source=source, media_type=media_type, detail=image.get("detail"))
        case "video_url" if isinstance(part["video_url"], dict):
            source, media_type = _decode_source(part["video_url"]["url"])
            return VideoBlock(source=source, media_type=media_type)
        case "input_audio" if isinstance(part["input_audio"], str):
            source, media_type = _decode_source(part["input_audio"])
            is_bare_base64 = source.kind == "url" and not source.data.startswith(("http://", "https://"))
            base64_source = MediaSource(kind="base64", data=source.data) if is_bare_base64 else source
            return AudioBlock(source=base64_source, media_type=media_type)
        case "input_audio" if isinstance(part["input_audio"], dict):
            audio = part["input_audio"]
            media_type = _AUDIO_TYPES.get(audio["format"], f"audio/{audio['format']}")
            return AudioBlock(source=MediaSource(kind="base64", data=audio["data"]), media_type=media_type)
        case "document_url" if isinstance(part["document_url"], str):
            source, media_type = _decode_source(part["document_url"])
            return DocumentBlock(source=source, media_type=media_type, title=part.get("document_name"))
        case "file" if isinstance(part.get("file_id"), str) or isinstance(part.get("file"), dict):
            file = part["file"] if isinstance(part.get("file"), dict) else {"file_id": part["file_id"]}
            title = file.get("filename")
            if "file_id" in file:
                source = MediaSource(kind="file_id", data=file["file_id"], provider=provider)
                return DocumentBlock(source=source, title=title)
            if "file_data" in file:
                source, media_type = _decode_source(file["file_data"])
                return DocumentBlock(source=source, media_type=media_type, title=title)
            return None
        case _:
            return None


def _decode_source(url: str) -> tuple[MediaSource, str | None]:
    """Split a data URL into content and media type; other URLs stay as they are."""
    head, comma, data = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return MediaSource(kind="base64", data=data), head[5:-7] or None
    return MediaSource(kind="url", data=url), None


def encode_media(content: ImageBlock | VideoBlock | AudioBlock | DocumentBlock, dialect: Dialect) -> dict[str, Any]:
    """Encode a block as a part."""
    match content:
        case ImageBlock():
            image = {"url": _encode_url(content.source, content.media_type or "image/png")}
            return {"type": "image_url", "image_url": image | ({"detail": content.detail} if content.detail else {})}
        case VideoBlock():
            video = {"url": _encode_url(content.source, content.media_type or "video/mp4")}
            return {"type": "video_url", "video_url": video}
        case AudioBlock() if dialect.media_as_text:
            return {"type": "input_audio", "input_audio": content.source.data}
        case AudioBlock():
            media_type = content.media_type or "audio/wav"
            audio = {"data": content.source.data, "format": _FORMATS.get(media_type, media_type.partition("/")[2])}
            return {"type": "input_audio", "input_audio": audio}
        case DocumentBlock(source=MediaSource(kind="text", data=text)):  # the wire has no plain text files
            return {"type": "text", "text": f"[document {content.title or 'without a title'}]\n{text}"}
        case DocumentBlock(source=MediaSource(kind="file_id", data=file_id)):
            file = {"file_id": file_id}
            return {"type": "file", **file} if dialect.media_as_text else {"type": "file", "file": file}
        case DocumentBlock():
            url = _encode_url(content.source, content.media_type or "application/pdf")
            if not dialect.media_as_text:
                return {"type": "file", "file": {"filename": content.title or "document.pdf", "file_data": url}}
            name_field = {"document_name": content.title} if content.title else {}
            return {"type": "document_url", "document_url": url, **name_field}


def _encode_url(source: MediaSource, media_type: str) -> str:
    return source.data if source.kind == "url" else f"data:{media_type};base64,{source.data}"
