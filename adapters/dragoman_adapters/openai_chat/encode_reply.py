"""Encodes whole replies for clients of Chat Completions (docs/answers.md)."""

from collections.abc import Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.answers.reply_writer import ReplyWriter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.registry import adapter_class
from dragoman.adapter.wirejson import lookup_path
from dragoman.canonical.blocks import AudioBlock, ContentBlock, ImageBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.usage import TokenUsage
from dragoman_adapters.openai_chat import encode, media
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_chat.encode import Note
from dragoman_adapters.openai_platform.custom_tools import custom_names, free_text

REPLY_PREFIX, TOOL_PREFIX = "chatcmpl-", "call_"

STOP_WORDS = {
    StopReason.TOOL_USE: "tool_calls",
    StopReason.MAX_TOKENS: "length",
    StopReason.CONTEXT_OVERFLOW: "length",
    StopReason.REFUSAL: "content_filter",
}
"""The stop reasons with a word of their own; the others are a stop."""

_INEXACT = (StopReason.STOP_SEQUENCE, StopReason.CONTEXT_OVERFLOW, StopReason.PAUSE)
"""Stop reasons that share their word with another one."""


def encode_reply(message: Message, writer: ReplyWriter, dialect: Dialect) -> dict[str, Any]:
    """Encode a whole reply."""
    raw = writer.own_raw(message)
    others: list[dict[str, Any]] = []
    if raw:
        native_message = _encode_own_message(message, raw, writer, dialect)
        if own := raw.get("choice"):
            choice = {"index": 0, "message": native_message, "logprobs": None, **own}
        else:
            choice = _encode_choice(0, message, native_message, writer)
        if writer.alternatives(message):
            others = raw.get("choices") or []
    else:
        choice = _encode_choice(0, message, _encode_message(message, writer, dialect), writer)
        writer.store_state(TOOL_PREFIX, message)
        for index, other in enumerate(writer.alternatives(message), 1):
            metadata = message.metadata.model_copy(update={"stop_reason": other.stop_reason})
            answer = message.model_copy(update={"content": other.content, "metadata": metadata})
            others.append(_encode_choice(index, answer, _encode_message(answer, writer, dialect), writer))
    encoded: dict[str, Any] = {
        "id": writer.new_id(REPLY_PREFIX),
        "object": "chat.completion",
        "created": int(message.created_at.timestamp()),
        "model": writer.served_model(message),
        "choices": [choice, *others],
    }
    if (usage := message.metadata.usage) is not None:
        encoded["usage"] = encode_usage(usage, is_own=writer.is_own)
    if raw:
        return encoded | (raw.get("reply") or {})
    writer.record_usage_losses(usage, *UNCOUNTED)
    return encoded


def _encode_choice(index: int, message: Message, encoded: dict[str, Any], writer: ReplyWriter) -> dict[str, Any]:
    word = stop_word(writer.stop_reason(message, has_calls="tool_calls" in encoded), writer)
    return {"index": index, "message": encoded, "logprobs": None, "finish_reason": word}


def _encode_own_message(message: Message, raw: Note, writer: ReplyWriter, dialect: Dialect) -> dict[str, Any]:
    """Encode a message of this wire's provider as it came."""
    notes = raw.get("blocks", {})
    audio: dict[str, Any] = {}
    sources = lookup_path(raw.get("reply") or {}, dialect.source_list) if dialect.source_list else None
    annotations: list[Any] = []
    blocks: list[tuple[ContentBlock, Note]] = []
    for index, block in enumerate(message.content):
        note = notes.get(str(index), {})
        if isinstance(block, AudioBlock) and note.get("field") == "audio":
            rest = {key: value for key, value in note.items() if key != "field"}
            audio = {"data": block.source.data, "transcript": block.transcript, **rest}
            continue
        if isinstance(block, TextBlock) and not (dialect.references and raw.get("list")):
            annotations += [source.data for source in block.citations if source.data]
        blocks.append((block, note))
    pieces = encode.encode_pieces(blocks, lambda canonical: writer.tool_id(TOOL_PREFIX, canonical, message), dialect)
    texts = pieces.get("content", [])
    encoded = encode.encode_message("assistant", pieces, raw, dialect)
    if audio:
        encoded["audio"] = audio
    if texts and not raw.get("list") and all(each.keys() == {"type", "text"} for each in texts):
        encoded["content"] = "".join(each["text"] for each in texts)
    if annotations := annotations[: len(annotations) - len(sources or ())]:
        encoded["annotations"] = annotations
    return encoded | {key: value for key, value in (raw.get("message") or {}).items() if key != "role"}


