"""Decodes replies, and requests in the format of `encode`."""

from typing import TYPE_CHECKING, Any

from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, ToolResultBlock, ToolUseBlock, text_block
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

PROVIDER = "local"

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated."""
    content = [
        decode_block(item, reply.call_id(index, item.get("id")) if item["type"] == "call" else "")
        for index, item in enumerate(native["content"])
    ]
    stop = native.get("stop")
    return reply.build(
        content,
        model=native.get("model"),
        stop_reason=STOP_REASONS.get(stop, StopReason.END_TURN) if stop else None,
        usage=decode_usage(native.get("usage")),
        raw={},
        status=status,
    )


def decode_usage(native: dict[str, Any] | None) -> TokenUsage | None:
    """Decode the usage. The runtime counts the whole prompt, with our instructions and examples."""
    if (count := UsageReader.of(native)) is None:
        return None
    return count.usage(input_tokens=count.required("input_tokens"), output_tokens=count.required("output_tokens"))


def decode_block(native: dict[str, Any], tool_use_id: str) -> ContentBlock:
    """Decode a part; unknown parts are kept whole."""
    match native["type"]:
        case "text":
            return text_block(native["text"])
        case "call":
            # Arguments that are still text are truncated or malformed, so no tool runs with them.
            arguments = native["arguments"]
            held = {"input": arguments} if isinstance(arguments, dict) else {"raw_input": arguments}
            return ToolUseBlock(id=tool_use_id, name=native["name"], **held)
        case "result":
            inner = tuple(decode_block(item, "") for item in native["content"])
            return ToolResultBlock(tool_use_id=tool_use_id, content=inner, is_error=native.get("is_error") or False)
        case kind:
            return ProviderBlock(provider=PROVIDER, kind=kind, data=native)


def decode_history(native: dict[str, Any], reader: "HistoryReader") -> tuple[str, ...]:
    """Add the messages of a request. Returns the names of the fields that they cover."""
    for item in native["messages"]:
        blocks = []
        for inner in item["content"]:
            find = {"call": reader.call_id, "result": reader.result_id}.get(inner["type"])
            blocks.append(decode_block(inner, find(inner.get("id")) if find else ""))
        reader.add(Role(item["role"]), blocks)
    return "model", "messages"


def decode_tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request."""
    return [
        ToolDefinition(name=item["name"], description=item["description"], input_schema=item["parameters"])
        for item in native.get("tools") or ()
    ]
