"""Canonical to wire: the body of a request."""

from collections.abc import Sequence
from typing import Any

from dragoman.adapter import demands, schemas
from dragoman.adapter.details import Detail
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition

SPEAKERS = {Role.SYSTEM: "briefing", Role.USER: "person", Role.ASSISTANT: "engine", Role.TOOL: "instrument"}
OPTIONS = {"max_output_tokens": "limit", "temperature": "warmth", "top_p": "breadth"}

_LACKING: tuple[Detail, ...] = ("citations", "arguments", "signatures", "resolution")
"""What the wire has no place for: `lose_details` names each as a loss."""

_NOT_TAKEN = ("top_k", "seed", "parallel_tool_calls", "output_schema", "effort", "thinking", "thinking_budget")


def body(request: Outgoing, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    encoded: dict[str, Any] = {"engine": request.adapter.model}
    encoded["turns"] = request.history(request.turns, lambda turns: [_turn(request, turn) for turn in turns])
    usable = schemas.fit_tools(request, request.usable(tools))
    if usable and request.options.tool_choice != "none":
        encoded["instruments"] = [instrument(tool) for tool in usable]
    demands.tool_choice(request, tools=bool(usable), reasons=True)
    return encoded | parameters(request)


def parameters(request: Outgoing) -> dict[str, Any]:
    """Everything but the conversation and the tools."""
    options = request.options
    encoded: dict[str, Any] = {
        theirs: value for ours, theirs in OPTIONS.items() if (value := getattr(options, ours)) is not None
    }
    if stop := demands.stop_sequences(request):
        encoded["halt"] = stop
    encoded["live"] = options.stream
    for name in _NOT_TAKEN:
        if getattr(options, name) is not None:
            request.lose_option(name, "Acme has no such option")
    demands.lose_cache_hint(request)
    return encoded


def instrument(tool: ToolDefinition) -> dict[str, Any]:
    return {"name": tool.name, "purpose": tool.description, "takes": tool.input_schema}


def _turn(request: Outgoing, turn: Turn) -> dict[str, Any]:
    for index in range(len(turn.blocks)):
        request.lose_details(turn, index, *_LACKING)
    return {"by": SPEAKERS[turn.role], "parts": [_part(request, block) for block in turn.blocks]}


def _part(request: Outgoing, block: ContentBlock) -> dict[str, Any]:
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
            parts = [_part(request, part) for part in block.content]
            ref = request.tool_id(block.tool_use_id)
            return {"kind": "answer", "ref": ref, "failed": block.is_error, "parts": parts}
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the capabilities declare no {block.type}")
