"""Decodes replies and requests of Converse (docs.aws.amazon.com/bedrock/latest/APIReference, Converse)."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.requests.block_fields import unread_fields, without_fields
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import (
    MEDIA_CLASSES,
    Citation,
    ContentBlock,
    DocumentBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.bedrock import encode
from dragoman_adapters.bedrock.body_formats import PROVIDER, BodyFormat

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

Native = dict[str, Any]

STOP_REASONS = {
    "end_turn": StopReason.END_TURN,
    "tool_use": StopReason.TOOL_USE,
    "max_tokens": StopReason.MAX_TOKENS,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "guardrail_intervened": StopReason.REFUSAL,
    "content_filtered": StopReason.REFUSAL,
    "malformed_model_output": StopReason.ERROR,
    "malformed_tool_use": StopReason.ERROR,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
}

CACHE_POINT = "cachePoint"
"""The key of an empty block, which is noted and not decoded."""

_COVERED_FIELDS = {"output", "usage"}
_PLAIN_FIELDS = {"text"}
_MEDIA = ("image", "document", "video", "audio")


def decode_message(native: Native, reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated."""
    natives: list[Native] = []
    for block in native["output"]["message"]["content"]:
        call = block.get("toolUse") or {}
        if call.get("type") == "tool_use":  # in requests a call has no type of its own
            call = {name: value for name, value in call.items() if name != "type"}
            block = {**block, "toolUse": call}
        natives.append(block)
    content, notes = _decode_blocks(natives, reply.call_id)
    raw: Native = {key: value for key, value in native.items() if key not in _COVERED_FIELDS}
    known = known_names("dragoman_adapters.bedrock")
    reply.note_unknown("field", native.keys(), known.reply)
    if (stop := native.get("stopReason")) and stop not in STOP_REASONS:
        reply.note_drift("stop_reason", [stop])
    return reply.build(
        content,
        model=None,
        stop_reason=STOP_REASONS.get(stop, StopReason.END_TURN) if stop else None,
        usage=decode_usage(native),
        raw={**raw, "form": str(BodyFormat.CONVERSE), **notes},
        status=status,
        known=known,
    )


def _decode_media(kind: str, native: Mapping[str, Any]) -> ContentBlock | None:
    """Decode a media block; None if the canonical form does not support its kind of source."""
    match native.get("source") or {}:
        case {"bytes": str(data)}:
            source = MediaSource(kind="base64", data=data)
        case {"text": str(text)}:
            source = MediaSource(kind="text", data=text)
        case {"content": list(parts)} if all(isinstance(part.get("text"), str) for part in parts):
            source = MediaSource(kind="text", data="\n".join(part["text"] for part in parts))
        case {"s3Location": {"uri": str(uri)}}:  # only this provider can read it, and for its owner alone
            source = MediaSource(kind="file_id", data=uri, provider=PROVIDER)
        case _:
            return None
    media_type = encode.media_types()[kind].get(native.get("format") or "")
    if kind != "document":
        return MEDIA_CLASSES[kind](source=source, media_type=media_type)
    enabled = citations.get("enabled") if isinstance(citations := native.get("citations"), dict) else None
    return DocumentBlock(
        source=source,
        media_type=media_type,
        title=native.get("name"),
        context=native.get("context"),
        citations=enabled if isinstance(enabled, bool) else None,  # None: the request does not say
    )


def decode_usage(native: Mapping[str, Any]) -> TokenUsage | None:
    """Decode the usage. inputTokens excludes the cache counts; the total is the sum of all four.

    Some models spell them cacheReadInputTokenCount. The service tier and the latency mode are outside of the usage.
    """
    count, envelope = UsageReader.of(native.get("usage")), UsageReader(native)
    if count is None or native["usage"].get("inputTokens") is None:
        return None
    hourly = [each.get("inputTokens") for each in count.objects("cacheDetails") if each.get("ttl") == "1h"]
    return count.usage(
        input_tokens=count("inputTokens"),
        output_tokens=count.required("outputTokens"),
        cached_input_tokens=count("cacheReadInputTokens", "cacheReadInputTokenCount"),
        cache_creation_input_tokens=count("cacheWriteInputTokens", "cacheWriteInputTokenCount"),
        cache_creation_1h_input_tokens=sum(count.count_at("cacheDetails", each) for each in hourly) if hourly else None,
        server_tools=count.counts_by_name("serverToolUsage"),
        service_tier=envelope.text("serviceTier.type"),
        speed=envelope.text("performanceConfig.latency"),
        reported_total=count.optional("totalTokens"),
        unread=(*count.unread, *envelope.unread),
    )


