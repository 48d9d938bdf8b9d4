"""Encodes whole replies and errors for clients of Ollama's chat (docs/answers.md)."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import (
    error_headers,
    error_message,
    error_status,
    find_row,
    load_error_table,
)
from dragoman.adapter.answers.reply_writer import ReplyWriter, is_runnable
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import (
    ContextOverflowError,
    DragomanError,
)
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.ollama import encode

TOOL_PREFIX = "call_"

STOP_WORDS = {StopReason.MAX_TOKENS: "length", StopReason.CONTEXT_OVERFLOW: "length"}
"""Every other reason is called stop."""
_EXACT = (StopReason.END_TURN, StopReason.TOOL_USE, StopReason.MAX_TOKENS)

UNCOUNTED = (
    "cached_input_tokens", "cache_creation_input_tokens", "reasoning_tokens", "audio_input_tokens",
    "audio_output_tokens", "image_input_tokens", "image_output_tokens", "server_tools",
)  # fmt: skip
"""The counts that are part of others on this wire, or have no field."""

ERRORS = load_error_table("dragoman_adapters.ollama")

_OVERFLOW = "the prompt exceeds the available context size"


def encode_reply(message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode a whole reply."""
    raw = writer.own_raw(message)
    if raw:
        native_message = apply_diff(_own_message(message, raw, writer), raw.get("residue"))
        fields = {key: value for key, value in raw.items() if key not in _NOTES}
        return {"model": writer.served_model(message), "message": native_message, **fields}
    if len(message.content) > 1:
        record_order_losses(message, writer)
    native_message = {"role": "assistant", "content": ""}
    for index, block in enumerate(message.content):  # all thinking, all text, all calls
        for field, value in encode_block(block, index, message, writer).items():
            native_message[field] = native_message[field] + value if field in native_message else value
    writer.store_state(TOOL_PREFIX, message)
    return {
        "model": writer.served_model(message),
        "created_at": format_time(message.created_at),
        "message": native_message,
        **encode_end(message.stop_reason, message.usage, writer),
    }


_NOTES = ("by", "blocks", "residue", "tool_ids", "sealed_prefix")
"""The notes on a reply of this provider that are not fields of it."""


def _own_message(message: Message, raw: Mapping[str, Any], writer: ReplyWriter) -> dict[str, Any]:
    """Encode a message of this wire's provider as it came."""
    notes = raw.get("blocks", {})
    encoded: dict[str, Any] = {"role": "assistant", "content": message.text}
    if message.thinking:
        encoded["thinking"] = message.thinking
    images = [block.source.data for block in message.content if isinstance(block, ImageBlock)]
    calls = [
        encode.encode_tool_call(
            block, lambda canonical: writer.tool_id(TOOL_PREFIX, canonical, message), notes.get(str(index), {})
        )
        for index, block in enumerate(message.content)
        if isinstance(block, ToolUseBlock)
    ]
    return encoded | ({"images": images} if images else {}) | ({"tool_calls": calls} if calls else {})


def encode_block(block: ContentBlock, index: int, message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode a block as fields of a message; none if the wire cannot say it."""
    match block:
        case TextBlock():
            if block.citations:
                reason = "the wire has no sources of texts: left out"
                writer.record_loss(LossKind.CITATIONS, reason, index=index, block="text")
            return {"content": block.text}
        case ThinkingBlock():
            return {"thinking": block.text} if block.text else {}
        case ToolUseBlock() if is_runnable(block):
            tool_id = writer.tool_id(TOOL_PREFIX, block.id, message)
            return {"tool_calls": [tool_call(tool_id, block.name, block.input)]}
        case ToolUseBlock():
            writer.record_block_loss(index, block, "arguments that are not a JSON object: the call is left out")
            return {}
        case _:
            severity = Severity.INFO if block.type == "redacted_thinking" else Severity.WARNING
            writer.record_block_loss(index, block, f"a reply on this wire holds no {block.type}: left out", severity)
            return {}


def tool_call(tool_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"id": tool_id, "function": {"name": name, "arguments": arguments}}


def record_order_losses(message: Message, writer: ReplyWriter) -> None:
    """Record blocks that change their place: a message has one thinking, one text, and then the calls."""
    order = [_PLACES[block.type] for block in message.content if block.type in _PLACES]
    if order != sorted(order):
        reason = "a reply on this wire has one thinking, then one text, then the calls"
        writer.record_loss(LossKind.FLATTENED, reason, Severity.INFO)


_PLACES = {"thinking": 0, "text": 1, "tool_use": 2}


def encode_end(stop_reason: StopReason | None, usage: TokenUsage | None, writer: ReplyWriter) -> dict[str, Any]:
    """Encode the fields of the end: the reason and the counts."""
    reason = stop_reason or StopReason.END_TURN
    word = STOP_WORDS.get(reason, "stop")
    if reason not in _EXACT:
        writer.record_stop_reason_loss(reason, word)
    if usage is not None and not writer.is_own:
        writer.record_usage_losses(usage, *UNCOUNTED)
    counts = {} if usage is None else encode_usage(usage, is_own=writer.is_own)
    return {"done": True, "done_reason": word, **counts}


def encode_usage(usage: TokenUsage, *, is_own: bool) -> dict[str, Any]:
    """Encode the counts, which are fields of the reply itself. Durations of other providers are not known."""
    if is_own and usage.raw is not None and "eval_count" in usage.raw:
        return dict(usage.raw)
    return {"prompt_eval_count": usage.prompt_tokens, "eval_count": usage.output_tokens}


def format_time(time: datetime) -> str:
    """Return a time in the wire's form."""
    return time.astimezone(UTC).isoformat().replace("+00:00", "Z")


def encode_error(error: DragomanError, context: RequestContext, provider: str) -> WireResponse:
    """Encode an error with its status."""
    status = error_status(error, find_row(error, ERRORS), provider)
    return WireResponse(status, wirejson.dumps(error_body(error)), error_headers(error))


def error_body(error: DragomanError) -> dict[str, Any]:
    """Return the body of an error, which is also the line of an error in a stream."""
    message = error_message(error)
    if isinstance(error, ContextOverflowError) and "context" not in message:
        message = f"{_OVERFLOW}: {message}"
    return {"error": message}
