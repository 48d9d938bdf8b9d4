"""Encodes whole replies for clients of the Responses API (docs/answers.md)."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import CALL, OPAQUE, TEXT, ReplyWriter, place_opaque
from dragoman.adapter.wire_diff import apply_diff
from dragoman.adapter.wirejson import assign_path
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, Role, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.openai_platform.custom_tools import free_text
from dragoman_adapters.openai_responses import decode, encode, encode_blocks
from dragoman_adapters.openai_responses.client_tools import CUSTOM_CALL, ClientTool, client_tools

RESPONSE_PREFIX, MESSAGE_PREFIX, REASONING_PREFIX, CALL_PREFIX = "resp_", "msg_", "rs_", "fc_"
CUSTOM_PREFIX, IMAGE_PREFIX, TOOL_PREFIX = "ctc_", "ig_", "call_"

INCOMPLETE = {
    StopReason.MAX_TOKENS: "max_output_tokens",
    StopReason.CONTEXT_OVERFLOW: "max_output_tokens",
    StopReason.REFUSAL: "content_filter",
}
"""The stop reasons that the wire calls incomplete. It has no word for the others."""

NATIVE_BLOCKS = (TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock, ProviderBlock)
"""The blocks that the provider's own replies hold."""

VISIBLE_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "image")
"""The types of blocks that a client gets from other providers."""

