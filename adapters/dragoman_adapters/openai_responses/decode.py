"""Decodes replies, and requests in the Responses format (docs/reference/wires/openai-responses.md)."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts, UsageReader
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import replace_fields, text_block
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.openai_responses import encode
from dragoman_adapters.openai_responses.client_tools import calls_of, canonical_name, flat_tools
from dragoman_adapters.openai_responses.decode_messages import MessageAccumulator, decode_tool_result, item_kind

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STATUSES = {
    "in_progress": MessageStatus.PARTIAL,
    "queued": MessageStatus.PARTIAL,
    "cancelled": MessageStatus.CANCELLED,
}
"""The statuses of a background response that is not complete."""

RUNNING = ("queued", "in_progress")
"""Those of a response that has not ended."""

STOP_REASONS = {
    "max_output_tokens": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "steered": StopReason.PAUSE,
    "max_messages": StopReason.PAUSE,
}
"""The reasons of an incomplete response. For any other reason, the model may be asked to continue."""

CLIENT_CALLS = {
    "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call", "tool_search_call",
    "mcp_approval_request",
}  # fmt: skip
"""Native items that the caller answers, unless the reply continues after them."""

_COVERED_FIELDS = {"object", "model", "output", "output_text", "usage", "created_at", "completed_at"}


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole response, or the one that a stream has accumulated."""
    known = known_names("dragoman_adapters.openai_responses")
    calls = count()
    declared = reply.context.native_calls
    message = MessageAccumulator(
        reply.provider, Role.ASSISTANT, lambda call_id: reply.call_id(next(calls), call_id), declared
    )
    for item in native["output"]:
        message.add(item)
    covered = _COVERED_FIELDS | known.request
    raw = {key: value for key, value in native.items() if key not in covered and value is not None}
    if unknown := native.keys() - known.reply - known.request:
        reply.note_drift("field", unknown)
    if (details := native.get("incomplete_details")) and (stop := details.get("reason")) not in STOP_REASONS:
        reply.note_drift("stop_reason", [stop])
    if status is MessageStatus.COMPLETE:
        status = STATUSES.get(native.get("status", ""), status)
    return reply.build(
        message.blocks,
        model=native.get("model"),
        stop_reason=_decode_stop_reason(native, status),
        usage=decode_usage(native),
        raw=raw | message.raw(),
        status=status,
        channel=message.channel,
        known=known,
    )


def decode_counts(native: dict[str, Any]) -> ReplyCounts:
    """Decode the counts of a whole response. Raises as `decode_message` does if it is not a response."""
    for item in native["output"]:
        item_kind(item)
    status = STATUSES.get(native.get("status", ""), MessageStatus.COMPLETE)
    transformations = native.get("input_transformations")
    return ReplyCounts(native.get("model"), decode_usage(native), status, transformations)


def _decode_stop_reason(native: Mapping[str, Any], status: MessageStatus) -> StopReason:
    """Decode the stop reason. The wire has none: it follows from the status and the items."""
    if status is MessageStatus.PARTIAL:
        return StopReason.PAUSE
    if native.get("status") == "incomplete":
        return STOP_REASONS.get(str((native.get("incomplete_details") or {}).get("reason")), StopReason.PAUSE)
    items = [item for item in native["output"] if item_kind(item) != "reasoning"]
    if any(item_kind(item) == "function_call" for item in items) or (items and item_kind(items[-1]) in CLIENT_CALLS):
        return StopReason.TOOL_USE
    for item in items:
        content = item["content"] if item_kind(item) == "message" else ()
        if isinstance(content, list) and any(part.get("type") == "refusal" for part in content):
            return StopReason.REFUSAL
    return StopReason.END_TURN


def decode_usage(native: Mapping[str, Any]) -> TokenUsage | None:
    """Decode the usage. input_tokens includes cached tokens; output_tokens includes reasoning."""
    count, reply = UsageReader.of(native.get("usage")), UsageReader(native)
    if count is None or count.native.get("input_tokens") is None:
        return None
    counts = count.counts(COUNTS, "output_tokens")
    cached, cache_writes = counts["cached_input_tokens"] or 0, counts["cache_creation_input_tokens"] or 0
    prompt, output = counts["input_tokens"] or 0, counts["output_tokens"] or 0
    total, reasoning = counts["reported_total"], counts["reasoning_tokens"]
    if reasoning and total == prompt + output + reasoning:
        output += reasoning  # the dialect counts it separately
    return count.usage(
        input_tokens=count.uncached(prompt, cached, cache_writes),
        output_tokens=output,
        cached_input_tokens=cached,
        cache_creation_input_tokens=cache_writes,
        reasoning_tokens=reasoning,
        server_tools=_decode_server_tools(reply, count),
        service_tier=reply.text("service_tier"),
        reported_total=total,
        reported_cost_usd=count.dollars("cost_in_usd_ticks", _USD_PER_TICK) or count.dollars("cost"),
        unread=(*count.unread, *reply.unread),
    )


COUNTS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "input_tokens_details.cached_tokens",
    "cache_creation_input_tokens": "input_tokens_details.cache_write_tokens",
    "output_tokens": "output_tokens",
    "reasoning_tokens": "output_tokens_details.reasoning_tokens",
    "reported_total": "total_tokens",
}
"""The paths of the counts, for both directions. Those of the prompt and of the total include cached tokens."""
_USD_PER_TICK = Decimal("1e-10")
"""The unit of xAI's own figure, in US dollars; OpenRouter's figure is in dollars."""


