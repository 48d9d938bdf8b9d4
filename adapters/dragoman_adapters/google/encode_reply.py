"""Encodes whole replies and errors for clients of generateContent (docs/answers.md)."""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.error_writer import (
    error_headers,
    error_message,
    error_status,
    find_row,
    load_error_table,
    own_fields,
)
from dragoman.adapter.answers.reply_writer import ReplyWriter, is_runnable
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import (
    AuthenticationError,
    ContextOverflowError,
    DragomanError,
    PermissionDeniedError,
    ProviderError,
)
from dragoman.adapter.losses import LossKind
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.google import encode_blocks

TOOL_PREFIX = "call_"

STOP_WORDS = {
    StopReason.END_TURN: "STOP",
    StopReason.TOOL_USE: "STOP",
    StopReason.STOP_SEQUENCE: "STOP",
    StopReason.PAUSE: "STOP",
    StopReason.MAX_TOKENS: "MAX_TOKENS",
    StopReason.CONTEXT_OVERFLOW: "MAX_TOKENS",
    StopReason.REFUSAL: "SAFETY",
}
_INEXACT = (StopReason.STOP_SEQUENCE, StopReason.CONTEXT_OVERFLOW, StopReason.PAUSE)
"""Stop reasons that share their word with another one. Calls need no word: the parts show them."""

NATIVE_BLOCKS = (TextBlock, ThinkingBlock, ToolUseBlock, *MEDIA_BLOCKS, ProviderBlock)
"""The blocks that the provider's own replies hold."""

VISIBLE_BLOCKS = ("text", "thinking", "redacted_thinking", "tool_use", "image", "audio", "video", "document")
"""The types of blocks that a client gets from other providers."""

UNCOUNTED = ("cache_creation_input_tokens", "audio_input_tokens", "audio_output_tokens", "image_input_tokens",
             "image_output_tokens", "server_tools")  # fmt: skip
"""The counts that are part of others on this wire, or have no field."""

ERRORS = load_error_table("dragoman_adapters.google")

_OVERFLOW = "The input token count exceeds the maximum number of tokens allowed"
_INVALID_KEY = "API_KEY_INVALID"


_NOTES = ("by", "blocks", "candidate", "candidates", "tool_ids", "sealed_prefix", "actions")
"""The notes on a reply of this provider that are not fields of it."""