DEFAULTS: dict[str, Any] = {
    "background": False,
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "previous_response_id": None,
    "reasoning": {"effort": None, "summary": None},
    "store": False,
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""The fields of a response that repeat the request, and their values if the request has none."""


def encode_reply(message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode a whole reply."""
    raw = writer.own_raw(message)
    output = _encode_own_items(message, raw, writer) if writer.is_own else _encode_items(message, writer)
    return finish_response(message, output, writer, message.usage, message.created_at.timestamp())


def finish_response(
    message: Message, output: list[dict[str, Any]], writer: ReplyWriter, usage: TokenUsage | None, created_at: float
) -> dict[str, Any]:
    """Return the object of a complete response with its items."""
    raw = writer.own_raw(message)
    status, details = ("", None) if "status" in raw else find_status(message.stop_reason, writer)
    response = response_object(writer, created_at, writer.served_model(message))
    response |= {"status": status, "incomplete_details": details, "output": output}
    if usage is not None:
        response["usage"] = encode_usage(usage, is_own=writer.is_own)
    writer.record_usage_losses(usage, *UNCOUNTED)
    if raw:
        response |= {key: value for key, value in raw.items() if key not in _NOTES}
    if response["status"] not in _STATUSES:  # a dialect's word, which no client knows
        response["status"] = "completed"
    return response


UNCOUNTED = ("cache_creation_1h_input_tokens", "audio_input_tokens", "audio_output_tokens", "image_input_tokens",
             "image_output_tokens", "server_tools")  # fmt: skip
"""The counts that the wire has no field for."""

_STATUSES = ("completed", "incomplete")

_NOTES = ("by", "blocks", "items", "tool_ids", "sealed_prefix", "stored_prefix", "api")
"""The notes on a reply of this provider that are not fields of it."""


def response_object(writer: ReplyWriter, created_at: float, model: str) -> dict[str, Any]:
    """Return the object of a response without items; it repeats the fields of the request."""
    fields = writer.client_fields
    return {
        "id": writer.new_id(RESPONSE_PREFIX),
        "object": "response",
        "created_at": int(created_at),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": model,
        "output": [],
        "usage": None,
        **DEFAULTS,
        **{name: fields[name] for name in fields.keys() & DEFAULTS if fields[name] is not None},
    }


def find_status(stop_reason: StopReason | None, writer: ReplyWriter) -> tuple[str, dict[str, str] | None]:
    """Return the status, and the details of an incomplete response."""
    reason = stop_reason or StopReason.END_TURN
    word = INCOMPLETE.get(reason)
    inexact = (StopReason.CONTEXT_OVERFLOW, StopReason.PAUSE, StopReason.STOP_SEQUENCE)
    if reason in inexact or not reason.is_known:
        writer.record_stop_reason_loss(reason, word or "completed")
    return ("completed", None) if word is None else ("incomplete", {"reason": word})


def _encode_own_items(message: Message, raw: Mapping[str, Any], writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode the items of this wire's provider as they came."""
    starts, notes = raw.get("items", {}), raw.get("blocks", {})
    items: list[dict[str, Any] | tuple[list[dict[str, Any]], Mapping[str, Any]]] = []  # a tuple is that of a message
    parts: list[dict[str, Any]] | None = None
    for index, block in enumerate(message.content):
        note = notes.get(str(index), {})
        is_native = isinstance(block, NATIVE_BLOCKS) and (bool(note) or writer.is_native(block))
        if is_native and encode_blocks.is_part(block):
            if parts is None or str(index) in starts:
                parts = []
                items.append((parts, starts.get(str(index), {})))
            parts.append(apply_diff(encode_blocks.encode_block(block, "output", note), note))
            continue
        parts = None
        if is_native:
            items.append(apply_diff(_own_item(block, note, message, writer), note))
        elif (item := encode_item(block, index, len(items), message, writer)) is not None:
            items.append(item)
    return [
        encode.encode_message(Role.ASSISTANT, message.channel, *each) if isinstance(each, tuple) else each
        for each in items
    ]


def _own_item(block: ContentBlock, note: Mapping[str, Any], message: Message, writer: ReplyWriter) -> dict[str, Any]:
    match block:
        case ThinkingBlock() | RedactedThinkingBlock():
            return encode.encode_thinking(block, note)
        case ToolUseBlock():
            return encode.encode_tool_call(block, lambda canonical: writer.tool_id(TOOL_PREFIX, canonical, message))
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"a response holds no {block.type}")


def _encode_items(message: Message, writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode a message of another provider. Neighbouring texts are parts of one message item."""
    items: list[dict[str, Any]] = []
    for index, block in enumerate(message.content):
        if isinstance(block, TextBlock):
            if not block.text:
                continue
            part = text_part(block.text, encode_citations(block.citations, index, writer))
            if items and items[-1]["type"] == "message":
                items[-1]["content"].append(part)
            else:
                items.append(message_item(writer.new_id(MESSAGE_PREFIX, len(items)), [part]))
        elif (item := encode_item(block, index, len(items), message, writer)) is not None:
            items.append(item)
    if items and items[-1]["type"] == "message":
        items[-1]["status"] = last_status(message)
    envelope = writer.state.seal_rest(message, shown_places(message))
    opaque = [] if envelope is None else [reasoning_item(writer.new_id(REASONING_PREFIX, len(items)), "", envelope)]
    return place_opaque(items, opaque, lambda item: _CLIENT_KINDS.get(item["type"], CALL))


_CLIENT_KINDS = {"reasoning": OPAQUE, "message": TEXT}


def shown_places(message: Message) -> set[int]:
    """Return the places of the blocks that a client gets."""
    return {index for index, block in enumerate(message.content) if block.type in VISIBLE_BLOCKS}


def last_status(message: Message) -> str:
    """Return the status of a message item that ends the output."""
    return "incomplete" if message.stop_reason in INCOMPLETE else "completed"


def encode_item(
    block: ContentBlock, index: int, position: int, message: Message, writer: ReplyWriter
) -> dict[str, Any] | None:
    """Encode a block that is an item of its own; None if the wire has no form for it."""
    match block:
        case ThinkingBlock():
            sealed = writer.state.seal_thinking(index, block.text, block.signature)
            if not block.text and sealed is None:
                return None
            return reasoning_item(writer.new_id(REASONING_PREFIX, position), block.text, sealed)
        case RedactedThinkingBlock():
            sealed = writer.state.seal_redacted(index, block.data)
            return None if sealed is None else reasoning_item(writer.new_id(REASONING_PREFIX, position), "", sealed)
        case ToolUseBlock():
            arguments = wirejson.dumps_text(block.input) if block.raw_input is None else block.raw_input
            tool_id = writer.tool_id(TOOL_PREFIX, block.id, message)
            return call_item(position, tool_id, block.name, arguments, call_status(block.raw_input), writer)
        case ImageBlock() if block.source.kind == "base64":
            return {
                "id": writer.new_id(IMAGE_PREFIX, position),
                "type": "image_generation_call",
                "status": "completed",
                "result": block.source.data,
            }
        case _:
            writer.record_unsupported(index, block, "a response")
            return None


def text_part(text: str, annotations: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def message_item(item_id: str, parts: list[dict[str, Any]], status: str = "completed") -> dict[str, Any]:
    return {"id": item_id, "type": "message", "status": status, "role": "assistant", "content": parts}


def reasoning_item(item_id: str, text: str, sealed: str | None) -> dict[str, Any]:
    """Return a reasoning item. ``encrypted_content`` is what clients send back unchanged."""
    summary = [{"type": "summary_text", "text": text}] if text else []
    item: dict[str, Any] = {"id": item_id, "type": "reasoning", "summary": summary}
    return item | ({"encrypted_content": sealed} if sealed else {})


def call_item(
    position: int, tool_id: str, name: str, arguments: str, status: str, writer: ReplyWriter
) -> dict[str, Any]:
    """Return the item of a call, as the client names the tool; its input is a free text if the client said so."""
    tool = client_tools(writer.client_fields).get(name) or ClientTool(name, None, is_custom=False)
    return {
        "id": writer.new_id(CUSTOM_PREFIX if tool.is_custom else CALL_PREFIX, position),
        "type": CUSTOM_CALL if tool.is_custom else "function_call",
        "status": status,
        "call_id": tool_id,
        **({} if tool.namespace is None else {"namespace": tool.namespace}),
        "name": tool.name,
        **({"input": free_text(arguments)} if tool.is_custom else {"arguments": arguments}),
    }


def call_status(malformed: str | None) -> str:
    """Return the status of a call. ``malformed`` are its arguments if they are not a JSON object.

    A stream ends a call before it says why it ends itself. Arguments that were cut are not a JSON object.
    """
    return "completed" if malformed is None else "incomplete"


def encode_citations(citations: tuple[Citation, ...], index: int, writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode sources with an address."""
    return [
        {
            "type": "url_citation",
            "start_index": source.start or 0,
            "end_index": source.end or source.start or 0,
            "title": source.title or source.url,
            "url": source.url,
        }
        for source in writer.addressed(citations, index)
    ]


def encode_usage(usage: TokenUsage, *, is_own: bool) -> dict[str, Any]:
    """Encode the counts: cached tokens are part of input_tokens. Details are there even if they are 0."""
    prompt, encoded = usage.prompt_tokens, dict[str, Any]()
    sums = {"input_tokens": prompt, "reported_total": prompt + usage.output_tokens}
    for name, path in decode.COUNTS.items():
        assign_path(encoded, path, sums[name] if name in sums else getattr(usage, name) or 0)
    if is_own and usage.raw is not None and usage.raw.keys() >= {"input_tokens", "output_tokens"}:
        # Clients require all details; replies of older API versions lack some.
        zeros = {name: dict.fromkeys(details, 0) for name, details in encoded.items() if isinstance(details, dict)}
        return {**usage.raw, **{name: {**none, **(usage.raw.get(name) or {})} for name, none in zeros.items()}}
    return encoded
