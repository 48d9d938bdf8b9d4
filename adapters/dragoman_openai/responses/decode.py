"""Wire to canonical: replies, and requests in the Responses format (wire reference 3.1 to 3.4)."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.incoming import HistoryReader, leftover
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import residue
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_openai.responses import encode
from dragoman_openai.responses.draft import Draft, kind, tool_result

if TYPE_CHECKING:
    from dragoman_openai.responses.adapter import ResponsesAdapter

STATUSES = {
    "in_progress": (MessageStatus.PARTIAL, StopReason.PAUSE),
    "queued": (MessageStatus.PARTIAL, StopReason.PAUSE),
    "cancelled": (MessageStatus.CANCELLED, StopReason.CANCELLED),
}
"""What a reply is that a background response has not finished."""

INCOMPLETE = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
}
"""Why a reply stopped early; of any other reason it may be asked to go on."""

WAITING = {
    "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call",
    "mcp_approval_request",
}  # fmt: skip
"""Native items that the caller answers, where nothing of the reply follows them."""

_ECHOED = {
    "instructions", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "max_tool_calls", "temperature",
    "top_p", "top_logprobs", "text", "truncation", "metadata", "user", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "frequency_penalty", "presence_penalty", "background", "prompt",
}  # fmt: skip
"""Fields of a reply that only repeat the request."""

_SPOKEN_FOR = {"object", "model", "output", "output_text", "usage", "created_at", "completed_at"} | _ECHOED


def reply_object(body: bytes) -> dict[str, Any]:
    return wirejson.loads_object(body)


def failure(native: Mapping[str, Any]) -> dict[str, Any] | None:
    """The error that a reply is, in the shape that HTTP errors have; None where it is an answer."""
    if native.get("status") == "failed" or (native.get("error") and "output" not in native):
        return {"error": native.get("error") or {"code": "server_error", "message": "the response failed"}}
    return None


def message(native: dict[str, Any], reply: Reply, status: MessageStatus = MessageStatus.COMPLETE) -> Message:
    """A whole response object, or the one that a stream has gathered."""
    calls = count()
    draft = Draft(reply.provider, Role.ASSISTANT, lambda call_id: reply.call_id(next(calls), call_id))
    for item in native["output"]:
        draft.add(item)
    raw = {key: value for key, value in native.items() if key not in _SPOKEN_FOR and value is not None}
    if status is MessageStatus.COMPLETE:
        status, _ = STATUSES.get(native.get("status", ""), (status, None))
    return reply.message(
        draft.blocks,
        model=native.get("model"),
        stop_reason=_stop_reason(native, status),
        usage=usage(native),
        raw=raw | draft.raw(),
        status=status,
        channel=draft.channel,
    )


def _stop_reason(native: Mapping[str, Any], status: MessageStatus) -> StopReason:
    """The wire names no reason for a stop: it follows from the status and the items (wire reference 8.5)."""
    if status is MessageStatus.CANCELLED:
        return StopReason.CANCELLED
    if status is MessageStatus.ERROR:
        return StopReason.ERROR
    if status is MessageStatus.PARTIAL:
        return StopReason.PAUSE
    if native.get("status") == "incomplete":
        return INCOMPLETE.get(str((native.get("incomplete_details") or {}).get("reason")), StopReason.PAUSE)
    items = [item for item in native["output"] if kind(item) != "reasoning"]
    if any(kind(item) == "function_call" for item in items) or (items and kind(items[-1]) in WAITING):
        return StopReason.TOOL_USE
    if any(_refuses(item) for item in items):
        return StopReason.REFUSAL
    return StopReason.END_TURN


def _refuses(item: Mapping[str, Any]) -> bool:
    content = item["content"] if kind(item) == "message" else ()
    return isinstance(content, list) and any(part.get("type") == "refusal" for part in content)


def usage(native: Mapping[str, Any]) -> TokenUsage | None:
    """OpenAI counts cached tokens inside input_tokens and reasoning inside output_tokens (wire reference 8.6)."""
    counts = native.get("usage")
    if not counts or counts.get("input_tokens") is None:
        return None
    details = counts.get("input_tokens_details") or {}
    cached, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    reasoning = (counts.get("output_tokens_details") or {}).get("reasoning_tokens")
    output, total = counts.get("output_tokens") or 0, counts.get("total_tokens")
    if reasoning and total == counts["input_tokens"] + output + reasoning:
        output += reasoning  # the dialect counts it beside
    return TokenUsage(
        input_tokens=max(0, counts["input_tokens"] - cached - written),
        output_tokens=output,
        cached_input_tokens=cached,
        cache_creation_input_tokens=written,
        reasoning_tokens=reasoning,
        server_tools=_server_tools(native, counts),
        service_tier=native.get("service_tier"),
        reported_total=total,
        reported_cost_usd=_cost(counts),
        raw=counts,
    )


def _server_tools(native: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, int]:
    """Calls of the provider's own tools: OpenAI counts searches beside the usage, xAI all of them in it."""
    searches = ((native.get("tool_usage") or {}).get("web_search") or {}).get("num_requests")
    by_name = counts.get("server_side_tool_usage_details") or {}
    found = {"web_search": searches, **{name.removesuffix("_calls"): count for name, count in by_name.items()}}
    return {name: count for name, count in found.items() if count}


