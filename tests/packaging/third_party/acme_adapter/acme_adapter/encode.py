"""Encodes the body of a request."""

from collections.abc import Sequence
from typing import Any

from acme_adapter.options import encode_options
from dragoman.adapters import BlockField, RequestBuilder, ToolDefinition, Turn, fit_tool_schemas, tool_choice
from dragoman.blocks import (
    ContentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.messages import Role

SPEAKERS = {Role.SYSTEM: "briefing", Role.USER: "person", Role.ASSISTANT: "engine", Role.TOOL: "instrument"}

_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("citations", "arguments", "signatures", "resolution")
"""Fields that the wire does not support: `record_field_losses` records each as a loss."""


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    encoded: dict[str, Any] = {"engine": request.target.model}
    encoded["turns"] = request.encode_history(
        request.turns, lambda turns: [_encode_turn(request, turn) for turn in turns]
    )
    usable = fit_tool_schemas(request, request.usable_tools(tools))
    if usable and request.options.tool_choice != "none":
        encoded["instruments"] = [encode_tool(tool) for tool in usable]
    tool_choice(request, tools=bool(usable), reasoning=True)
    return encoded | encode_options(request)


def encode_tool(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "purpose": tool.description, "takes": tool.input_schema}


def _encode_turn(request: RequestBuilder, turn: Turn) -> dict[str, Any]:
    for index in range(len(turn.blocks)):
        request.record_field_losses(turn, index, *_UNSUPPORTED_FIELDS)
    return {"by": SPEAKERS[turn.role], "parts": [_encode_block(request, block) for block in turn.blocks]}


def _encode_block(request: RequestBuilder, block: ContentBlock) -> dict[str, Any]:
    """One block. The projection has left none that the capabilities do not allow."""
    match block:
        case TextBlock():
            return {"kind": "words", "words": block.text}
        case ThinkingBlock():
            return {"kind": "musing", "words": block.text}
        case ImageBlock():
            return {"kind": "picture", "type": block.media_type or "image/png", "data": block.source.data}
        case ToolUseBlock():
            return {"kind": "ask", "ref": request.tool_id(block.id), "name": block.name, "with": block.input}
        case ToolResultBlock():
            parts = [_encode_block(request, part) for part in block.content]
            ref = request.tool_id(block.tool_use_id)
            return {"kind": "answer", "ref": ref, "failed": block.is_error, "parts": parts}
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the capabilities declare no {block.type}")
