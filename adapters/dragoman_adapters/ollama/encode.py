"""Encodes the body of a chat request (docs/reference/wires/ollama.md)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.ollama.options import encode_options

_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = (
    "citations",
    "arguments",
    "signatures",
    "errors",
    "text_boundaries",
    "resolution",
    "types",
)
"""Fields that the wire does not support."""

_ROLES = {role: role.value for role in Role} | {Role.DEVELOPER: "system"}

ToolId = Callable[[str], str]


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body."""
    encoded: dict[str, Any] = {"model": request.target.model}
    names: dict[str, str] = {}
    encoded["messages"] = request.encode_history(
        request.turns, lambda turns: [message for turn in turns for message in _encode_turn(request, turn, names)]
    )
    encoded |= encode_options(request)
    usable = request.fit_tools(tools)
    if usable and request.options.tool_choice != "none":
        encoded["tools"] = [encode_tool(definition) for definition in usable]
    return encoded


def encode_tool(definition: ToolDefinition) -> dict[str, Any]:
    """Encode a tool in the nested form of OpenAI's chat."""
    function: dict[str, Any] = {"name": definition.name, "description": definition.description}
    function["parameters"] = definition.input_schema
    own = own_notes(definition, "ollama")
    return apply_diff({"type": "function", "function": apply_diff(function, own.get("function"))}, own.get("residue"))


def _encode_turn(request: RequestBuilder, turn: Turn, names: dict[str, str]) -> list[dict[str, Any]]:
    """Encode a turn as one message; several tool results become several. ``names`` are the tools by call."""
    if (text := turn.plain_text("ollama")) is not None:
        return [{"role": _ROLES[turn.role], "content": text}]
    if not turn.portable:
        for index in range(len(turn.blocks)):
            request.record_field_losses(turn, index, *_UNSUPPORTED_FIELDS)
        request.record_moved_texts(turn, thinking_first=True)
    notes = turn.raw("ollama")
    block_notes = notes.get("blocks", {})
    calls, results = [], []
    has_text = False
    for index, block in enumerate(turn.blocks):
        note = block_notes.get(str(turn.origins[index])) if block_notes else None
        if type(block) is ToolUseBlock:
            names[block.id] = block.name
            calls.append(encode_tool_call(block, request.tool_id, note))
        elif type(block) is ToolResultBlock:
            result = encode_tool_result(block, request.tool_id, names)
            results.append(apply_diff(result, note) if note else result)
        elif type(block) is TextBlock:
            if has_text:
                reason = "texts of one message are sent as one"
                request.record_block_loss(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
            has_text = True
    if turn.role is Role.TOOL:
        return results
    encoded = encode_message(_ROLES[turn.role], turn.blocks) | ({"tool_calls": calls} if calls else {})
    return [apply_diff(encoded, notes.get("residue"))] if notes else [encoded]


def encode_message(role: str, blocks: Sequence[ContentBlock]) -> dict[str, Any]:
    """Encode a message without its calls: texts are joined, images have a field of their own."""
    texts = [block.text for block in blocks if type(block) is TextBlock]
    encoded: dict[str, Any] = {"role": role, "content": "\n".join(texts)}
    if thoughts := [block.text for block in blocks if type(block) is ThinkingBlock]:
        encoded["thinking"] = "\n".join(thoughts)
    if images := [block.source.data for block in blocks if type(block) is ImageBlock]:
        encoded["images"] = images
    return encoded


def encode_tool_call(block: ToolUseBlock, tool_id: ToolId, note: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Encode a call. Its arguments are an object, not a string."""
    encoded: dict[str, Any] = {"id": tool_id(block.id), "function": {"name": block.name, "arguments": block.input}}
    if not note:
        return encoded
    encoded["function"] = apply_diff(encoded["function"], note.get("function"))
    return apply_diff(encoded, note)


def encode_tool_result(block: ToolResultBlock, tool_id: ToolId, names: dict[str, str]) -> dict[str, Any]:
    """Encode a tool result. Older servers use the tool's name instead of tool_call_id, so both are sent."""
    parts = block.content
    encoded: dict[str, Any]
    if len(parts) == 1 and type(text := parts[0]) is TextBlock:
        encoded = {"role": "tool", "content": text.text}
    else:
        encoded = encode_message("tool", parts)
    if name := names.get(block.tool_use_id):
        encoded["tool_name"] = name
    encoded["tool_call_id"] = tool_id(block.tool_use_id)
    return encoded
