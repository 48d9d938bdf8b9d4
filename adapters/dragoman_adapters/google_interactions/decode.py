"""Decodes interactions, and requests for them."""

from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import (
    MEDIA_CLASSES,
    Citation,
    ContentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    text_block,
)
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.google.decode import count_media
from dragoman_adapters.google.decode_blocks import RAW_INPUT, decode_file_source
from dragoman_adapters.google.values.base64_text import to_standard_base64
from dragoman_adapters.google_interactions import encode

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STOP_REASONS = {
    "completed": StopReason.END_TURN,
    "requires_action": StopReason.PAUSE,
    "incomplete": StopReason.MAX_TOKENS,
    "budget_exceeded": StopReason.MAX_TOKENS,
    "cancelled": StopReason.CANCELLED,
    "in_progress": StopReason.PAUSE,
    "queued": StopReason.PAUSE,
    "requires_continuation": StopReason.PAUSE,
}
"""All other statuses mean an error, such as ``failed``."""
STATUSES = {
    "queued": MessageStatus.PARTIAL,
    "in_progress": MessageStatus.PARTIAL,
    "cancelled": MessageStatus.CANCELLED,
}
"""The statuses of an interaction in the background that is not complete."""
RUNNING = ("queued", "in_progress")
"""Those of an interaction that has not ended."""
INPUT_STEPS = ("user_input", "function_result")
"""Steps of the input, which a reply may repeat."""
_COVERED_FIELDS = {"model", "agent", "steps", "usage"}
_CONTENTS = ("text", "image", "audio", "video", "document")
_MEDIA_LISTS = (
    "input_tokens_by_modality",
    "tool_use_tokens_by_modality",
    "cached_tokens_by_modality",
    "output_tokens_by_modality",
)
_COUNTED_TOOLS = {"google_search": "web_search"}


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole interaction, or the one that a stream has accumulated. Repeated input is ignored."""
    steps = [step for step in native.get("steps") or () if step["type"] not in INPUT_STEPS]
    content, notes = _decode_steps(steps, reply.call_id, reply.provider)
    raw = {key: value for key, value in native.items() if key not in _COVERED_FIELDS} | notes
    known = known_names("dragoman_adapters.google_interactions")
    reply.note_unknown("field", native.keys(), known.reply)
    if (stop := native.get("status")) and stop not in STOP_REASONS and stop != "failed":
        reply.note_drift("stop_reason", [stop])
    stop_reason = STOP_REASONS.get(stop or "completed", StopReason.ERROR)
    if stop in ("completed", "requires_action", None) and any(isinstance(block, ToolUseBlock) for block in content):
        stop_reason = StopReason.TOOL_USE
    if status is MessageStatus.COMPLETE:
        status = STATUSES.get(native.get("status", ""), status)
    return reply.build(
        content,
        model=native.get("model") or native.get("agent"),
        stop_reason=stop_reason,
        usage=decode_usage(native.get("usage"), native.get("service_tier")),
        raw=raw,
        status=status,
        known=known,
    )


def decode_usage(native: Mapping[str, Any] | None, tier: str | None) -> TokenUsage | None:
    """Decode the usage, as for generateContent but with other names: the input includes cached tokens, nothing else
    overlaps.
    """
    count = UsageReader.of(native)
    if count is None or native is None or "total_input_tokens" not in native:
        return None
    tools: dict[str, int] = {}
    for each in count.objects("grounding_tool_count"):
        kind = str(each.get("type"))
        if calls := count.count_at("grounding_tool_count", each.get("count")):
            tools[_COUNTED_TOOLS.get(kind, kind)] = calls
    prompt, cached = count("total_input_tokens"), count("total_cached_tokens")
    return count.usage(
        input_tokens=count.uncached(prompt, cached) + count("total_tool_use_tokens"),
        cached_input_tokens=cached,
        output_tokens=count("total_output_tokens") + count("total_thought_tokens"),
        reasoning_tokens=count.optional("total_thought_tokens"),
        **count_media(count, _MEDIA_LISTS, "tokens", {"audio": "audio", "image": "image"}),
        server_tools=tools,
        service_tier=tier,
        reported_total=count.optional("total_tokens"),
    )


def _decode_steps(
    steps: list[dict[str, Any]], call_id: Any, provider: str
) -> tuple[list[ContentBlock], dict[str, Any]]:
    """Decode the model's steps to blocks. The notes hold which blocks were one step, and its other fields."""
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    layout: list[dict[str, Any]] = []

    def add(block: ContentBlock, native: dict[str, Any], encoded: dict[str, Any] | None) -> None:
        if difference := diff_objects(native, encoded or {}):
            notes[str(len(blocks))] = difference
        blocks.append(block)

    for position, step in enumerate(steps):
        kind = step["type"]
        if kind == "model_output":
            inner = step.get("content") or []
            for native in inner:
                block = decode_block(native, provider)
                add(block, native, encode.encode_block(block))
            extra = diff_objects({**step, "content": None}, {"type": kind, "content": None})
            if "content" not in step:
                extra = {**(extra or {}), "drop": ["content"]}
            layout.append({"contents": len(inner), **({"beside": extra} if extra else {})})
            continue
        layout.append({})
        if kind == "thought":
            thought = decode_thinking(step)
            add(thought, step, encode.encode_step(thought))
        elif kind == "function_call":
            native_id = step.get("id")
            call = decode_tool_call(step, call_id(position, native_id))
            plain = {key: value for key, value in step.items() if key != RAW_INPUT}
            add(call, plain, encode.encode_step(call, native_id))
        else:
            blocks.append(ProviderBlock(provider=provider, kind=kind, data=step))
    found: dict[str, Any] = {"steps": layout}
    return blocks, found | ({"blocks": notes} if notes else {})


