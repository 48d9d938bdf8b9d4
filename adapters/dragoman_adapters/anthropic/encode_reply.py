"""Encodes whole replies and errors for clients of the Messages API (docs/answers.md)."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import (
    error_headers,
    error_message,
    error_status,
    find_request_id,
    find_row,
    load_error_table,
    overflow_counts,
    own_fields,
)
from dragoman.adapter.answers.reply_writer import CALL, OPAQUE, TEXT, ReplyWriter, is_runnable, place_opaque
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import ContextOverflowError, DragomanError
from dragoman.adapter.wire import WireResponse
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.anthropic import decode, encode

MESSAGE_PREFIX, TOOL_PREFIX = "msg_", "toolu_"
PLACE = "an assistant's message on this wire"

STOP_WORDS = {reason: word for word, reason in reversed(decode.STOP_REASONS.items())}
"""The first of the wire's words for each stop reason."""

NATIVE_BLOCKS = (
    TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock, ImageBlock, DocumentBlock, ProviderBlock,
)  # fmt: skip
"""The blocks that the provider's own replies hold."""

ERRORS = load_error_table("dragoman_adapters.anthropic")

_OVERFLOW = "prompt is too long"
"""Clients compact the conversation when an error begins with these words, followed by both counts."""


def encode_reply(message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode a whole reply."""
    raw = writer.own_raw(message)
    content = encode_blocks(message, writer, raw)
    has_calls = any(each["type"] == "tool_use" for each in content)
    usage = message.metadata.usage
    writer.record_usage_losses(usage, *UNCOUNTED)
    encoded = {
        "id": raw.get("id") or writer.new_id(MESSAGE_PREFIX),
        "type": "message",
        "role": "assistant",
        "model": writer.served_model(message),
        "content": content,
        "stop_reason": stop_word(writer.stop_reason(message, has_calls=has_calls), raw),
        "stop_sequence": None,
        "usage": encode_usage(usage, is_own=writer.is_own),
    }
    if raw:
        encoded |= {key: value for key, value in raw.items() if key not in _NOTES}
    return encoded


_NOTES = ("id", "by", "blocks", "tool_ids", "sealed_prefix", "stop_reason", "list", "joined")
"""The notes on a reply of this provider that are not fields of it or are written already."""


def encode_blocks(message: Message, writer: ReplyWriter, raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Encode the content: blocks of this provider as they came, others as far as the wire supports them."""
    notes = raw.get("blocks", {})
    content: list[dict[str, Any]] = []
    shown: set[int] = set()
    for index, block in enumerate(message.content):
        if writer.is_native(block) and isinstance(block, NATIVE_BLOCKS):
            encoded = encode.encode_block(block, lambda canonical: writer.tool_id(TOOL_PREFIX, canonical, message))
            content.append(apply_diff(encoded, notes.get(str(index))))
        elif (foreign := _encode_foreign(block, index, message, writer)) is not None:
            content.append(foreign)
            shown.add(index)
    if writer.is_own:
        return content
    envelope = writer.state.seal_rest(message, shown)
    opaque = [] if envelope is None else [sealed_block(envelope)]
    return place_opaque(content, opaque, lambda each: _CLIENT_KINDS.get(each["type"], TEXT))


_CLIENT_KINDS = {"thinking": OPAQUE, "redacted_thinking": OPAQUE, "tool_use": CALL}


def sealed_block(envelope: str) -> dict[str, Any]:
    """Return a block that holds an envelope only."""
    return {"type": "redacted_thinking", "data": envelope}


def _encode_foreign(block: ContentBlock, index: int, message: Message, writer: ReplyWriter) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            if not block.text:
                return None
            encoded: dict[str, Any] = {"type": "text", "text": block.text}
            if block.citations:
                encoded["citations"] = encode_citations(block.citations, index, writer)
            return encoded
        case ThinkingBlock():
            # Clients return only signed thinking, so the envelope takes the place of the signature.
            sealed = writer.state.seal_thinking(index, block.text, block.signature)
            if not block.text and not sealed:
                return None
            return {"type": "thinking", "thinking": block.text, "signature": sealed or ""}
        case RedactedThinkingBlock():
            return encode_redacted(block, index, writer)
        case ToolUseBlock() if is_runnable(block):
            tool_id = writer.tool_id(TOOL_PREFIX, block.id, message)
            return {"type": "tool_use", "id": tool_id, "name": block.name, "input": block.input}
        case ToolUseBlock():
            writer.record_block_loss(index, block, "arguments that are not a JSON object: the call is left out")
            return None
        case _:
            writer.record_unsupported(index, block, PLACE)
            return None


def encode_redacted(block: RedactedThinkingBlock, index: int, writer: ReplyWriter) -> dict[str, Any] | None:
    """Encode thinking that only its provider reads; None if it cannot be sealed."""
    data = writer.state.seal_redacted(index, block.data)
    return None if data is None else {"type": "redacted_thinking", "data": data}


def encode_citations(citations: tuple[Citation, ...], index: int, writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode sources with an address as results of a web search; the wire has no other kind for foreign sources."""
    return [
        {
            "type": "web_search_result_location",
            "url": source.url,
            "title": source.title,
            "cited_text": source.cited_text or "",
            "encrypted_index": "",
        }
        for source in writer.addressed(citations, index)
    ]


def stop_word(stop_reason: StopReason, raw: Mapping[str, Any]) -> str:
    """Return the stop reason, in the provider's own word if the reply has one."""
    return raw.get("stop_reason") or STOP_WORDS.get(stop_reason, "end_turn")


UNCOUNTED = (
    "audio_input_tokens", "audio_output_tokens", "image_input_tokens", "image_output_tokens", "server_tools",
)  # fmt: skip
"""The counts that the wire has no field for."""


def encode_usage(usage: TokenUsage | None, *, is_own: bool) -> dict[str, Any]:
    """Encode the counts: cached tokens are outside of input_tokens. The fields are required, so unknown counts are 0.

    Counts of this wire's provider are as they came.
    """
    usage = usage or TokenUsage()
    if is_own and usage.raw is not None and usage.raw.keys() >= {"input_tokens", "output_tokens"}:
        searches = usage.raw.get("server_tool_use")  # of older API versions, it lacks counts that clients require
        return {**usage.raw, **({"server_tool_use": {**_NO_SEARCHES, **searches}} if searches else {})}
    one_hour = usage.cache_creation_1h_input_tokens or 0
    encoded: dict[str, Any] = {
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_creation_input_tokens,
        "cache_read_input_tokens": usage.cached_input_tokens,
        "cache_creation": {
            "ephemeral_5m_input_tokens": max(0, usage.cache_creation_input_tokens - one_hour),
            "ephemeral_1h_input_tokens": one_hour,
        },
        "output_tokens": usage.output_tokens,
        "service_tier": "standard",
    }
    if usage.reasoning_tokens is not None:
        encoded["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return encoded


_NO_SEARCHES = {"web_search_requests": 0, "web_fetch_requests": 0}


def encode_error(error: DragomanError, context: RequestContext, provider: str) -> WireResponse:
    """Encode an error with its status."""
    status = error_status(error, find_row(error, ERRORS), provider)
    request_id = find_request_id(error, context)
    headers = {**error_headers(error), "request-id": request_id}
    return WireResponse(status, wirejson.dumps(error_body(error, request_id, provider)), headers)


def error_body(error: DragomanError, request_id: str, provider: str) -> dict[str, Any]:
    """Return the body of an error, which is also the data of an error in a stream."""
    message = error_message(error)
    if isinstance(error, ContextOverflowError) and not message.startswith(_OVERFLOW):
        counts = overflow_counts(message)
        message = f"{_OVERFLOW}: {counts[0]} tokens > {counts[1]} maximum" if counts else f"{_OVERFLOW}: {message}"
    inner = {"type": find_row(error, ERRORS).kind, "message": message, **own_fields(error, provider)}
    return {"type": "error", "error": inner, "request_id": request_id}