def _decode_blocks(
    natives: Iterable[Native], call_id: Callable[[int, str | None], str]
) -> tuple[list[ContentBlock], Native]:
    """Decode the blocks and their notes: what each holds beyond our encoding, and the markers around it."""
    content: list[ContentBlock] = []
    blocks: dict[str, Native] = {}
    ahead: list[Native] = []
    for native in natives:
        if CACHE_POINT in native:
            behind = blocks.setdefault(str(len(content) - 1), {}).setdefault("behind", []) if content else ahead
            behind.append(native)
            continue
        if native.keys() == _PLAIN_FIELDS:
            content.append(text_block(native["text"]))  # as below: a plain text leaves nothing to note
            continue
        call = native.get("toolUse") or {}
        decoded = decode_block(native, call_id(len(content), call.get("toolUseId")) if is_call(native) else "")
        if note := diff_block(native, decoded, call.get("toolUseId") or ""):
            blocks[str(len(content))] = note
        content.append(decoded)
    return content, {name: value for name, value in (("blocks", blocks), ("ahead", ahead)) if value}


def _marked_blocks(notes: Native) -> tuple[int, ...]:
    """Return the indexes of the blocks that a marker follows."""
    return tuple(int(index) for index, note in notes.get("blocks", {}).items() if note.get("behind"))


def is_call(native: Native) -> bool:
    """Whether the caller answers a call; calls that Bedrock answers itself have another type."""
    call = native.get("toolUse")
    return call is not None and call.get("type") in (None, "tool_use")


def decode_block(native: Native, tool_use_id: str) -> ContentBlock:
    """Decode a block, which is named by its only key; unknown blocks are kept whole."""
    kind, value = _union_member(native)
    match kind:
        case "text":
            return text_block(value)
        case "json":
            return text_block(wirejson.dumps_text(value))
        case "toolUse" if is_call(native):
            data = value["input"]
            raw = None if isinstance(data, dict) else data if isinstance(data, str) else wirejson.dumps_text(data)
            return ToolUseBlock(id=tool_use_id, name=value["name"], input=data if raw is None else {}, raw_input=raw)
        case "reasoningContent" if "reasoningText" in value:
            thought = value["reasoningText"]
            return ThinkingBlock(text=thought["text"], signature=thought.get("signature") or None)
        case "reasoningContent" if "redactedContent" in value:
            return RedactedThinkingBlock(data=value["redactedContent"])
        case "citationsContent" if value.get("content"):
            text = "".join(part["text"] for part in value["content"])
            return TextBlock(text=text, citations=tuple(map(_decode_citation, value.get("citations") or ())))
        case "image" | "document" | "video" | "audio" if medium := _decode_media(kind, value):
            return medium
        case _:
            return ProviderBlock(provider=PROVIDER, kind=kind, data=native)


def _union_member(native: Native) -> tuple[str, Any]:
    """Return the name and the value of a union's member."""
    return next(iter(native.items()), ("", None))


def _decode_citation(native: Native) -> Citation:
    """Decode a citation. Its place has a kind, and a start and an end in the units of that kind."""
    kind, place = _union_member(native.get("location") or {"citation": {}})
    quoted = "".join(part.get("text") or "" for part in native.get("sourceContent") or ())
    characters = kind == "documentChar"
    return Citation(
        kind=kind,
        title=native.get("title"),
        url=place.get("url") or native.get("source"),
        cited_text=quoted or None,
        start=place.get("start") if characters else None,
        end=place.get("end") if characters else None,
        data=native,
    )


def diff_block(native: Native, decoded: ContentBlock, tool_use_id: str) -> Native:
    """Return the difference of a block from our encoding; ``inner`` is that of the object in its only field."""
    ours = encode.encode_block(decoded, lambda _: tool_use_id, encode.DocumentNames().reserve, takes_text=True)
    kind, theirs = _union_member(native)
    encoded = ours.get(kind)
    if isinstance(theirs, dict) and isinstance(encoded, dict):
        inner = diff_objects(theirs, encoded)
        return {**({"inner": inner} if inner else {}), **_other_fields(native, kind)}
    return diff_objects(native, ours) or {}


