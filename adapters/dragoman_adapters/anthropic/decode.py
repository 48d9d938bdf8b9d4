"""Decodes replies, and requests in Anthropic's format (docs/reference/wires/anthropic.md)."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, ReplyCounts, UsageReader
from dragoman.adapter.requests.block_fields import MESSAGE_FIELDS, unread_fields, without_fields
from dragoman.adapter.wire_diff import diff_objects
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    replace_fields,
    text_block,
)
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.anthropic import encode

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_USE,
    "pause_turn": StopReason.PAUSE,
    "compaction": StopReason.PAUSE,
    "refusal": StopReason.REFUSAL,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}

_COVERED_FIELDS = {"id", "type", "role", "model", "content", "usage"}
_PLAIN_FIELDS = {"type", "text"}


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated."""
    known = known_names("dragoman_adapters.anthropic")
    content, notes = _decode_blocks(native["content"], reply.provider, partial(call_id, reply))
    raw: dict[str, Any] = {
        key: value for key, value in native.items() if key not in _COVERED_FIELDS and value is not None
    }
    if "id" in native:
        raw["id"] = native["id"]
    if unknown := native.keys() - known.reply:
        reply.note_drift("field", unknown)
    if (stop := native.get("stop_reason")) and stop not in STOP_REASONS:
        reply.note_drift("stop_reason", [stop])
    if notes:
        raw["blocks"] = notes
    return reply.build(
        content,
        model=native.get("model"),
        stop_reason=STOP_REASONS.get(stop, StopReason.END_TURN) if stop else None,
        usage=decode_usage(native.get("usage"), native.get("content")),
        raw=raw,
        status=status,
        known=known,
    )


def call_id(reply: ReplyBuilder, index: int, native: Mapping[str, Any]) -> str:
    """Return the canonical id of a call in a reply. An action on a computer is noted."""
    canonical = reply.call_id(index, native.get("id"))
    actions = reply.context.action_calls
    if actions is not None and native.get(encode.TOOLSET_FIELD) == encode.COMPUTER_TOOLSET:
        actions.mark(canonical)
    return canonical


def _decode_blocks(
    natives: Iterable[dict[str, Any]], provider: str, call_id: Callable[[int, dict[str, Any]], str]
) -> tuple[list[ContentBlock], dict[str, Any]]:
    """Decode blocks, and note by index what our encoder would not write."""
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for index, item in enumerate(natives):
        if item["type"] == "text" and item.keys() == _PLAIN_FIELDS:
            blocks.append(text_block(item["text"]))  # as below: a plain text leaves nothing to note
            continue
        decoded = decode_block(item, call_id(index, item) if item["type"] == "tool_use" else "", provider)
        blocks.append(decoded)
        if note := diff_objects(item, encode.encode_block(decoded, lambda _, item=item: item.get("id", ""))):  # type: ignore[misc]
            notes[str(index)] = note
    return blocks, notes


def decode_counts(native: dict[str, Any]) -> ReplyCounts:
    """Decode the counts of a whole reply. Raises as `decode_message` does if it is not a reply."""
    for item in native["content"]:
        str(item["type"])
    usage = decode_usage(native.get("usage"), native["content"])
    return ReplyCounts(native.get("model"), usage, transformations=native.get("input_transformations"))


def decode_usage(
    native: dict[str, Any] | None, content: Sequence[Mapping[str, Any]] | None = None
) -> TokenUsage | None:
    """Decode the usage. input_tokens excludes cached tokens; output_tokens includes thinking. ``content`` is that of
    the reply: the usage does not count its runs of code.

    The top level leaves out the iterations that compacted the conversation, which are billed too. An advisor uses
    another model: it counts as a call of a tool, whose price is unknown.
    """
    count = UsageReader.of(native)
    if count is None or native is None or native.get("input_tokens") is None:
        return None
    iterations = count.objects("iterations") if "iterations" in native else ()
    counts = count.counts(_COUNTS, "output_tokens")
    for name, path in _BUCKETS.items():
        total = counts[name] or 0
        for each in iterations:
            if each.get("type") == "compaction":
                total += count.count_at(f"iterations.{path}", each.get(path))
        counts[name] = total
    advised = sum(each.get("type") == "advisor_message" for each in iterations)
    runs = [str(block.get("name")) for block in content or () if block.get("type") == "server_tool_use"]
    has_tools = runs or advised or native.get("server_tool_use") is not None  # most replies use none
    return count.usage(
        **counts,
        server_tools=_decode_server_tools(count, runs, advised) if has_tools else {},
        service_tier=count.text("service_tier"),
        speed=count.text("speed"),
    )


