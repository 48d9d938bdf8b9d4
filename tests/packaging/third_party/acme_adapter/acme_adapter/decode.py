"""Decodes replies, and requests in Acme's format."""

from typing import Any

from acme_adapter import encode
from dragoman.adapters import HistoryReader, ReplyBuilder, ToolDefinition, UsageReader, parse_arguments
from dragoman.blocks import (
    ContentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.messages import Message, MessageStatus, StopReason, TokenUsage

STOP_REASONS = {"said": StopReason.END_TURN, "asked": StopReason.TOOL_USE, "limit": StopReason.MAX_TOKENS}

_ROLES = {speaker: role for role, speaker in encode.SPEAKERS.items()}


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated."""
    content = []
    for position, part in enumerate(native["turn"]["parts"]):
        if part["kind"] == "ask":
            content.append(_decode_tool_call(part, reply.call_id(position, part.get("ref"))))
        else:
            content.append(_decode_block(part))
    return reply.build(
        content,
        model=native["engine"],
        stop_reason=STOP_REASONS.get(native.get("ended", "")),
        usage=decode_usage(native.get("meter")),
        raw={"id": native["id"]},
        status=status,
    )


def decode_usage(meter: Any) -> TokenUsage | None:
    """``read`` holds ``reread``, which came from a cache; our buckets are disjoint."""
    if (count := UsageReader.of(meter)) is None:
        return None
    reread, output = count("reread"), count("written")
    fresh = count.uncached(count("read"), reread)
    return count.usage(input_tokens=fresh, cached_input_tokens=reread, output_tokens=output)


def _decode_tool_call(part: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    """A call; of a stream the arguments are a text, and no input at all while it is ``open``."""
    arguments = part["with"]
    if part.get("open"):
        return ToolUseBlock(id=tool_use_id, name=part["name"], input={}, raw_input=arguments)
    if isinstance(arguments, str):
        parsed, malformed = parse_arguments(arguments)
        return ToolUseBlock(id=tool_use_id, name=part["name"], input=parsed, raw_input=malformed)
    return ToolUseBlock(id=tool_use_id, name=part["name"], input=arguments)


def _decode_block(part: dict[str, Any]) -> ContentBlock:
    match part["kind"]:
        case "words":
            return TextBlock(text=part["words"])
        case "musing":
            return ThinkingBlock(text=part["words"])
        case "picture":
            return ImageBlock(source=MediaSource(kind="base64", data=part["data"]), media_type=part["type"])
        case kind:  # of a newer version: kept as it is, for Acme alone
            return ProviderBlock(provider="acme", kind=kind, data=part)


def decode_history(native: dict[str, Any], reader: HistoryReader) -> None:
    """The messages of a request."""
    for turn in native["turns"]:
        blocks: list[ContentBlock] = []
        for part in turn["parts"]:
            if part["kind"] == "ask":
                blocks.append(_decode_tool_call(part, reader.call_id(part["ref"])))
            elif part["kind"] == "answer":
                inner = tuple(map(_decode_block, part["parts"]))
                call_id = reader.result_id(part["ref"])
                blocks.append(ToolResultBlock(tool_use_id=call_id, content=inner, is_error=part["failed"]))
            else:
                blocks.append(_decode_block(part))
        reader.add(_ROLES[turn["by"]], blocks)


def decode_tools(native: dict[str, Any]) -> list[ToolDefinition]:
    return [
        ToolDefinition(name=each["name"], description=each["purpose"], input_schema=each["takes"])
        for each in native.get("instruments", [])
    ]