def _decode_server_tools(reply: UsageReader, count: UsageReader) -> dict[str, int]:
    """Count the calls of server tools. OpenAI reports searches outside of the usage, xAI all calls inside it.

    Most replies of OpenAI report neither: then the items of the output count, as they do for its other tools. A call of
    web_search that opens a page or searches in it is not billed
    (https://developers.openai.com/api/docs/guides/tools-web-search).
    """
    if count.native.get("server_side_tool_usage_details") is not None:
        by_name = count.counts_by_name("server_side_tool_usage_details")
        return {name.removesuffix("_calls"): calls for name, calls in by_name.items()}
    items = reply.native.get("output") or ()
    kinds = list(map(item_kind, items))
    if (searches := reply.optional("tool_usage.web_search.num_requests")) is None:
        searches = sum(
            kind == "web_search_call" and (item.get("action") or {}).get("type", "search") == "search"
            for item, kind in zip(items, kinds, strict=True)
        )
    found = Counter([name for kind in kinds if (name := _billed_name(kind))])
    return {name: calls for name, calls in {"web_search": searches, **found}.items() if calls}


def _billed_name(kind: str) -> str | None:
    """Return the name of the price of an item; None if it costs nothing but tokens. A call that this version does not
    know may be billed: without a price, it makes the cost a lower bound."""
    if kind in _BILLED_ITEMS or not kind.endswith("_call") or kind in _UNBILLED_CALLS:
        return _BILLED_ITEMS.get(kind)
    return kind.removesuffix("_call")


_UNBILLED_CALLS = CLIENT_CALLS | {"function_call", "web_search_call"}
"""Calls of the program, and searches, which are counted by their actions."""
_BILLED_ITEMS = {
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "shell_call_output": "shell",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}
"""The items of an output that the provider ran and may bill, with the names of their prices. A shell of the provider's
own answers in the same reply."""


def decode_history(native: dict[str, Any], reader: "HistoryReader") -> list[str]:
    """Decode the instructions and the items of a request. Consecutive items of the assistant are one message. Return
    the fields that they cover."""
    covered = ["model", *(name for name in ("instructions", "input") if native.get(name))]
    instructions = native.get("instructions")
    if isinstance(instructions, str) and instructions:
        reader.add(Role.SYSTEM, (text_block(instructions),), {"instructions": True})
    items = native.get("input")
    if isinstance(items, str):
        if items:
            reader.add(Role.USER, (text_block(items),), {"string": True})
        return covered
    assistant: MessageAccumulator | None = None
    declared = calls_of(items)
    start, _ = reader.resume(items or (), declared)
    for index, item in enumerate(islice(items or (), start, None), start):
        if assistant is None:
            reader.mark(index)
        role = _decode_role(item, replying=assistant is not None)
        if role is Role.ASSISTANT:
            assistant = assistant or MessageAccumulator(reader.provider, role, reader.call_id, declared)
            assistant.add(item)
            continue
        _add_message(assistant, reader)
        assistant = None
        if item_kind(item) in _RESULTS:
            result, note = decode_tool_result(item, reader.result_id(item.get("call_id")), reader.provider)
            reader.add(role, (result,), {"blocks": {"0": note}} if note else {})
        else:
            message = MessageAccumulator(reader.provider, role, reader.call_id)
            message.add(item)
            _add_message(message, reader)
    if assistant is None:
        reader.mark(len(items or ()))
    _add_message(assistant, reader)
    return covered


def _add_message(message: MessageAccumulator | None, reader: "HistoryReader") -> None:
    if message is not None:
        reader.add(message.role, message.blocks, message.raw(), channel=message.channel)


_RESULTS = {"function_call_output", "custom_tool_call_output"}
_USER_ITEMS = {"configuration_update", "compaction_trigger"}
_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "system": Role.SYSTEM, "developer": Role.DEVELOPER}


def _decode_role(item: Mapping[str, Any], *, replying: bool) -> Role:
    """Return the role of an item's message. The output of a native tool stays in the reply that it is part of."""
    name = item_kind(item)
    if "role" in item:
        return _ROLES.get(item["role"], Role.USER)
    if name in _RESULTS:
        return Role.TOOL
    if name.endswith("_output") or name == "mcp_approval_response":
        return Role.ASSISTANT if replying else Role.TOOL
    return Role.USER if name in _USER_ITEMS else Role.ASSISTANT


def decode_tools(native: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. Server tools are kept whole, under their names."""
    found: list[ToolDefinition] = []
    for item, group in flat_tools(native.get("tools") or ()):
        raw: dict[str, Any] = {"by": provider}
        name = item.get("name") or item.get("server_label") or item["type"]
        if group is not None:
            raw["namespace"] = {key: value for key, value in group.items() if key != "tools"}
            name = canonical_name({"name": name, "namespace": group["name"]})
        if item.get("type") != "function":
            found.append(ToolDefinition(name=name, provider_raw={**raw, "native": item}))
            continue
        schema = {} if item.get("parameters") is None else {"input_schema": item["parameters"]}
        definition = ToolDefinition(name=name, description=item.get("description") or "", **schema)
        raw["residue"] = diff_objects(item, encode.encode_tool(definition, provider))
        found.append(replace_fields(definition, {"provider_raw": copy_json(raw)}))
    return found