def decode_block(native: dict[str, Any], provider: str) -> ContentBlock:
    """Decode a content; unknown contents are kept whole."""
    kind = native["type"]
    if kind == "text":
        text = native["text"]
        annotations = native.get("annotations") or ()
        return TextBlock(text=text, citations=tuple(_decode_citation(each, text) for each in annotations))
    source = None
    if isinstance(native.get("data"), str):
        source = MediaSource(kind="base64", data=to_standard_base64(native["data"]))
    elif isinstance(native.get("uri"), str):
        source = decode_file_source(native["uri"], provider)
    if kind not in MEDIA_CLASSES or source is None:
        return ProviderBlock(provider=provider, kind=kind, data=native)
    if kind == "image":
        return ImageBlock(source=source, media_type=native.get("mime_type"), detail=native.get("resolution"))
    return MEDIA_CLASSES[kind](source=source, media_type=native.get("mime_type"))


def _decode_citation(native: dict[str, Any], text: str) -> Citation:
    """Decode an annotation. Its indexes count bytes of UTF-8, ours count characters."""
    encoded = text.encode()
    start, end = native.get("start_index"), native.get("end_index")
    is_valid = isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(encoded)
    return Citation(
        kind=str(native.get("type") or "annotation"),
        title=native.get("title") or native.get("file_name"),
        url=native.get("url") or native.get("document_uri"),
        start=len(encoded[:start].decode(errors="replace")) if is_valid else None,
        end=len(encoded[:end].decode(errors="replace")) if is_valid else None,
        data=native,
    )


def decode_thinking(native: dict[str, Any]) -> ThinkingBlock:
    """Decode a thought step: the texts of its summary, and its signature."""
    texts = [each["text"] for each in native.get("summary") or () if each.get("type") == "text"]
    return ThinkingBlock(text="".join(texts), signature=native.get("signature") or None)


def decode_tool_result(native: dict[str, Any], tool_use_id: str, provider: str) -> ToolResultBlock:
    """Decode a tool result: a text, a list of contents, or an object, which becomes its JSON."""
    answer = native.get("result")
    if isinstance(answer, list) and all(isinstance(each, dict) and "type" in each for each in answer):
        content: tuple[ContentBlock, ...] = tuple(decode_block(each, provider) for each in answer)
    elif isinstance(answer, str):
        content = (text_block(answer),) if answer else ()
    else:
        content = () if answer is None else (text_block(wirejson.dumps_text(answer)),)
    return ToolResultBlock(tool_use_id=tool_use_id, content=content, is_error=bool(native.get("is_error")))


