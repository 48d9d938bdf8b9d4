"""Wire to canonical: replies, and requests in the format of `encode`."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext, ToolChoice
from dragoman.adapter.counting import Counts
from dragoman.adapter.incoming import HistoryReader, leftover
from dragoman.adapter.outgoing import Outgoing
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_local import encode

if TYPE_CHECKING:
    from dragoman_local.adapter import LocalAdapter

PROVIDER = "local"

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
}


def reply_object(body: bytes) -> dict[str, Any]:
    return wirejson.loads_object(body)


def message(native: dict[str, Any], reply: Reply, status: MessageStatus = MessageStatus.COMPLETE) -> Message:
    """A whole reply object, or the one that a stream has gathered."""
    content = [
        part(item, reply.call_id(index, item.get("id")) if item["type"] == "call" else "")
        for index, item in enumerate(native["content"])
    ]
    return reply.message(
        content,
        model=native.get("model"),
        stop_reason=_stop_reason(native.get("stop"), status),
        usage=usage(native.get("usage")),
        raw={},
        status=status,
    )


def _stop_reason(native: str | None, status: MessageStatus) -> StopReason | None:
    if status is MessageStatus.CANCELLED:
        return StopReason.CANCELLED
    if status is MessageStatus.ERROR:
        return StopReason.ERROR
    return STOP_REASONS.get(native, StopReason.END_TURN) if native else None


def usage(native: dict[str, Any] | None) -> TokenUsage | None:
    """The runtime counts the prompt as it was put to the model, instructions and examples of ours included."""
    if (count := Counts.of(native)) is None:
        return None
    return TokenUsage(
        input_tokens=count.due("input_tokens"),
        output_tokens=count.due("output_tokens"),
        unread=count.unread,
        raw=native,
    )


def part(native: dict[str, Any], tool_use_id: str) -> ContentBlock:
    """One part; what the canonical form has no word for is kept whole."""
    match native["type"]:
        case "text":
            return TextBlock(text=native["text"])
        case "call":
            return call(native, tool_use_id)
        case "result":
            inner = tuple(part(item, "") for item in native["content"])
            return ToolResultBlock(tool_use_id=tool_use_id, content=inner, is_error=native.get("is_error") or False)
        case kind:
            return ProviderBlock(provider=PROVIDER, kind=kind, data=native)


def call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    """A call. Arguments that are still text were cut off or malformed: they run nothing."""
    arguments = native["arguments"]
    if isinstance(arguments, dict):
        return ToolUseBlock(id=tool_use_id, name=native["name"], input=arguments)
    return ToolUseBlock(id=tool_use_id, name=native["name"], raw_input=arguments)


def history(native: dict[str, Any], reader: HistoryReader) -> None:
    """The messages of a request, in order."""
    for item in native["messages"]:
        reader.add(Role(item["role"]), [part(inner, _tool_use_id(inner, reader)) for inner in item["content"]])


def _tool_use_id(native: dict[str, Any], reader: HistoryReader) -> str:
    match native["type"]:
        case "call":
            return reader.call_id(native.get("id"))
        case "result":
            return reader.result_id(native.get("id"))
        case _:
            return ""


def tools(native: dict[str, Any]) -> list[ToolDefinition]:
    """The tools of a request."""
    return [
        ToolDefinition(name=item["name"], description=item["description"], input_schema=item["parameters"])
        for item in native.get("tools") or ()
    ]


def options(native: dict[str, Any], adapter: "LocalAdapter", context: RequestContext) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field."""
    settings = native.get("options") or {}
    named: dict[str, Any] = {ours: settings.get(theirs) for ours, theirs in encode.OPTIONS.items()}
    read = AdapterOptions(
        **named,
        stop_sequences=tuple(settings.get("stop") or ()),
        tool_choice=_tool_choice(native.get("tool_choice")),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=native.get("output_schema"),
        stream=native.get("stream") or False,
        context=context,
    )
    written = encode.parameters(Outgoing(adapter, read, context, (), []))
    written["prompting"] = adapter.capabilities.wire["prompting"]
    extra = leftover(native, written, ("model", "messages", *(("tools",) if native.get("tools") else ())))
    return replace(read, extra={PROVIDER: extra} if extra else {})


def _tool_choice(native: Any) -> ToolChoice | None:
    if isinstance(native, dict):
        return NamedTool(native["name"])
    choices: tuple[ToolChoice, ...] = ("auto", "none", "required")
    return next((choice for choice in choices if choice == native), None)
