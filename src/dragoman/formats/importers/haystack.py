"""Haystack's messages as `ChatMessage.to_dict` writes them: an object with one key for each part.

The form of version 1 (``content`` is a text) is the same as that of Chat Completions and is read there.
Source: haystack/dataclasses/chat_message.py, 3.4.
"""

from typing import Any

from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import text_in
from dragoman.formats.reading.blocks import (
    build_usage,
    cite_last_text,
    media_block,
    media_from_url,
    model_fields_of,
    provider_block,
    read_citation,
    text_blocks,
    to_text,
)
from dragoman.formats.reading.fields import Fields, source_losses, take_counts, typed_errors, words_of
from dragoman.formats.reading.turns import Turns, read_messages, read_time, stop_after

FORMAT = "haystack"

_PARTS = ("text", "tool_call", "tool_call_result", "reasoning", "image", "file")


@typed_errors
def from_haystack(document: Any) -> list[Message]:
    """Read a list of messages, an object with one as ``messages``, or a single message. Raises FormatError, with a
    path.
    """
    called: dict[str | None, Any] = {}
    return read_messages(document, FORMAT, lambda message, turns: _message(message, turns, called))


def _message(message: Fields, turns: Turns, called: dict[str | None, Any]) -> None:
    role = message.role(None, "role", "_role")
    name = message.text("name", "_name")
    if name is not None:
        source_losses().add(f"{message.path}.name", "a message has no name of its speaker: left out")
    parts = message.objects("content" if message.look("content") is not None else "_content")
    meta = message.inner("meta" if message.look("meta") is not None else "_meta")
    turns.start(role)
    blocks = [block for part in parts for block in _part(part, turns, called)]
    blocks = cite_last_text(blocks, [read_citation(each.whole()) for each in meta.objects("citations")])
    meta.skip("meta")
    provider, model = (text_in(meta.take(*names)) for names in (("provider", "model_provider"), ("model",)))
    stop = words_of(FORMAT).stops.get(to_text(meta.take("finish_reason", "stop_reason", "done_reason")))
    metadata = {
        **model_fields_of(FORMAT, provider, model),
        "usage": build_usage(**take_counts(meta.inner("usage"))),
        "stop_reason": stop_after(blocks, stop),
    }
    created = read_time(meta.take("created_at", "created"))
    turns.add(role, blocks, message.path, metadata=metadata if role is Role.ASSISTANT else None, created_at=created)


def _part(part: Fields, turns: Turns, called: dict[str | None, Any]) -> list[ContentBlock]:
    """Return the blocks of a part. ``called`` has the arguments of each call by its id: a result repeats them."""
    kind = next((name for name in _PARTS if part.look(name) is not None), None)
    if kind == "text":
        return text_blocks(part.text("text"))
    inner = part.object(kind) if kind is not None else None
    if inner is None:
        return [provider_block(FORMAT, "part", part.rest())]
    if kind == "tool_call":
        native_id, arguments = _call_id(inner), inner.take("arguments")
        called[native_id] = arguments
        return [turns.call(native_id, inner.required_text("tool_name"), arguments)]
    if kind == "tool_call_result":
        origin = inner.inner("origin")
        native_id, name = _call_id(origin), origin.text("tool_name")
        if origin.look("arguments") == called.get(native_id):
            origin.ignore("arguments")
        value = inner.look("result")
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            content = [block for each in inner.objects("result") for block in _part(each, turns, called)]
        else:
            content = text_blocks(inner.take("result"))
        return [turns.result(native_id, name, content, is_error=inner.flag("error"))]
    return _reasoning(inner) if kind == "reasoning" else [_media(inner, is_image=kind == "image")]


def _call_id(call: Fields) -> str | None:
    """Return the id that pairs a call with its result. Of Responses, the call's own id is that of an item."""
    native_id, extra = call.text("id"), call.inner("extra")
    extra.ignore("type", "id", "status")
    return extra.text("call_id") or native_id


def _reasoning(reasoning: Fields) -> list[ContentBlock]:
    text = reasoning.text("reasoning_text") or ""
    extra = reasoning.inner("extra")
    found: list[ContentBlock] = []
    for each in extra.objects("reasoning_contents"):  # as Bedrock and Anthropic have it
        content = each.inner("reasoning_content")
        if (redacted := content.text("redacted_thinking", "redacted_content")) is not None:
            found.append(RedactedThinkingBlock(data=redacted))
        if (signed := content.object("reasoning_text")) is not None:
            found.append(ThinkingBlock(text=signed.text("text") or "", signature=signed.text("signature")))
    if found:
        return found
    extra.ignore("id", "type", "status", "summary", "content")  # copies of the text
    sealed = extra.text("encrypted_content", "signature")
    return [ThinkingBlock(text=text, signature=sealed)] if text or sealed else []


def _media(media: Fields, *, is_image: bool) -> ContentBlock:
    media.ignore("validation")
    media_type, data = media.text("mime_type"), media.text("base64_image", "base64_data") or ""
    detail, title, meta = media.text("detail"), media.text("filename"), media.inner("meta")
    kind = "image" if is_image else None
    if isinstance(meta.look("url"), str):
        meta.ignore("url")
    if data.startswith(("http:", "https:")):
        return media_from_url(data, media_type, kind=kind, detail=detail, title=title)
    return media_block("base64", data, media_type, kind=kind, detail=detail, title=title)
