"""Decodes replies, and requests in Ollama's format (docs/reference/wires/ollama.md)."""

from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.adapter import wirejson
from dragoman.adapter.replies.drift import known_names
from dragoman.adapter.replies.reply_builder import ReplyBuilder, UsageReader
from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    MediaSource,
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
from dragoman_adapters.ollama import encode

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

STOP_REASONS = {"stop": StopReason.END_TURN, "length": StopReason.MAX_TOKENS}

_IDLE = ("load", "unload")
"""The reasons of a reply to a request without messages, and of one that a model left."""
_COVERED_FIELDS = {"message", "model"}
_PLAIN_FIELDS = {"role", "content"}
_CONTENT_FIELDS = ("content", "thinking", "images", "tool_calls")


def decode_message(
    native: dict[str, Any], reply: ReplyBuilder, status: MessageStatus = MessageStatus.COMPLETE
) -> Message:
    """Decode a whole reply, or the one that a stream has accumulated."""
    native_message = native["message"]
    calls = native_message.get("tool_calls") or []
    content = [
        *_decode_content(native_message),
        *(_decode_tool_call(call, reply.call_id(i, call.get("id"))) for i, call in enumerate(calls)),
    ]
    raw: dict[str, Any] = {key: value for key, value in native.items() if key not in _COVERED_FIELDS}
    raw |= _note_message(native_message, content)
    known = known_names("dragoman_adapters.ollama")
    reply.note_unknown("field", native.keys(), known.reply)
    reply.note_unknown("field", native_message.keys(), known.places["message"], "message.")
    if (stop := native.get("done_reason")) and stop not in STOP_REASONS and stop not in _IDLE:
        reply.note_drift("stop_reason", [stop])
    # The server says "stop" for calls as well, so the blocks decide.
    stop_reason = STOP_REASONS.get(stop or "stop", StopReason.END_TURN)
    return reply.build(
        content,
        model=native.get("model"),
        stop_reason=StopReason.TOOL_USE if calls and stop != "length" else stop_reason,
        usage=decode_usage(native),
        raw=raw,
        status=status,
    )


def decode_usage(native: dict[str, Any]) -> TokenUsage | None:
    """Decode the counts of the last object; the server leaves out zeros and does not report its cache."""
    if "eval_count" not in native and "prompt_eval_count" not in native:
        return None
    raw = {key: value for key, value in native.items() if key.endswith(("_count", "_duration"))}
    count = UsageReader(raw)
    return count.usage(input_tokens=count("prompt_eval_count"), output_tokens=count("eval_count"))


def _decode_content(native: dict[str, Any]) -> list[ContentBlock]:
    """Decode the content of a message, in the order in which models produce it: thinking, text, images."""
    blocks: list[ContentBlock] = []
    if native.get("thinking"):
        blocks.append(ThinkingBlock(text=native["thinking"]))
    if native.get("content"):
        blocks.append(text_block(native["content"]))
    blocks += [ImageBlock(source=MediaSource(kind="base64", data=data)) for data in native.get("images") or ()]
    return blocks


def _decode_tool_call(native: dict[str, Any], tool_use_id: str) -> ToolUseBlock:
    function = native["function"]
    arguments = function.get("arguments") or {}
    if isinstance(arguments, str):
        parsed, raw = wirejson.parse_arguments(arguments)
        return ToolUseBlock(id=tool_use_id, name=function["name"], input=parsed, raw_input=raw)
    return ToolUseBlock(id=tool_use_id, name=function["name"], input=arguments)


def _note_message(native: dict[str, Any], content: list[ContentBlock]) -> dict[str, Any]:
    """Return what the message and each of its calls hold beyond our encoding."""
    notes: dict[str, Any] = {}
    calls = iter(native.get("tool_calls") or ())
    blocks: dict[str, Any] = {}
    for index, block in enumerate(content):
        if not isinstance(block, ToolUseBlock):
            continue
        call = next(calls)
        ours = encode.encode_tool_call(block, lambda _, call=call: call.get("id", ""))  # type: ignore[misc]
        note = diff_objects({**call, "function": ours["function"]}, ours) or {}
        if inner := diff_objects(call["function"], ours["function"]):
            note["function"] = inner
        if note:
            blocks[str(index)] = note
    if blocks:
        notes["blocks"] = blocks
    encoded = encode.encode_message(native["role"], content)
    difference = diff_objects(
        {key: value for key, value in native.items() if key not in _CONTENT_FIELDS or not value},
        {key: value for key, value in encoded.items() if key not in _CONTENT_FIELDS or not value},
    )
    if difference:
        notes["residue"] = difference
    return notes


def decode_history(native: dict[str, Any], reader: "HistoryReader") -> tuple[str, ...]:
    """Add the messages of a request. Returns the names of the fields that they cover. Results without an id answer the
    open calls of their tool, in order."""
    items = native["messages"]
    start, known = reader.resume(items)
    open_calls: list[tuple[str, str]] = list(known or ())
    for count, item in enumerate(islice(items, start, None), start):
        reader.mark(count, tuple(open_calls))
        role = reader.role(item["role"])
        if role is Role.TOOL:
            _add_tool_result(reader, item, open_calls)
            continue
        if item.keys() == _PLAIN_FIELDS and (text := item["content"]) and type(text) is str:
            open_calls = []
            reader.add(role, (text_block(text),))  # as below: one text leaves nothing to note
            continue
        calls = [_decode_tool_call(call, reader.call_id(call.get("id"))) for call in item.get("tool_calls") or ()]
        open_calls = [(call.name, call.id) for call in calls]
        content: list[ContentBlock] = [*_decode_content(item), *calls]
        reader.add(role, content, _note_message(item, content))
    reader.mark(len(items), tuple(open_calls))
    return "model", "messages"


def _add_tool_result(reader: "HistoryReader", native: dict[str, Any], open_calls: list[tuple[str, str]]) -> None:
    call_id, name = native.get("tool_call_id"), native.get("tool_name")
    answered = [call for call in open_calls if name is None or call[0] == name]
    if answered and not call_id:
        open_calls.remove(answered[0])
        tool_use_id = answered[0][1]
    else:
        tool_use_id = reader.result_id(call_id or None)
    result = ToolResultBlock(tool_use_id=tool_use_id, content=tuple(_decode_content(native)))
    names = {tool_use_id: native["tool_name"]} if "tool_name" in native else {}
    note = diff_objects(native, encode.encode_tool_result(result, lambda _: call_id or "", names))
    reader.add(Role.TOOL, (result,), {"blocks": {"0": note}} if note else {})


def decode_tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        function = item["function"]
        schema = function.get("parameters") or {"type": "object", "properties": {}}
        definition = ToolDefinition(
            name=function["name"], description=function.get("description") or "", input_schema=schema
        )
        ours = encode.encode_tool(definition)
        raw = {"function": diff_objects(function, ours["function"])}
        raw["residue"] = diff_objects({**item, "function": ours["function"]}, ours)
        found.append(replace_fields(definition, {"provider_raw": copy_json({"by": provider, **raw})}))
    return found
