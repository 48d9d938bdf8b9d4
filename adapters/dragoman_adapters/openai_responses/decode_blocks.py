"""Decodes content parts of messages and of tool outputs to blocks."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    text_block,
)
from dragoman_adapters.openai_responses.encode_blocks import PART_PREFIX


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """Decode a part; unknown parts are kept whole."""
    match native.get("type"):
        case "input_text" | "output_text" | "text":
            if not (annotations := native.get("annotations")):
                return text_block(native["text"])
            return TextBlock(text=native["text"], citations=tuple(map(_decode_citation, annotations)))
        case "refusal":
            return text_block(native["refusal"])
        case "input_image" if source := _decode_image_source(native, provider):
            media_type = _split_data_url(native["image_url"])[0] if source.kind == "base64" else None
            return ImageBlock(source=source, media_type=media_type, detail=native.get("detail"))
        case "input_file" if source := _decode_file_source(native, provider):
            media_type = _split_data_url(native["file_data"])[0] if source.kind == "base64" else None
            return DocumentBlock(source=source, media_type=media_type, title=native.get("filename"))
        case kind:
            return ProviderBlock(provider=provider, kind=f"{PART_PREFIX}{kind}", data=native)


def note_part(native: Mapping[str, Any]) -> dict[str, Any]:
    """Return a note of the form of a part that the canonical block does not show."""
    if native.get("type") == "refusal":
        return {"form": "refusal"}
    if isinstance(data := native.get("file_data"), str) and not _split_data_url(data)[0]:
        return {"form": "bare"}
    return {}


def _decode_citation(native: dict[str, Any]) -> Citation:
    return Citation(
        kind=native["type"],
        title=native.get("title") or native.get("filename"),
        url=native.get("url"),
        start=native.get("start_index"),
        end=native.get("end_index"),
        data=native,
    )


def _decode_image_source(native: Mapping[str, Any], provider: str) -> MediaSource | None:
    if isinstance(url := native.get("image_url"), str):
        media_type, data = _split_data_url(url)
        return MediaSource(kind="base64", data=data) if media_type else MediaSource(kind="url", data=url)
    return _decode_stored_file(native, provider)


def _decode_file_source(native: Mapping[str, Any], provider: str) -> MediaSource | None:
    if isinstance(data := native.get("file_data"), str):
        return MediaSource(kind="base64", data=_split_data_url(data)[1])
    if isinstance(url := native.get("file_url"), str):
        return MediaSource(kind="url", data=url)
    return _decode_stored_file(native, provider)


def _decode_stored_file(native: Mapping[str, Any], provider: str) -> MediaSource | None:
    file_id = native.get("file_id")
    return MediaSource(kind="file_id", data=file_id, provider=provider) if isinstance(file_id, str) else None


def _split_data_url(url: str) -> tuple[str | None, str]:
    """Split a data URL into media type and base64 data; for any other text, None and the whole text."""
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    if comma and head == f"data:{media_type};base64" and media_type and ";" not in media_type:
        return media_type, data
    return None, url
