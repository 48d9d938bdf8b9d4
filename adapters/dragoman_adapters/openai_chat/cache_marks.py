"""Marks the positions up to which a prompt is cached, for models on Chat Completions that cache only on request
(docs/reference/wires/compatible.md).

The model's table says where a mark goes, as ``wire.cache_control``: ``body``, one field of the request for the last
block; ``part``, a field of a content part; or the name of a field of a message, for endpoints with a word of their own.
"""

from collections.abc import Mapping
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests import option_table
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import AudioBlock, DocumentBlock, ImageBlock, TextBlock, ToolResultBlock, VideoBlock

FIELD = "cache_control"
"""The key of the model's table, and the field of a body and of a part."""
_IN_BODY, _IN_PART = "body", "part"
_CAN_BE_MARKED = (TextBlock, ImageBlock, AudioBlock, VideoBlock, DocumentBlock, ToolResultBlock)


def encode_option(request: RequestBuilder, encoded: dict[str, Any]) -> None:
    """Encode ``prompt_cache`` where it is a field of the body. Caching is automatic, except for models that say
    otherwise; `mark_end` marks the last message."""
    requested, place = request.used.take("prompt_cache"), request.target.capabilities.wire.get(FIELD)
    if requested is not None and place == _IN_BODY:
        encoded[FIELD] = _marker(request)
    elif requested == "1h" and place not in (None, _IN_PART):
        reason = f"prompt_cache: {request.target.model} caches for as long as its endpoint sees fit"
        request.record_loss(LossKind.OPTION, reason, Severity.INFO)
    elif not place and (requested == "1h" or not request.target.capabilities.supports_prompt_caching):
        option_table.record_cache_hint_loss(request)


def mark_instructions(request: RequestBuilder, turn: Turn, message: dict[str, Any]) -> dict[str, Any]:
    """Return the message of the last of the leading instructions marked, which stay when a conversation changes."""
    lead = request.turns[: request.instruction_turns]
    if _place(request) == _IN_BODY or not (lead and turn is lead[-1] and message.get("content")):
        return message
    return mark_last_part(request, message)


def mark_end(request: RequestBuilder, messages: list[dict[str, Any]]) -> None:
    """Mark the last message with content, if ``prompt_cache`` asks for it: all that is before it is cached."""
    if request.options.prompt_cache is None or _place(request) == _IN_BODY:
        return
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("content"):
            messages[index] = mark_last_part(request, messages[index])
            return
    request.record_loss(LossKind.OPTION, "prompt_cache: no message has content to mark", Severity.INFO)


def find_marked(request: RequestBuilder, turn: Turn) -> set[int]:
    """Return the indexes of the blocks of a turn that get a mark (`MessageMetadata.cache_breakpoints`)."""
    if not (turn.message.metadata.cache_breakpoints and request.target.marks_cache):
        return set()  # a loss already
    problems = (
        None if isinstance(block, _CAN_BE_MARKED) else f"no marker follows a block of the type {block.type}"
        for block in turn.blocks
    )
    return request.place_breakpoints(turn, problems)


def with_mark(request: RequestBuilder, note: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the note of a block that is marked: the part that it becomes has one field more."""
    if _message_field(request):
        return note
    return {**note, "set": {**note.get("set", {}), FIELD: _marker(request)}}


def mark_message(request: RequestBuilder, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message one of whose blocks is marked, on an endpoint that marks messages."""
    field = _message_field(request)
    return {**message, field: {"type": "ephemeral"}} if field else message


def mark_last_part(request: RequestBuilder, message: dict[str, Any]) -> dict[str, Any]:
    """Return a message with content whose end is marked."""
    if _message_field(request):
        return mark_message(request, message)
    content = message["content"] or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*parts[:-1], {**parts[-1], FIELD: _marker(request)}]}


def _message_field(request: RequestBuilder) -> str | None:
    place = _place(request)
    return None if place in (_IN_BODY, _IN_PART) else place


def _place(request: RequestBuilder) -> str:
    place: str = request.target.capabilities.wire.get(FIELD, _IN_BODY)
    return place


def _marker(request: RequestBuilder) -> Mapping[str, str]:
    """Return a mark with the lifetime that was asked for. Five minutes are the default of the wire."""
    lifetime = request.options.prompt_cache or "5m"
    return {"type": "ephemeral", **({} if lifetime == "5m" else {"ttl": lifetime})}