def decode_tool_call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    arguments, raw = native.get("arguments") or {}, native.get(RAW_INPUT)
    if isinstance(arguments, str):  # left unfinished by a stream
        arguments, raw = wirejson.parse_arguments(arguments)
    return ToolUseBlock(id=tool_use_id, name=native["name"], input=arguments, raw_input=raw)


def decode_history(native: Mapping[str, Any], reader: "HistoryReader") -> list[str]:
    """Add the messages of a request. Returns the names of the fields that they cover."""
    covered = ["model"]
    if isinstance(native.get("system_instruction"), str):
        reader.add(Role.SYSTEM, (text_block(native["system_instruction"]),))
        covered.append("system_instruction")
    if native.get("input") is None:
        return covered
    covered.append("input")
    native_input = native["input"]
    if isinstance(native_input, str):
        reader.add(Role.USER, (text_block(native_input),), {"form": "text"})
    elif isinstance(native_input, dict):
        _add_contents(reader, [native_input], {"form": "content"})
    elif native_input and all(each.get("type") in _CONTENTS for each in native_input):
        _add_contents(reader, native_input, {"form": "contents"})
    else:
        _add_steps(reader, native_input)
    return covered


def _add_steps(reader: "HistoryReader", steps: list[dict[str, Any]]) -> None:
    names: dict[str, str] = {}
    for is_input, group in groupby(steps, key=lambda step: step["type"] in INPUT_STEPS):
        if not is_input:
            own = list(group)
            names |= {step["id"]: step["name"] for step in own if step["type"] == "function_call"}
            blocks, notes = _decode_steps(own, lambda _, native_id: reader.call_id(native_id), reader.provider)
            reader.add(Role.ASSISTANT, blocks, notes)
            continue
        for step in group:
            if step["type"] == "function_result":
                _add_tool_result(reader, step, {}, names)
            else:
                _add_user_step(reader, step, names)


def _add_user_step(reader: "HistoryReader", step: dict[str, Any], names: dict[str, str]) -> None:
    """Add one step of the user. Tool results among its contents become messages of their own."""
    extra = diff_objects({**step, "content": None}, {"type": "user_input", "content": None})
    layout: dict[str, Any] = {"beside": extra} if extra else {}
    inner = step.get("content") or []
    for native in inner:
        if native["type"] == "function_result":
            _add_tool_result(reader, native, {"inside": True, **layout}, names)
            layout = {"joined": True}
    others = [native for native in inner if native["type"] != "function_result"]
    if others or not inner:
        _add_contents(reader, others, layout)


def _add_contents(reader: "HistoryReader", natives: list[dict[str, Any]], layout: dict[str, Any]) -> None:
    blocks = [decode_block(native, reader.provider) for native in natives]
    differences = map(diff_objects, natives, map(encode.encode_block, blocks))
    notes = {str(index): difference for index, difference in enumerate(differences) if difference}
    reader.add(Role.USER, blocks, {**layout, **({"blocks": notes} if notes else {})})


def _add_tool_result(
    reader: "HistoryReader", native: dict[str, Any], layout: dict[str, Any], names: Mapping[str, str]
) -> None:
    result = decode_tool_result(native, reader.result_id(native["call_id"]), reader.provider)
    name = names.get(native["call_id"], "unknown")
    note = diff_objects(native, encode.encode_tool_result(result, encode.Call(name), native["call_id"]))
    reader.add(Role.TOOL, (result,), {**layout, **({"blocks": {"0": note}} if note else {})})


def decode_tools(native: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. Tools that Google runs itself are kept whole, under their kind."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        if item["type"] != "function":
            found.append(ToolDefinition(name=item["type"], provider_raw={"by": provider, "native": item}))
            continue
        schema = item.get("parameters")
        definition = ToolDefinition(
            name=item["name"],
            description=item.get("description") or "",
            input_schema=schema if isinstance(schema, dict) else {"type": "object", "properties": {}},
        )
        raw = {"by": provider, "residue": diff_objects(item, encode.encode_tool(definition, provider))}
        found.append(definition.model_copy(update={"provider_raw": raw}))
    return found
