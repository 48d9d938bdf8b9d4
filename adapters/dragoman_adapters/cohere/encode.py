"""Encodes the body of a chat request (docs.cohere.com/reference/chat)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.requests.unsupported_blocks import document_as_text
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.cohere.options import encode_options

PROVIDER = "cohere"


_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("citations", "link_types", "text_documents")
"""Fields of other providers' blocks that the wire does not support."""

Piece = tuple[str, Any]
"""A field of a message and one of its values: a content part, the plan, a call."""
Note = Mapping[str, Any]
ToolId = Callable[[str], str]


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body. A ``stream`` that was read from another request does not override the option."""
    if request.options.stream:
        request.drop_extra("stream")
    history = request.encode_history(request.turns, partial(_encode_messages, request))
    encoded: dict[str, Any] = {"model": request.target.model, "messages": history}
    usable = request.fit_tools(tools)
    encoded |= encode_options(request, tools=bool(usable))
    if usable:
        encoded["tools"] = request.encode_tools(usable, encode_tool)
    return encoded


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a tool in the nested form of OpenAI's chat."""
    own = own_notes(definition, provider)
    if "native" in own:
        return dict(own["native"])
    function: dict[str, Any] = {"name": definition.name}
    if definition.description:
        function["description"] = definition.description
    function["parameters"] = definition.input_schema
    return apply_diff({"type": "function", "function": apply_diff(function, own.get("function"))}, own.get("residue"))


def _encode_messages(request: RequestBuilder, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Encode one message for each turn; a turn with several tool results becomes several."""
    encoded: list[dict[str, Any]] = []
    for turn in turns:
        if turn.role is not Role.TOOL:
            encoded.append(_encode_turn(request, turn))
            continue
        raw, is_simple = turn.raw(PROVIDER), turn.is_simple(PROVIDER)
        notes = raw.get("blocks", {})
        for index, (block, origin) in enumerate(turn.iter_blocks()):
            if isinstance(block, ToolResultBlock):
                if not is_simple:
                    request.record_field_losses(turn, index, "errors", *(() if raw else _UNSUPPORTED_FIELDS))
                encoded.append(encode_tool_result(block, request.tool_id, notes.get(str(origin), {})))
    return encoded


def _encode_turn(request: RequestBuilder, turn: Turn) -> dict[str, Any]:
    if (text := turn.plain_text(PROVIDER)) is not None:
        return {"role": turn.role.value, "content": text}
    if turn.is_simple(PROVIDER):
        return encode_message(turn.role.value, [encode_block(block, request.tool_id, {}) for block in turn.blocks], {})
    # A synthetic turn, or one with another role now, does not have the message's notes.
    raw = turn.raw(PROVIDER) if turn.role is turn.message.role else {}
    notes = raw.get("blocks", {})
    pieces: list[Piece] = []
    for index, (block, origin) in enumerate(turn.iter_blocks()):
        request.record_field_losses(turn, index, "arguments", "signatures", *(() if raw else _UNSUPPORTED_FIELDS))
        field, value = encode_block(block, request.tool_id, notes.get(str(origin), {}))
        pieces.append((field, apply_diff(value, notes.get(str(origin))) if isinstance(value, dict) else value))
    request.record_moved_texts(turn)
    if raw:
        _record_citation_losses(request, turn, [field for field, _ in pieces])
        # The sources of the texts are a field of the message.
        cited = [source for block in turn.blocks if isinstance(block, TextBlock) for source in block.citations]
        pieces += [("citations", source.data) for source in cited if source.data]
        pieces += [("citations", native) for native in raw.get("citations", ())]
    return encode_message(str(turn.role), pieces, raw)


def _record_citation_losses(request: RequestBuilder, turn: Turn, fields: Sequence[str]) -> None:
    """Record sources that back another text now: a source names a part by its index, or means the first text."""
    parts = [index for index, field in enumerate(fields) if field == "content"]
    first = next((index for index in parts if isinstance(turn.blocks[index], TextBlock)), -1)
    for index, block in enumerate(turn.blocks):
        indexes = [source.data.get("content_index") for source in getattr(block, "citations", ()) if source.data]
        if any((first if at is None else dict(enumerate(parts)).get(at)) != index for at in indexes):
            request.record_block_loss(
                turn, index, LossKind.CITATIONS, "the sources of a text move to another", Severity.INFO
            )


def encode_block(block: ContentBlock, tool_id: ToolId, note: Note) -> Piece:
    """Encode a block as a piece. ``note`` names the field if it is not the usual one."""
    match block:
        case TextBlock():
            return "content", {"type": "text", "text": block.text}
        case ThinkingBlock():
            if note.get("field") == "tool_plan":
                return "tool_plan", block.text
            return "content", {"type": "thinking", "thinking": block.text}
        case ToolUseBlock():
            function = {"name": block.name, "arguments": wirejson.dumps_text(block.input)}
            return "tool_calls", {"id": tool_id(block.id), "type": "function", "function": function}
        case ImageBlock():
            is_url, data = block.source.kind == "url", block.source.data
            url = data if is_url else f"data:{block.media_type or 'image/png'};base64,{data}"
            image: dict[str, Any] = {"url": url}
            if block.detail is not None:
                image["detail"] = block.detail
            return "content", {"type": "image_url", "image_url": image}
        case DocumentBlock():
            return "content", {"type": "text", "text": document_as_text(block).text}
        case ProviderBlock():
            return note.get("field", "content"), block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def encode_message(role: str, pieces: Iterable[Piece], raw: Note) -> dict[str, Any]:
    """Encode a message. Fields noted in ``raw`` are restored if no block covers them."""
    pieces_by_field: dict[str, list[Any]] = {}
    for field, value in pieces:
        pieces_by_field.setdefault(field, []).append(value)
    encoded: dict[str, Any] = {"role": role}
    content = pieces_by_field.pop("content", [])
    if content or not pieces_by_field:
        encoded["content"] = _compact_content(content, raw)
    for field, values in pieces_by_field.items():
        encoded[field] = "\n".join(values) if field == "tool_plan" else values
    if not raw:
        return encoded
    return apply_diff(
        encoded, _drop_covered(raw.get("residue"), {*pieces_by_field, *(("content",) if content else ())})
    )


def _compact_content(parts: list[dict[str, Any]], raw: Note) -> Any:
    """Encode a single plain text as a string, unless the provider's own was a list."""
    if not parts:
        return ""
    if len(parts) == 1 and parts[0].keys() == {"type", "text"} and not raw.get("list"):
        return parts[0]["text"]
    return parts


def _drop_covered(residue: Note | None, covered: set[str]) -> dict[str, Any]:
    """Return a difference without the fields that blocks cover."""
    if not residue:
        return {}
    return {
        "set": {field: value for field, value in residue.get("set", {}).items() if field not in covered},
        "drop": [field for field in residue.get("drop", ()) if field not in covered],
    }


def encode_tool_result(block: ToolResultBlock, tool_id: ToolId, note: Note) -> dict[str, Any]:
    """Encode a tool result: a text, or a list of texts and documents if the provider's own was a list."""
    notes = note.get("parts", {})
    parts = [
        apply_diff(encode_block(part, tool_id, {})[1], notes.get(str(at))) for at, part in enumerate(block.content)
    ]
    encoded = {"role": "tool", "tool_call_id": tool_id(block.tool_use_id), "content": _compact_content(parts, note)}
    return apply_diff(encoded, _drop_covered(note, {"content"} if parts else set()))