_TICKS = Decimal("1e-10")


def _cost(counts: Mapping[str, Any]) -> Decimal | None:
    """What the provider itself says that it asks: OpenRouter in US dollars, xAI in ten-thousand-millionths of one."""
    ticks, dollars = counts.get("cost_in_usd_ticks"), counts.get("cost")
    if ticks is not None:
        return Decimal(str(ticks)) * _TICKS
    return Decimal(str(dollars)) if isinstance(dollars, (int, float)) else None


def history(native: dict[str, Any], reader: HistoryReader) -> None:
    """The instructions and the items of a request; items of the assistant that follow each other are one message."""
    instructions = native.get("instructions")
    if isinstance(instructions, str) and instructions:
        reader.add(Role.SYSTEM, (TextBlock(text=instructions),), {"instructions": True})
    given = native.get("input")
    if isinstance(given, str):
        if given:
            reader.add(Role.USER, (TextBlock(text=given),), {"string": True})
        return
    said: Draft | None = None
    for item in given or ():
        role = _role(item, replying=said is not None)
        if role is Role.ASSISTANT:
            said = said or Draft(reader.provider, role, reader.call_id)
            said.add(item)
            continue
        _close(said, reader)
        said = None
        if kind(item) == "function_call_output":
            result, note = tool_result(item, reader.result_id(item["call_id"]), reader.provider)
            reader.add(role, (result,), {"blocks": {"0": note}} if note else {})
        else:
            draft = Draft(reader.provider, role, reader.call_id)
            draft.add(item)
            _close(draft, reader)
    _close(said, reader)


def _close(draft: Draft | None, reader: HistoryReader) -> None:
    if draft is not None:
        reader.add(draft.role, draft.blocks, draft.raw(), channel=draft.channel)


_OF_THE_USER = {"configuration_update", "compaction_trigger"}
_SPEAKERS = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.DEVELOPER}


def _role(item: Mapping[str, Any], *, replying: bool) -> Role:
    """Whose message an item belongs to. An output of a native tool stays with the reply that it stands in."""
    name = kind(item)
    if "role" in item:
        return _SPEAKERS.get(item["role"], Role.USER)
    if name == "function_call_output":
        return Role.TOOL
    if name.endswith("_output") or name == "mcp_approval_response":
        return Role.ASSISTANT if replying else Role.TOOL
    return Role.USER if name in _OF_THE_USER else Role.ASSISTANT


def tools(native: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    """The tools of a request. One that the provider runs itself is kept whole, under its name."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        if item.get("type") != "function":
            name = item.get("name") or item.get("server_label") or item["type"]
            found.append(ToolDefinition(name=name, provider_raw={"by": provider, "native": item}))
            continue
        definition = ToolDefinition(name=item["name"], description=item.get("description") or "")
        if item.get("parameters") is not None:
            definition = definition.model_copy(update={"input_schema": item["parameters"]})
        if difference := residue(item, encode.tool(definition, provider)):
            definition = definition.model_copy(update={"provider_raw": {"by": provider, "residue": difference}})
        found.append(definition)
    return found


def options(native: dict[str, Any], adapter: "ResponsesAdapter", context: RequestContext) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field."""
    reasoning = native.get("reasoning") or {}
    form = (native.get("text") or {}).get("format") or {}
    read = AdapterOptions(
        max_output_tokens=native.get("max_output_tokens"),
        temperature=native.get("temperature"),
        top_p=native.get("top_p"),
        tool_choice=_tool_choice(native.get("tool_choice")),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=form.get("schema") if form.get("type") == "json_schema" else None,
        effort=reasoning.get("effort"),
        thinking=True if reasoning.get("summary") else None,
        stream=native.get("stream") or False,
        context=context,
    )
    written = encode.parameters(Outgoing(adapter, read, context, (), []))
    conversation = ["model", *(name for name in ("instructions", "input", "tools") if native.get(name))]
    extra = leftover(native, written, conversation)
    return replace(read, extra={adapter.provider: extra} if extra else {})


def _tool_choice(native: Any) -> Any:
    match native:
        case "auto" | "none" | "required":
            return native
        case {"type": "function", "name": str(name)}:
            return NamedTool(name)
        case _:
            return None
