"""Encodes blocks as contents of steps: one block is one content."""

from typing import Any

from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman_adapters.google import encode_blocks


def encode_block(block: ContentBlock) -> dict[str, Any]:
    """Encode a block as a content."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ImageBlock() | AudioBlock() | VideoBlock() | DocumentBlock():
            return _encode_media(block)
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def _encode_media(block: encode_blocks.Media) -> dict[str, Any]:
    part = encode_blocks.encode_media(block)
    data = part.get("inlineData") or part["fileData"]
    fields = {"data": data.get("data"), "uri": data.get("fileUri"), "mime_type": data.get("mimeType")}
    return {"type": block.type, **{name: value for name, value in fields.items() if value is not None}}


def encode_step(block: ContentBlock, wire_id: str | None = None) -> dict[str, Any] | None:
    """Encode a block as a step; None if it is a content of a step."""
    match block:
        case ThinkingBlock():
            signature_field = {"signature": block.signature} if block.signature else {}
            summary_field = {"summary": [{"type": "text", "text": block.text}]} if block.text else {}
            return {"type": "thought", **signature_field, **summary_field}
        case ToolUseBlock():
            return {"type": "function_call", "id": wire_id, "name": block.name, "arguments": block.input}
        case _:
            return None


def encode_tool_result(block: ToolResultBlock, name: str, wire_id: str) -> dict[str, Any]:
    """Encode a tool result as a step, with its texts joined."""
    answer = "\n".join(each.text for each in block.content if isinstance(each, TextBlock))
    encoded: dict[str, Any] = {"type": "function_result", "call_id": wire_id, "name": name, "result": answer}
    return encoded | ({"is_error": True} if block.is_error else {})
