"""Encodes blocks as pieces of a message (docs/reference/wires/openai-chat.md).

A piece is a field of a message and one value of it: a content part, a tool call, the refusal, the reasoning. The note
of a piece, kept in provider_raw, is what it holds beyond our encoding of its block. It has more keys: ``field`` if the
block belongs in another field than usual, ``kind`` if it has another type, and ``inner`` for the difference of the
object under the piece's type name.
"""

from collections.abc import Callable, Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman_adapters.openai_chat import media, thinking_details
from dragoman_adapters.openai_chat.dialect import Dialect

IMAGES_FIELD = "images"
"""The field in which routers such as OpenRouter return generated images; OpenAI's own models return none."""
LIST_FIELDS = frozenset({"tool_calls", thinking_details.DETAILS_FIELD, IMAGES_FIELD})
"""Fields of a message that hold a list, with a piece for each item."""

Piece = tuple[str, Any]
Note = Mapping[str, Any]
ToolId = Callable[[str], str]


def encode_block(content: ContentBlock, note: Note, tool_id: ToolId, dialect: Dialect) -> Piece:
    """Encode a block and apply its note."""
    if isinstance(content, ToolUseBlock):
        field, value = _encode_tool_call(content, note, tool_id, dialect)
    elif isinstance(content, TextBlock):
        kind = note.get("kind", "text")
        is_refusal = note.get("field") == "refusal"
        field, value = ("refusal", content.text) if is_refusal else ("content", {"type": kind, kind: content.text})
    else:
        field, value = _encode_other(content, note, dialect)
    return field, _apply_note(value, note) if note and isinstance(value, dict) else value


def _encode_other(content: ContentBlock, note: Note, dialect: Dialect) -> Piece:
    """Encode a block that is neither a text nor a call."""
    match content:
        case RedactedThinkingBlock():
            return thinking_details.DETAILS_FIELD, thinking_details.encode_detail(content, note)
        case ThinkingBlock():
            field = note.get("field") or _thinking_field(content, dialect)
            if field == thinking_details.DETAILS_FIELD:
                return field, thinking_details.encode_detail(content, note)
            if field != "content":
                return field, content.text
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": content.text}]}
            return "content", thought | ({"signature": content.signature} if content.signature else {})
        case ImageBlock() if note.get("field") == IMAGES_FIELD:
            return IMAGES_FIELD, media.encode_media(content, dialect)
        case ImageBlock() | VideoBlock() | AudioBlock() | DocumentBlock():
            return "content", media.encode_media(content, dialect)
        case ProviderBlock():
            return note.get("field", "content"), dict(content.data)
        case _:
            raise TypeError(f"the projection let a {content.type} block through")


def _thinking_field(content: ThinkingBlock, dialect: Dialect) -> str:
    if dialect.thinking_parts:
        return "content"
    return (
        thinking_details.DETAILS_FIELD
        if content.signature and dialect.reasoning_details
        else dialect.reasoning_fields[0]
    )


def _encode_tool_call(call: ToolUseBlock, note: Note, tool_id: ToolId, dialect: Dialect) -> Piece:
    as_received = call.raw_input if dialect.free_arguments else None
    function = {"name": call.name, "arguments": as_received or wirejson.dumps_text(call.input)}
    if note.get("field") == "function_call":
        return "function_call", function
    if note.get("kind") == "custom":
        custom = {"name": call.name, "input": call.raw_input or call.input.get("input", "")}
        return "tool_calls", {"id": tool_id(call.id), "type": "custom", "custom": custom}
    return "tool_calls", {"id": tool_id(call.id), "type": "function", "function": function}


def _apply_note(value: dict[str, Any], note: Note) -> dict[str, Any]:
    if "inner" in note and (inner := value.get("type")) in value:
        value = {**value, inner: apply_diff(value[inner], note["inner"])}
    return apply_diff(value, note)