def encode_reply(message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode a whole reply. ``raw`` below are this wire's notes on it: with them a reply of its own provider is written
    as it came, and others as a client of this wire reads them."""
    raw = writer.own_raw(message)
    candidates: list[dict[str, Any]]
    if raw:
        parts = _encode_parts(message, raw, writer)
        content = {"content": {"parts": parts, "role": "model"}} if parts else {}
        candidates = [content | (raw.get("candidate") or {})] if "candidate" in raw or parts else []
        if candidates and writer.alternatives(message):
            candidates += raw.get("candidates") or ()
    else:
        answers = [message]
        for other in writer.alternatives(message):
            metadata = message.metadata.model_copy(update={"stop_reason": other.stop_reason})
            answers.append(message.model_copy(update={"content": other.content, "metadata": metadata}))
        candidates = []
        for index, answer in enumerate(answers):
            parts = _encode_parts(answer, {}, writer)
            candidate = {"content": {"parts": parts, "role": "model"}, "index": index}
            candidate["finishReason"] = stop_word(answer.stop_reason, writer)
            candidates.append(candidate | encode_grounding(answer, writer))
    usage = message.metadata.usage
    encoded: dict[str, Any] = {"candidates": candidates} if candidates else {}
    encoded["modelVersion"] = writer.served_model(message)
    if not raw:
        encoded["responseId"] = writer.new_id("")
    if usage is not None:
        encoded["usageMetadata"] = encode_usage(usage, is_own=writer.is_own)
    if not writer.is_own:
        writer.record_usage_losses(usage, *UNCOUNTED)
    if raw:
        encoded |= {key: value for key, value in raw.items() if key not in _NOTES}
    return encoded


def _encode_parts(message: Message, raw: Mapping[str, Any], writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode the parts of this wire's provider as they came, and those of another as a client reads them. What its
    client cannot show goes into the place of a signature, sealed, so that the client returns it."""
    notes = raw.get("blocks", {})
    own_ids = raw.get("tool_ids", {})
    parts: list[dict[str, Any]] = []
    for index, block in enumerate(message.content):
        if not (writer.is_own and writer.is_native(block) and isinstance(block, NATIVE_BLOCKS)):
            parts += encode_part(block, index, message, writer)
            continue
        native = None
        if isinstance(block, ToolUseBlock):
            native = own_ids.get(block.id) or writer.context.tool_ids.native_id(block.id, writer.provider)
        parts.append(encode_blocks.apply_note(encode_blocks.encode_block(block, native), notes.get(str(index))))
    if writer.is_own:
        return parts
    call = next((part for part in parts if "functionCall" in part), None)
    if (envelope := seal_rest(message, writer, in_call=call is not None)) is not None:
        if call is None:
            parts.append(sealed_part(envelope))
        else:
            call["thoughtSignature"] = envelope
    return parts


def seal_rest(message: Message, writer: ReplyWriter, *, in_call: bool) -> str | None:
    """Return the envelope for the rest of a message. In the place of a call's signature it holds the thinking as well:
    some clients send back their calls, and no thoughts."""
    shown = {index for index, block in enumerate(message.content) if block.type in VISIBLE_BLOCKS}
    thoughts = {place for place in shown if message.content[place].type in ("thinking", "redacted_thinking")}
    return writer.state.seal_rest(message, shown, thoughts if in_call else ())


def encode_part(block: ContentBlock, index: int, message: Message, writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode a block as its parts; none if the wire cannot say it."""
    match block:
        case TextBlock():
            return [{"text": block.text}] if block.text else []
        case ThinkingBlock():
            sealed = writer.state.seal_thinking(index, block.text, block.signature)
            texts = [{"text": block.text, "thought": True}] if block.text else []
            if sealed is not None and texts:
                texts[0]["thoughtSignature"] = sealed
            return texts or ([] if sealed is None else [sealed_part(sealed)])
        case RedactedThinkingBlock():
            sealed = writer.state.seal_redacted(index, block.data)
            return [] if sealed is None else [sealed_part(sealed)]
        case ToolUseBlock() if is_runnable(block):
            call = {"id": writer.tool_id(TOOL_PREFIX, block.id, message), "name": block.name, "args": block.input}
            return [{"functionCall": call}]
        case ToolUseBlock():
            writer.record_block_loss(index, block, "arguments that are not a JSON object: the call is left out")
            return []
        case block if isinstance(block, MEDIA_BLOCKS) and block.source.kind in ("base64", "text", "url"):
            return [encode_blocks.encode_media(block)]
        case ProviderBlock():
            reason = f"a native block of {block.provider}, {block.kind}: the client does not get it"
            writer.record_block_loss(index, block, reason)
            return []
        case _:
            writer.record_block_loss(index, block, f"a reply on this wire holds no {block.type}: left out")
            return []


def sealed_part(envelope: str) -> dict[str, Any]:
    """Return a part that holds an envelope only. It is a thought, so clients do not show it."""
    return {"text": "", "thought": True, "thoughtSignature": envelope}


def encode_grounding(message: Message, writer: ReplyWriter) -> dict[str, Any]:
    """Encode sources with an address as the results of a search. Segments count bytes of the whole answer."""
    if not any(block.citations for block in message.content if isinstance(block, TextBlock)):
        return {}
    chunks: list[dict[str, Any]] = []
    supports: list[dict[str, Any]] = []
    offset = 0
    for index, block in enumerate(message.content):
        if not isinstance(block, TextBlock):
            continue
        named = [source for source in block.citations if source.url]
        if len(named) < len(block.citations):
            reason = "sources without an address: left out"
            writer.record_loss(LossKind.CITATIONS, reason, index=index, block="text")
        for source in named:
            start = min(source.start or 0, len(block.text))
            end = min(source.end, len(block.text)) if source.end else len(block.text)
            segment = {
                "startIndex": offset + len(block.text[:start].encode()),
                "endIndex": offset + len(block.text[:end].encode()),
                "text": block.text[start:end],
            }
            supports.append({"segment": segment, "groundingChunkIndices": [len(chunks)]})
            chunks.append({"web": {"uri": source.url, "title": source.title or source.url}})
        offset += len(block.text.encode())
    return {"groundingMetadata": {"groundingChunks": chunks, "groundingSupports": supports}} if chunks else {}


def stop_word(stop_reason: StopReason | None, writer: ReplyWriter) -> str:
    """Return the wire's word; several reasons share one. Clients stop silently at a word that they do not know."""
    reason = stop_reason or StopReason.END_TURN
    word = STOP_WORDS.get(reason, "STOP")
    if reason in _INEXACT or not reason.is_known:
        writer.record_stop_reason_loss(reason, word)
    return word


def encode_usage(usage: TokenUsage, *, is_own: bool) -> dict[str, Any]:
    """Encode the counts: cached tokens are part of the prompt, thinking is not part of the candidates."""
    if is_own and usage.raw is not None and "promptTokenCount" in usage.raw:
        return dict(usage.raw)
    thoughts = min(usage.reasoning_tokens or 0, usage.output_tokens)
    prompt = usage.prompt_tokens
    return {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output_tokens - thoughts,
        "totalTokenCount": prompt + usage.output_tokens,
        "cachedContentTokenCount": usage.cached_input_tokens,
        "thoughtsTokenCount": thoughts,
    }


def encode_error(error: DragomanError, context: RequestContext, provider: str) -> WireResponse:
    """Encode an error with its status."""
    status = error_status(error, find_row(error, ERRORS), provider)
    return WireResponse(status, wirejson.dumps(error_body(error, provider, status)), error_headers(error))


def error_body(error: DragomanError, provider: str, status: int | None = None) -> dict[str, Any]:
    """Return the body of an error, which is also the data of an error in a stream."""
    row = find_row(error, ERRORS)
    message = error_message(error)
    if isinstance(error, ContextOverflowError) and "token count" not in message:
        message = f"{_OVERFLOW}: {message}"
    inner: dict[str, Any] = {"code": status or row.status, "message": message, "status": row.kind}
    details: list[dict[str, Any]] = []
    # Google answers an invalid key with 400.
    if isinstance(error, AuthenticationError) and not isinstance(error, PermissionDeniedError) and status == 400:
        inner["status"] = "INVALID_ARGUMENT"
        details.append({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": _INVALID_KEY,
                        "domain": "googleapis.com"})  # fmt: skip
    if isinstance(error, ProviderError) and error.retry_after is not None:
        delay = f"{error.retry_after:g}s"
        details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay})
    if details:
        inner["details"] = details
    return {"error": {**inner, **own_fields(error, provider)}}