_BUCKETS = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_input_tokens": "cache_read_input_tokens",
    "cache_creation_input_tokens": "cache_creation_input_tokens",
}
_COUNTS = {
    **_BUCKETS,
    "cache_creation_1h_input_tokens": "cache_creation.ephemeral_1h_input_tokens",
    "reasoning_tokens": "output_tokens_details.thinking_tokens",
}


def _decode_server_tools(count: UsageReader, names: Sequence[str], advisor_calls: int) -> dict[str, int]:
    """Count the calls that may be billed in addition to the tokens. ``names`` are those of the reply's calls.

    Code that runs for a search or a fetch costs nothing extra
    (https://platform.claude.com/docs/en/agents-and-tools/tool-use/code-execution-tool).
    """
    found = count.counts_by_name("server_tool_use")
    if not (names or advisor_calls):
        return found
    runs = 0 if found else sum(name.endswith(_CODE) for name in names)
    unknown = Counter(name for name in names if not (name in _KNOWN_TOOLS or _FREE_NAME.search(name)))
    counted = {_CODE: runs, "advisor": advisor_calls, **unknown}
    return found | {name: calls for name, calls in counted.items() if calls}


_CODE = "code_execution"
_FREE_NAME = re.compile(rf"^tool_search_tool|{_CODE}$")
_KNOWN_TOOLS = ("web_search", "web_fetch", "advisor")
"""Server tools whose calls are counted elsewhere, or cost nothing but tokens. Another one may be billed: without a
price, it makes the cost a lower bound."""


def decode_block(native: dict[str, Any], tool_use_id: str, provider: str) -> ContentBlock:
    """Decode one block; unknown blocks are kept whole."""
    match native["type"]:
        case "text":
            return TextBlock(text=native["text"], citations=tuple(map(_decode_citation, native.get("citations") or ())))
        case "tool_use" if isinstance(native["input"], dict):
            return ToolUseBlock(
                id=tool_use_id, name=native["name"], input=native["input"], raw_input=native.get("raw_input")
            )
        case "thinking":
            return ThinkingBlock(text=native["thinking"], signature=native.get("signature") or None)
        case "redacted_thinking":
            return RedactedThinkingBlock(data=native["data"])
        case "image" if source := _decode_source(native["source"], provider):
            return ImageBlock(source=source, media_type=native["source"].get("media_type"))
        case "document" if source := _decode_source(native["source"], provider):
            return DocumentBlock(
                source=source,
                media_type=native["source"].get("media_type"),
                title=native.get("title"),
                context=native.get("context"),
                citations=enabled if isinstance(enabled := lookup_path(native, "citations.enabled"), bool) else None,
            )
        case kind:
            return ProviderBlock(provider=provider, kind=kind, data=native)


def _decode_citation(native: dict[str, Any]) -> Citation:
    return Citation(
        kind=native["type"],
        title=native.get("title") or native.get("document_title"),
        url=native.get("url") or native.get("source"),
        cited_text=native.get("cited_text"),
        start=native.get("start_char_index"),
        end=native.get("end_char_index"),
        data=native,
    )


def _decode_source(native: dict[str, Any], provider: str) -> MediaSource | None:
    match native["type"]:
        case "base64" | "text" as kind:
            return MediaSource(kind=kind, data=native["data"])
        case "url":
            return MediaSource(kind="url", data=native["url"])
        case "file":
            return MediaSource(kind="file_id", data=native["file_id"], provider=provider)
        case _:
            return None