def _other_fields(native: Native, kind: str) -> Native:
    """Return the difference that adds the fields next to a union's member: unknown ones, as a union has one member."""
    return {"set": {name: value for name, value in native.items() if name != kind}} if len(native) > 1 else {}


def decode_history(native: Native, reader: "HistoryReader") -> None:
    """Decode the system prompt and the messages of a request."""
    if system := native.get("system"):
        content, notes = _decode_blocks(system, lambda *_: "")
        layout = {"form": str(BodyFormat.CONVERSE), **notes}
        reader.add(Role.SYSTEM, content, layout, cache_breakpoints=_marked_blocks(notes))
    previous_role = ""
    for item in native["messages"]:
        _add_message(reader, item, is_separate=item["role"] == previous_role)
        previous_role = item["role"]


def _add_message(reader: "HistoryReader", native: Native, *, is_separate: bool) -> None:
    """Decode one native message. Each tool result becomes a separate message, and so does the content around them."""
    role = Role(native["role"])
    layout: Native = {"form": str(BodyFormat.CONVERSE), **unread_fields(native, _MESSAGE_FIELDS)}
    if role is Role.SYSTEM:
        layout["in_list"] = True
    for group in _group_blocks(native["content"]) if role is Role.USER else [native["content"]]:
        first = {"apart": True} if is_separate and group[:1] == native["content"][:1] else {}
        if group and "toolResult" in group[0]:
            _add_tool_result(reader, group[0], group[1:], {**layout, **first})
        else:
            content, notes = _decode_blocks(group, lambda _, native_id: reader.call_id(native_id))
            reader.add(role, content, {**layout, **first, **notes}, cache_breakpoints=_marked_blocks(notes))
        layout = without_fields(layout)


_MESSAGE_FIELDS = {"role", "content"}


def _group_blocks(content: list[Native]) -> list[list[Native]]:
    """Split a user's blocks: each result with the markers after it, and the blocks between results."""
    groups: list[list[Native]] = []
    for item in content:
        joins = groups and "toolResult" not in item and (CACHE_POINT in item or "toolResult" not in groups[-1][0])
        if joins:
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups or [[]]


def _add_tool_result(reader: "HistoryReader", native: Native, markers: list[Native], raw: Native) -> None:
    result = native["toolResult"]
    parts = [decode_block(part, "") for part in result["content"]]
    differences = ((index, diff_block(part, parts[index], "")) for index, part in enumerate(result["content"]))
    notes = {str(index): note for index, note in differences if note}
    answer = ToolResultBlock(
        tool_use_id=reader.result_id(result["toolUseId"]),
        content=tuple(parts),
        is_error=result.get("status") == "error",
    )
    note: Native = {"parts": notes} if notes else {}
    ours = encode.encode_block(
        answer, lambda _: result["toolUseId"], encode.DocumentNames().reserve, note, takes_text=True
    )
    if inner := diff_objects(result, ours["toolResult"]):
        note["inner"] = inner
    note |= _other_fields(native, "toolResult")
    if markers:
        note["behind"] = markers
    layout = {**raw, **({"blocks": {"0": note}} if note else {})}
    reader.add(Role.TOOL, (answer,), layout, cache_breakpoints=(0,) if markers else ())


def decode_tools(native: Native, provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. Server tools are kept whole, under their names; markers are noted."""
    found: list[ToolDefinition] = []
    for item in (native.get("toolConfig") or {}).get("tools") or ():
        kind, value = _union_member(item)
        if kind == CACHE_POINT and found:
            raw = found[-1].provider_raw or {"by": provider}
            behind = [*raw.get("behind", ()), item]
            found[-1] = found[-1].model_copy(update={"provider_raw": {**raw, "behind": behind}})
            continue
        if kind != "toolSpec":
            found.append(ToolDefinition(name=value.get("name") or kind, provider_raw={"by": provider, "native": item}))
            continue
        schema = (value.get("inputSchema") or {}).get("json")
        schema_field = {"input_schema": schema} if isinstance(schema, dict) else {}
        definition = ToolDefinition(name=value["name"], description=value.get("description") or "", **schema_field)
        note = diff_objects(value, encode.encode_tool(definition)[0]["toolSpec"])
        notes = {"residue": note, "outer": _other_fields(item, kind)}
        if notes := {name: each for name, each in notes.items() if each}:
            definition = definition.model_copy(update={"provider_raw": {"by": provider, **notes}})
        found.append(definition)
    return found
