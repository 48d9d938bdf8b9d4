"""Encodes blocks as contents of steps: one block is one content."""

from typing import Any, NamedTuple

from dragoman.adapter import wirejson
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
    media_type = data.get("mimeType")
    if block.media_type is None and not _fits(media_type, block.type):
        media_type = None  # the name of a link suggests another kind of media than its block is
    fields = {"data": data.get("data"), "uri": data.get("fileUri"), "mime_type": media_type}
    return {"type": block.type, **{name: value for name, value in fields.items() if value is not None}}


def _fits(media_type: str | None, kind: str) -> bool:
    kinds = ("application", "text") if kind == "document" else (kind,)
    return media_type is not None and media_type.partition("/")[0] in kinds


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


class Call(NamedTuple):
    """A call as its result must name it. ``action`` is Google's own call, if it is an action on a computer."""

    name: str
    action: ToolUseBlock | None = None


def encode_tool_result(block: ToolResultBlock, call: Call, wire_id: str) -> dict[str, Any]:
    """Encode a tool result as a step: its texts joined, or a list of contents if it has media.

    The result of an action on a computer is an object in the first text, such as one with the ``url``.
    """
    texts = [each.text for each in block.content if isinstance(each, TextBlock)]
    media = [encode_block(each) for each in block.content if not isinstance(each, TextBlock)]
    answer: Any = "\n".join(texts)
    if call.action is not None and not block.is_error:
        answer = wirejson.dumps_text(encode_blocks.action_answer(texts, call.action, confirmed=True))
        if media:
            answer = [{"type": "text", "text": answer}, *media]
    elif media:  # in its order
        kept = [each for each in block.content if not isinstance(each, TextBlock) or each.text]
        answer = [
            {"type": "text", "text": each.text} if isinstance(each, TextBlock) else encode_block(each) for each in kept
        ]
    encoded: dict[str, Any] = {"type": "function_result", "call_id": wire_id, "name": call.name, "result": answer}
    return encoded | ({"is_error": True} if block.is_error else {})