def decode_history(native: dict[str, Any], reader: "HistoryReader") -> list[str]:
    """Decode the system prompt and the messages of a request. Return the fields that they cover."""
    covered = ["model", "messages"]
    if system := native.get("system"):
        covered.append("system")
        _add_message(reader, Role.SYSTEM, system, {})
    items = native["messages"]
    start, _ = reader.resume(items)
    for count, item in enumerate(islice(items, start, None), start + 1):
        role = reader.role(item["role"])
        layout = {"in_list": True} if role is Role.SYSTEM else {}
        _add_message(reader, role, item["content"], layout | unread_fields(item, _MESSAGE_FIELDS))
        reader.mark(count)
    return covered


_MESSAGE_FIELDS = {"role", "content"}


def _add_message(
    reader: "HistoryReader", role: Role, content: str | list[dict[str, Any]], layout: dict[str, Any]
) -> None:
    """Decode one native message. Each tool result becomes a separate message, and so does the content around them."""
    if isinstance(content, str):
        reader.add(role, (text_block(content),), {"string": True, **layout})
        return
    layout = {**layout, "list": True}
    pending: list[dict[str, Any]] = []
    joins_previous = False
    for item in content:
        if item["type"] == "tool_result":
            if pending:
                _add_blocks(reader, role, pending, layout, joins_previous=joins_previous)
                pending, joins_previous, layout = [], True, without_fields(layout)
            _add_tool_result(reader, item, layout, joins_previous=joins_previous)
            joins_previous, layout = True, without_fields(layout)
        else:
            pending.append(item)
    if pending or not joins_previous:
        _add_blocks(reader, role, pending, layout, joins_previous=joins_previous)


def _add_blocks(
    reader: "HistoryReader", role: Role, natives: list[dict[str, Any]], layout: dict[str, Any], *, joins_previous: bool
) -> None:
    blocks, notes = _decode_blocks(natives, reader.provider, lambda _, item: reader.call_id(item.get("id")))
    marked = tuple(index for index, item in enumerate(natives) if item.get("cache_control"))
    layout = {**layout, "joined": joins_previous, **({"blocks": notes} if notes else {})}
    reader.add(role, blocks, layout, cache_breakpoints=marked)


def _add_tool_result(
    reader: "HistoryReader", native: dict[str, Any], layout: dict[str, Any], *, joins_previous: bool
) -> None:
    content = native.get("content", "")
    note: dict[str, Any] = {}
    if isinstance(content, str):
        parts: list[ContentBlock] = [text_block(content)] if content else []
    else:
        note["list"] = True
        parts, note["parts"] = _decode_blocks(content, reader.provider, lambda *_: "")
    result = ToolResultBlock(
        tool_use_id=reader.result_id(native["tool_use_id"]),
        content=tuple(parts),
        is_error=native.get("is_error") or False,
    )
    note |= diff_objects(native, encode.encode_block(result, lambda _: native["tool_use_id"], note)) or {}
    fields = {MESSAGE_FIELDS: layout[MESSAGE_FIELDS]} if MESSAGE_FIELDS in layout else {}
    layout = {**fields, "joined": joins_previous, **({"blocks": {"0": note}} if note else {})}
    reader.add(Role.TOOL, (result,), layout, cache_breakpoints=(0,) if native.get("cache_control") else ())


def decode_tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. Server tools are kept whole, under their names."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        if not isinstance(item.get("input_schema"), dict):
            name = item.get("name") or item.get("mcp_server_name") or item["type"]
            found.append(ToolDefinition(name=name, provider_raw={"by": provider, "native": item}))
            continue
        definition = ToolDefinition(
            name=item["name"], description=item.get("description") or "", input_schema=item["input_schema"]
        )
        residue = copy_json(diff_objects(item, encode.encode_tool(definition, provider)))
        found.append(replace_fields(definition, {"provider_raw": {"by": provider, "residue": residue}}))
    return found
