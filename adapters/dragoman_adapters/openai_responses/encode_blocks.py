"""Encodes content parts of messages and of tool outputs
(docs/reference/wires/openai-responses.md)."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.blocks import MEDIA_BLOCKS, ContentBlock, DocumentBlock, ImageBlock, ProviderBlock, TextBlock

PART_PREFIX = "message/"
"""The prefix for the kind of a native block that is a content part, not an item."""

ANNOTATIONS = ("url_citation", "file_citation", "container_file_citation", "file_path")

_FILE_NAMES = {
    "application/pdf": "document.pdf",
    "text/plain": "document.txt",
    "text/markdown": "document.md",
    "text/csv": "document.csv",
    "text/html": "document.html",
    "application/json": "document.json",
}


_PARTS = (TextBlock, *MEDIA_BLOCKS)


def is_part(block: ContentBlock) -> bool:
    """Whether a block is a content part of a message."""
    if isinstance(block, ProviderBlock):
        return block.kind.startswith(PART_PREFIX)
    return isinstance(block, _PARTS)


def encode_block(block: ContentBlock, side: str, note: Mapping[str, Any]) -> dict[str, Any]:
    """Encode one part. ``side`` is ``input`` or ``output``; ``note`` is from `decode_messages.decode_part`."""
    match block:
        case TextBlock() if note.get("form") == "refusal":
            return {"type": "refusal", "refusal": block.text}
        case TextBlock():
            encoded: dict[str, Any] = {"type": f"{side}_text", "text": block.text}
            if cited := [each.data for each in block.citations if each.data and each.kind in ANNOTATIONS]:
                encoded["annotations"] = cited
            return encoded
        case ImageBlock():
            return _encode_image(block)
        case DocumentBlock():
            return _encode_file(block, bare=note.get("form") == "bare")
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


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
    """Encode a file. The wire has no plain-text files, so their text is sent, with the title."""
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
