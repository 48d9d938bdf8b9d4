"""Wire to canonical: replies, and requests in the Responses format (wire reference 3.1 to 3.4)."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING, Any

from dragoman.adapter import structured, wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.counting import Counts
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
    count, served = Counts.of(native.get("usage")), Counts(native)
    if count is None or count.native.get("input_tokens") is None:
        return None
    cached, written = count("input_tokens_details.cached_tokens"), count("input_tokens_details.cache_write_tokens")
    prompt, output, total = count("input_tokens"), count.due("output_tokens"), count.told("total_tokens")
    reasoning = count.told("output_tokens_details.reasoning_tokens")
    if reasoning and total == prompt + output + reasoning:
        output += reasoning  # the dialect counts it beside
    return TokenUsage(
        input_tokens=count.uncached(prompt, cached, written),
        output_tokens=output,
        cached_input_tokens=cached,
        cache_creation_input_tokens=written,
        reasoning_tokens=reasoning,
        server_tools=_server_tools(served, count),
        service_tier=served.text("service_tier"),
        reported_total=total,
        reported_cost_usd=count.dollars("cost_in_usd_ticks", _TICKS) or count.dollars("cost"),
        unread=(*count.unread, *served.unread),
        raw=dict(count.native),
    )


_TICKS = Decimal("1e-10")
"""What xAI counts its figure in, in US dollars; OpenRouter names dollars."""


def _server_tools(reply: Counts, count: Counts) -> dict[str, int]:
    """Calls of the provider's own tools: OpenAI counts searches beside the usage, xAI all of them in it.

    Where neither does, as in most replies of OpenAI's, the items of the output tell. A call of web_search that opens a
    page or looks into one is not billed, one that searches is
    (https://developers.openai.com/api/docs/guides/tools-web-search).
    """
    by_name = {
        name.removesuffix("_calls"): calls for name, calls in count.named("server_side_tool_usage_details").items()
    }
    if by_name or count.native.get("server_side_tool_usage_details") is not None:
        return by_name
    if (searches := reply.told("tool_usage.web_search.num_requests")) is None:
        searches = sum(
            kind(item) == "web_search_call" and (item.get("action") or {}).get("type", "search") == "search"
            for item in reply.native.get("output") or ()
        )
    return {"web_search": searches} if searches else {}


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
        raw = {"by": provider, "residue": residue(item, encode.tool(definition, provider))}
        found.append(definition.model_copy(update={"provider_raw": raw}))
    return found


def options(native: dict[str, Any], adapter: "ResponsesAdapter", context: RequestContext) -> AdapterOptions:
    """The options of a request; what our own encoder would write otherwise is kept as the provider's own field."""
    reasoning = native.get("reasoning") or {}
    form = (native.get("text") or {}).get("format") or {}
    offers = bool(native.get("tools"))
    binds = form.get("type") == "json_schema" and structured.is_native(adapter.capabilities, tools=offers)
    read = AdapterOptions(
        max_output_tokens=native.get("max_output_tokens"),
        temperature=native.get("temperature"),
        top_p=native.get("top_p"),
        tool_choice=_tool_choice(native.get("tool_choice")),
        parallel_tool_calls=native.get("parallel_tool_calls"),
        output_schema=form.get("schema") if binds else None,
        effort=reasoning.get("effort"),
        thinking=True if reasoning.get("summary") else None,
        stream=native.get("stream") or False,
        context=context,
    )
    written = encode.parameters(Outgoing(adapter, read, context, (), []), tools=offers)
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