def _encode_message(message: Message, writer: ReplyWriter, dialect: Dialect) -> dict[str, Any]:
    """Encode a message of another provider: all text, all thinking, all calls."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    has_sources = False
    for index, block in enumerate(message.content):
        match block:
            case TextBlock():
                texts.append(block.text)
                has_sources = has_sources or bool(block.citations)
            case ThinkingBlock():
                thoughts.append(block.text)
            case ToolUseBlock():
                tool_id = writer.tool_id(TOOL_PREFIX, block.id, message)
                calls.append(_encode_call(block, tool_id, writer, dialect))
            case ImageBlock() if image := encode_image(block, dialect):
                images.append(image)
            case _:
                record_unsupported(block, index, writer)
    if len(message.content) > 1:
        record_order_losses(message.content, writer)
    encoded: dict[str, Any] = {
        "role": "assistant",
        "content": "".join(texts) if texts or not calls else None,
        "refusal": None,
        "annotations": encode_annotations(message.content, writer) if has_sources else [],
    }
    if any(thoughts):
        encoded[_reasoning_field(message, writer, dialect)] = "".join(thoughts)
    if calls:
        encoded["tool_calls"] = calls
    if images:
        encoded[encode.IMAGES_FIELD] = images
    return encoded


def _reasoning_field(message: Message, writer: ReplyWriter, dialect: Dialect) -> str:
    """Return the field of reasoning: that in which it came, if it came by Chat Completions."""
    issuer = issuer_dialect(writer)
    if issuer is None:
        return dialect.reasoning_fields[0]
    notes = ((message.metadata.provider_raw or {}).get("blocks") or {}).values()
    noted = (note.get("field") for note in notes)
    return next((field for field in noted if field in issuer.reasoning_fields), issuer.reasoning_fields[0])


def issuer_dialect(writer: ReplyWriter) -> Dialect | None:
    """Return the dialect of the provider that answered; None if it does not support Chat Completions."""
    try:
        kind: Any = adapter_class(writer.state.model.partition(":")[0])
    except DragomanError:  # a provider of somebody else, which is not here
        return None
    kind = getattr(kind, "apis", {}).get("chat", kind)  # of a provider with both of OpenAI's APIs
    found = getattr(kind, "dialect", None)
    return found if isinstance(found, Dialect) else None


def encode_image(block: ImageBlock, dialect: Dialect) -> dict[str, Any] | None:
    """Encode a generated image as routers return it; None if only its provider can read it."""
    return media.encode_media(block, dialect) if block.source.kind in ("base64", "url") else None


def _encode_call(call: ToolUseBlock, tool_id: str, writer: ReplyWriter, dialect: Dialect) -> dict[str, Any]:
    """Encode a call. A tool that the client declared with free text as its input gets its text."""
    if call.name in custom_names(writer.client_fields):
        arguments = wirejson.dumps_text(call.input) if call.raw_input is None else call.raw_input
        return custom_call(tool_id, call.name, free_text(arguments))
    encoded: dict[str, Any] = encode.encode_block(call, {}, lambda _: tool_id, dialect)[1]
    return encoded


def custom_call(tool_id: str, name: str, text: str) -> dict[str, Any]:
    return {"id": tool_id, "type": "custom", "custom": {"name": name, "input": text}}


def record_unsupported(block: ContentBlock, index: int, writer: ReplyWriter) -> None:
    """Record that the client does not get a block."""
    if block.type == "redacted_thinking":
        reason = "the wire has no field for thinking that only its provider reads"
        writer.record_block_loss(index, block, reason, Severity.INFO)
    else:
        writer.record_block_loss(index, block, f"a reply on this wire holds no {block.type}: left out")


def record_order_losses(blocks: Sequence[ContentBlock], writer: ReplyWriter) -> None:
    """Record blocks that change their place: thinking comes first, then text, then calls."""
    latest = 0
    for index, block in enumerate(blocks):
        place = _PLACES.get(block.type)
        if place is None or (isinstance(block, (TextBlock, ThinkingBlock)) and not block.text):
            continue
        if place < latest:
            reason = "a reply on this wire has one thinking, then one text, then the calls"
            writer.record_loss(LossKind.FLATTENED, reason, Severity.INFO, index=index, block=block.type)
        latest = max(latest, place)


_PLACES = {"thinking": 0, "text": 1, "tool_use": 2}


def encode_annotations(blocks: Sequence[ContentBlock], writer: ReplyWriter) -> list[dict[str, Any]]:
    """Encode the sources of all texts that have an address. Their indexes count characters of the whole text."""
    encoded: list[dict[str, Any]] = []
    offset = 0
    for index, block in enumerate(blocks):
        if not isinstance(block, TextBlock):
            continue
        for source in writer.addressed(block.citations, index):
            start, end = offset + (source.start or 0), offset + (source.end or source.start or 0)
            title = source.title or source.url
            fields = {"start_index": start, "end_index": end, "title": title, "url": source.url}
            encoded.append({"type": "url_citation", "url_citation": fields})
        offset += len(block.text)
    return encoded


def stop_word(stop_reason: StopReason, writer: ReplyWriter) -> str:
    """Return the wire's word; several reasons share one."""
    word = STOP_WORDS.get(stop_reason, "stop")
    if stop_reason in _INEXACT:
        writer.record_stop_reason_loss(stop_reason, word)
    return word


UNCOUNTED = ("cache_creation_1h_input_tokens", "image_output_tokens", "server_tools")
"""The counts that the wire has no field for."""


def encode_usage(usage: TokenUsage, *, is_own: bool) -> dict[str, Any]:
    """Encode the counts: cached tokens are part of prompt_tokens. Details are there even if they are 0."""
    if is_own and usage.raw is not None and "prompt_tokens" in usage.raw:
        return dict(usage.raw)
    prompt, output = usage.prompt_tokens, usage.output_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_input_tokens,
            "cache_write_tokens": usage.cache_creation_input_tokens,
            "audio_tokens": usage.audio_input_tokens or 0,
            "image_tokens": usage.image_input_tokens or 0,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens or 0,
            "audio_tokens": usage.audio_output_tokens or 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
