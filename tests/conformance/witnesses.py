"""Whether what a history says is on the wire: all of it is there, or a loss names it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from dragoman import Loss, Message, ToolDefinition
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)


def unnamed(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition],
    body: dict[str, Any],
    losses: Sequence[Loss],
    *,
    foreign: bool,
) -> Iterator[str]:
    """Each block, and each tool, that is neither on the wire nor named by a loss."""
    strings = list(_strings(body))
    said = "\0".join(strings)
    calls = list(_calls(body))
    named = {(loss.message_id, loss.block_index) for loss in losses}
    for message in messages:
        for index, block in enumerate(message.content):
            if (message.id, index) in named or (message.id, -1) in named:
                continue
            what = _missing(block, said, calls, foreign=foreign)
            if what:
                yield f"{message.role} {message.id} block {index}: {what}"
    # A server's tools may be offered under its name alone, outside the list of tools.
    offered = set(_strings([body.get("tools"), body.get("mcp_servers")]))
    lost = " ".join(loss.reason for loss in losses if loss.kind == "tools")
    for tool in tools:
        if tool.name not in offered and tool.name not in lost:
            yield f"the tool {tool.name} is neither offered nor named as lost"


def _missing(block: ContentBlock, said: str, calls: list[tuple[str, Any]], *, foreign: bool) -> str | None:
    match block:
        case TextBlock():
            if block.text.strip() and block.text not in said:
                return f"the text {block.text[:60]!r}"
            if block.citations and foreign:
                return "the citations"
        case ThinkingBlock() if block.text in said and (block.text or not block.signature):
            return None
        case ThinkingBlock() | RedactedThinkingBlock() | ProviderBlock() if foreign:
            return f"the {block.type}"
        case ToolUseBlock():
            if (block.name, block.raw_input or block.input) not in calls:
                return f"the call of {block.name}"
        case ToolResultBlock(is_error=True) if "tool_result" not in said:
            return "that the tool failed"  # one wire alone has a flag for it, on blocks of that name
        case ToolResultBlock():
            return next(
                (what for part in block.content if (what := _missing(part, said, calls, foreign=foreign))), None
            )
        case _ if isinstance(block, MEDIA_BLOCKS) and block.source.data not in said:
            return f"the {block.type}"
    return None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _calls(value: Any) -> Iterator[tuple[str, Any]]:
    """Every call on any wire: an object with a name and an input, or with arguments as an object or as text."""
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str):
            if isinstance(value.get("input"), dict):
                yield name, value["input"]
            elif "arguments" in value:
                yield name, _input(value["arguments"])
        for inner in value.values():
            yield from _calls(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _calls(inner)


def _input(arguments: Any) -> Any:
    """Arguments as an object; text that is none stands for itself."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments
