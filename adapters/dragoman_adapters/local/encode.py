"""Encodes the body that `dragoman.local` runs.

A body names the model, how it is to be prompted, the messages as lists of parts, the tools and the options::

    {"model": "smollm2-135m", "prompting": "guided",
     "messages": [{"role": "user", "content": [{"type": "text", "text": "Read README.md."}]},
                  {"role": "assistant", "content": [{"type": "call", "id": "a", "name": "read_file",
                                                     "arguments": {"path": "README.md"}}]},
                  {"role": "tool", "content": [{"type": "result", "id": "a",
                                                "content": [{"type": "text", "text": "Hello"}]}]}],
     "tools": [{"name": "read_file", "description": "Read a file", "parameters": {...}}],
     "tool_choice": "auto", "options": {"max_tokens": 200}, "stream": true}
"""

from collections.abc import Callable, Sequence
from typing import Any

from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.local.options import encode_options

ToolId = Callable[[str], str]


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body."""
    encoded: dict[str, Any] = {"model": request.target.model}
    encoded["prompting"] = request.target.capabilities.wire["prompting"]
    encoded["messages"] = request.encode_history(
        request.turns, lambda turns: [_encode_turn(request, each) for each in turns]
    )
    if usable := request.usable_tools(tools):
        encoded["tools"] = [
            {"name": each.name, "description": each.description, "parameters": each.input_schema} for each in usable
        ]
    return encoded | encode_options(request)


def _encode_turn(request: RequestBuilder, turn: Turn) -> dict[str, Any]:
    for index in range(len(turn.blocks)):
        request.record_field_losses(turn, index, "citations")
    return {"role": str(turn.role), "content": [encode_block(block, request.tool_id) for block in turn.blocks]}


def encode_block(block: ContentBlock, tool_id: ToolId) -> dict[str, Any]:
    """Encode a block. Arguments of a call that are not an object are sent as the text that they were."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case ToolUseBlock():
            arguments = block.input if block.raw_input is None else block.raw_input
            return {"type": "call", "id": tool_id(block.id), "name": block.name, "arguments": arguments}
        case ToolResultBlock():
            encoded: dict[str, Any] = {"type": "result", "id": tool_id(block.tool_use_id)}
            encoded["content"] = [encode_block(inner, tool_id) for inner in block.content]
            return encoded | ({"is_error": True} if block.is_error else {})
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")
