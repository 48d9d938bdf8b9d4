"""Content parts, both ways: what stands in a message's content and in a tool's output (wire reference 3.2)."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
)

PART_PREFIX = "message/"
"""Starts the kind of a native block that is a part of a message's content, not an item of its own."""

ANNOTATIONS = ("url_citation", "file_citation", "container_file_citation", "file_path")

_FILE_NAMES = {
    "application/pdf": "document.pdf",
    "text/plain": "document.txt",
    "text/markdown": "document.md",
    "text/csv": "document.csv",
    "text/html": "document.html",
    "application/json": "document.json",
}


def is_part(block: ContentBlock) -> bool:
    """Whether a block stands inside a message's content."""
    if isinstance(block, ProviderBlock):
        return block.kind.startswith(PART_PREFIX)
    return isinstance(block, (TextBlock, *MEDIA_BLOCKS))


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """One part; what the canonical form has no word for is kept whole."""
    match native.get("type"):
        case "input_text" | "output_text" | "text":
            return TextBlock(
                text=native["text"], citations=tuple(map(_decode_citation, native.get("annotations") or ()))
            )
        case "refusal":
            return TextBlock(text=native["refusal"])
        case "input_image" if source := _decode_image_source(native, provider):
            media_type = _split_data_url(native["image_url"])[0] if source.kind == "base64" else None
            return ImageBlock(source=source, media_type=media_type, detail=native.get("detail"))
        case "input_file" if source := _decode_file_source(native, provider):
            media_type = _split_data_url(native["file_data"])[0] if source.kind == "base64" else None
            return DocumentBlock(source=source, media_type=media_type, title=native.get("filename"))
        case kind:
            return ProviderBlock(provider=provider, kind=f"{PART_PREFIX}{kind}", data=native)


def note_part(native: Mapping[str, Any]) -> dict[str, Any]:
    """Which of its forms a part had, where the canonical block does not tell."""
    if native.get("type") == "refusal":
        return {"form": "refusal"}
    if isinstance(data := native.get("file_data"), str) and not _split_data_url(data)[0]:
        return {"form": "bare"}
    return {}


def encode_block(block: ContentBlock, side: str, note: Mapping[str, Any]) -> dict[str, Any]:
    """One part. ``side`` is ``input`` or ``output``; ``note`` is what `note` said of it when it was read."""
    match block:
        case TextBlock() if note.get("form") == "refusal":
            return {"type": "refusal", "refusal": block.text}
        case TextBlock():
            return _encode_text(block, side)
        case ImageBlock():
            return _encode_image(block)
        case DocumentBlock():
            return _encode_file(block, bare=note.get("form") == "bare")
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def _encode_text(block: TextBlock, side: str) -> dict[str, Any]:
    encoded: dict[str, Any] = {"type": f"{side}_text", "text": block.text}
    if cited := [citation.data for citation in block.citations if citation.data and citation.kind in ANNOTATIONS]:
        encoded["annotations"] = cited
    return encoded


def _encode_image(block: ImageBlock) -> dict[str, Any]:
    encoded: dict[str, Any] = {"type": "input_image"}
    match block.source.kind:
        case "base64":
            encoded["image_url"] = f"data:{block.media_type or 'image/png'};base64,{block.source.data}"
        case "url":
            encoded["image_url"] = block.source.data
        case _:
            encoded["file_id"] = block.source.data
    encoded["detail"] = block.detail or "auto"
    return encoded


def _encode_file(block: DocumentBlock, *, bare: bool) -> dict[str, Any]:
    """A file. Plain text has no file of its own to be sent, so it goes as text, under its title."""
    source = block.source
    match source.kind:
        case "text":
            return {"type": "input_text", "text": f"{block.title}\n\n{source.data}" if block.title else source.data}
        case "url":
            encoded = {"type": "input_file", "file_url": source.data}
        case "file_id":
            encoded = {"type": "input_file", "file_id": source.data}
        case _:
            media_type = block.media_type or "application/pdf"
            data = source.data if bare else f"data:{media_type};base64,{source.data}"
            name = block.title or _FILE_NAMES.get(media_type, "document")
            return {"type": "input_file", "filename": name, "file_data": data}
    return encoded if block.title is None else {**encoded, "filename": block.title}


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
    """Media type and base64 data; no type and the whole text where it is anything else."""
    head, comma, data = url.partition(",")
    media_type = head.removeprefix("data:").removesuffix(";base64")
    if comma and head == f"data:{media_type};base64" and media_type and ";" not in media_type:
        return media_type, data
    return None, url
