"""Encodes the body of a Messages request (docs/reference/wires/anthropic.md)."""

import base64
import codecs
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.block_fields import ACTIONS_NOTE, MESSAGE_FIELDS, BlockField
from dragoman.adapter.requests.encode_cache import EncodedHistory
from dragoman.adapter.requests.request_builder import HAS_MARKER, RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.anthropic.options import SAMPLING, encode_options

LATEST_VERSION = "2026-10-21"
SAMPLING_VERSION = "2023-06-01"
"""The last version that takes temperature, top_p and top_k."""


_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("citations", "resolution", "link_types")
"""Fields of other providers' blocks that the wire does not support."""

COMPACTION = "compaction"
"""The field that asks for a compaction of the whole conversation."""

_CONTAINER = "container"
"""The key of the encoder's state for the container of the latest reply."""

_TOOLSETS = "toolsets"
"""The key of the encoder's state for the toolsets of calls, by id of the call."""
TOOLSET_FIELD = "toolset_name"
"""The field of a call, and of its result, that names the toolset of the call's tool."""
COMPUTER_TOOLSET = "computer"
"""The name of the toolset whose calls are actions on a computer."""

_LAYOUT = frozenset({"blocks", "list", "string", "container", "joined", ACTIONS_NOTE, MESSAGE_FIELDS})
"""The notes that decide how the provider's own message is written."""

_NEVER_MARKED = ("thinking", "redacted_thinking")
"""Types of blocks up to which no prompt is cached."""
_BASE64_TYPES = ("application/pdf",)
_PLAIN_TEXT = "text/plain"

ToolId = Callable[[str], str]


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body, with keys in the provider's documented order."""
    system, turns = request.split_instructions()
    usable = request.fit_tools(tools)
    ends: list[int] | None = None
    if request.options.server_state is not None:
        from dragoman_adapters.anthropic import threads  # imported late: few requests have a thread

        ends = [] if threads.is_wanted(request) else None
    encoded: dict[str, Any] = {"model": request.target.model}
    encoded |= encode_options(request, tools=bool(usable))
    if system:
        encoded["system"] = _encode_system(request, system)
    if ends is None:
        encoded["messages"] = request.encode_history(turns, partial(_encode_messages, request))
    else:
        encoded["messages"] = EncodedHistory((), _encode_messages(request, turns, ends))
    if usable:
        _carry_container(request, encoded, usable)
        encoded["tools"] = request.encode_tools(usable, encode_tool)
        if (computer := request.context.native_calls.get("tool_use")) is not None:
            from dragoman.adapter.requests.call_translators import ActionCalls  # few requests use a computer

            request.context.action_calls = ActionCalls(computer)
    if ends is not None:
        from dragoman_adapters.anthropic import threads

        threads.begin_or_continue(request, encoded, turns, ends)
    # A request for a compaction gets nothing else, and the next one with the field would compact again.
    request.context.ends_turn = request.options.extra.get(request.provider, {}).get(COMPACTION) is not None
    return encoded


def _carry_container(request: RequestBuilder, encoded: dict[str, Any], tools: Sequence[ToolDefinition]) -> None:
    """Name the container of the latest reply, as long as it lives, if a tool of the request runs in containers.

    Without its id, the API refuses to continue calls that were made from inside it; without such a tool, it refuses the
    id.
    """
    container = request.encoder_state.get(_CONTAINER)
    if container is None:
        return
    types = [str((tool.provider_raw or {}).get("native", {}).get("type")) for tool in tools]
    globs = request.target.server_tools.containers
    if not any(fnmatchcase(name, glob) for name in types for glob in globs):
        return
    expires = datetime.fromisoformat(container["expires_at"]) if container.get("expires_at") else None
    if expires is not None and (expires if expires.tzinfo else expires.replace(tzinfo=UTC)) <= request.context.clock():
        reason = "the container of the earlier code has expired: a new one is used"
        request.record_loss(LossKind.STATE, reason, Severity.INFO)
        return
    encoded["container"] = container["id"]
    request.own_defaults.add("container")


def api_version(encoded: dict[str, Any]) -> str:
    """Return the API version that a body needs: only the older one has sampling parameters."""
    return LATEST_VERSION if encoded.keys().isdisjoint(SAMPLING) else SAMPLING_VERSION


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a tool; a server tool goes back unchanged."""
    encoded: dict[str, Any] = {"name": definition.name, "input_schema": definition.input_schema}
    if definition.description:
        encoded["description"] = definition.description
    if definition.provider_raw is None:  # most tools have no notes
        return encoded
    from dragoman.adapter.notes import own_notes  # imported late: few tools have some

    own = own_notes(definition, provider)
    return dict(own["native"]) if "native" in own else apply_diff(encoded, own.get("residue"))


def _encode_system(request: RequestBuilder, turns: Sequence[Turn]) -> str | list[dict[str, Any]]:
    if len(turns) == 1 and (text := turns[0].plain_text(request.provider)) is not None:
        return text  # as most system prompts are
    blocks = [encoded for turn in turns for encoded in _encode_blocks(request, turn)]
    as_list = any(turn.raw(request.provider).get("list") for turn in turns)
    return blocks if as_list else _compact_content(blocks)


def _encode_messages(
    request: RequestBuilder, turns: Sequence[Turn], ends: list[int] | None = None
) -> list[dict[str, Any]]:
    """Encode the tool results of one turn in one user message, before the user's own content. ``ends`` receives the
    number of messages after each turn."""
    encoded: list[dict[str, Any]] = []
    provider, state, follows_results = request.provider, request.encoder_state, False
    for turn in turns:
        if ends is not None and encoded:
            ends.append(len(encoded))
        joins = follows_results and turn.role is Role.TOOL
        if (text := turn.plain_text(provider, _LAYOUT)) is not None:
            encoded.append({"role": _ROLES[turn.role], "content": [{"type": "text", "text": text}]})
        elif turn.is_simple(provider, _LAYOUT) and _TOOLSETS not in state:
            blocks = [_encode_simple(block, request.tool_id) for block in turn.blocks]
            if joins:
                encoded[-1]["content"] += blocks
            else:
                encoded.append({"role": _ROLES[turn.role], "content": blocks})
        else:
            blocks, raw = _encode_blocks(request, turn), turn.raw(provider)
            if isinstance(container := raw.get("container"), dict) and "id" in container:
                state[_CONTAINER] = container
            if follows_results and raw.get("joined", joins):
                encoded[-1]["content"] += blocks
                encoded[-1] |= request.message_fields(turn)
            else:
                content = (
                    blocks
                    if raw.get("list") or turn.role is Role.TOOL
                    else _compact_content(blocks, only=raw.get("string", False))
                )
                encoded.append({"role": _ROLES[turn.role], "content": content, **request.message_fields(turn)})
        follows_results = turn.role is Role.TOOL
    if ends is not None and encoded:
        ends.append(len(encoded))
    return encoded


_ROLES = {
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
    Role.SYSTEM: "system",
    Role.DEVELOPER: "system",
}


def _compact_content(blocks: list[dict[str, Any]], *, only: bool = True) -> Any:
    """Encode a single text without other fields as a string."""
    if only and len(blocks) == 1 and len(blocks[0]) == 2 and "type" in blocks[0] and "text" in blocks[0]:
        return blocks[0]["text"]
    return blocks


def _encode_blocks(request: RequestBuilder, turn: Turn) -> list[dict[str, Any]]:
    raw = turn.raw(request.provider)
    notes = raw.get("blocks", {})
    unsupported: tuple[BlockField, ...] = ("arguments",) if raw else ("arguments", *_UNSUPPORTED_FIELDS)
    encoded: list[dict[str, Any]] = []
    for index, content in enumerate(turn.blocks):
        request.record_field_losses(turn, index, *unsupported)
        if not turn.ordinary:
            _record_text_type_losses(request, turn, index)
        if isinstance(content, TextBlock) and content.citations and not raw:
            content = content.model_copy(update={"citations": ()})
        note = notes.get(str(turn.origins[index]), {}) if notes else None
        if raw and isinstance(content, ToolUseBlock) and content.id in raw.get(ACTIONS_NOTE, ()):
            from dragoman.adapter.requests.call_translators import restore_action

            content = restore_action(content)
        native = encode_block(content, request.tool_id, note)
        if notes:
            native = request.restore_block(turn, index, native)
        encoded.append(native)
        if isinstance(content, ToolUseBlock) and native.get(TOOLSET_FIELD):
            request.encoder_state.setdefault(_TOOLSETS, {})[content.id] = native[TOOLSET_FIELD]
        elif isinstance(content, ToolResultBlock) and (
            toolset := request.encoder_state.get(_TOOLSETS, {}).get(content.tool_use_id)
        ):
            native[TOOLSET_FIELD] = toolset
    if turn.message.metadata.cache_breakpoints:
        _mark_cache(request, turn, encoded)
    return encoded


def _encode_simple(block: ContentBlock, tool_id: ToolId) -> dict[str, Any]:
    """Encode a block of a simple turn, as `encode_block` does."""
    if type(block) is TextBlock:
        return {"type": "text", "text": block.text}
    if type(block) is ToolUseBlock:
        return {"type": "tool_use", "id": tool_id(block.id), "name": block.name, "input": block.input}
    assert type(block) is ToolResultBlock
    text = block.content[0]
    assert type(text) is TextBlock
    return {"type": "tool_result", "tool_use_id": tool_id(block.tool_use_id), "content": text.text}


def _mark_cache(request: RequestBuilder, turn: Turn, encoded: list[dict[str, Any]]) -> None:
    """Mark the blocks up to which the prompt is to be cached."""

    def problem(block: Mapping[str, Any]) -> str | None:
        if "cache_control" in block:
            return HAS_MARKER
        return f"no marker follows a block of the type {block['type']}" if block["type"] in _NEVER_MARKED else None

    marker = {"type": "ephemeral", "ttl": request.options.prompt_cache or "5m"}
    for index in request.place_breakpoints(turn, map(problem, encoded)):
        encoded[index] = {**encoded[index], "cache_control": marker}


def _record_text_type_losses(request: RequestBuilder, turn: Turn, index: int) -> None:
    """Encode text documents as plain text, whatever their type."""
    content = turn.blocks[index]
    for each in content.content if isinstance(content, ToolResultBlock) else (content,):
        if isinstance(each, DocumentBlock) and each.media_type is not None:
            changed = (each.source.kind, each.media_type) != ("text", _PLAIN_TEXT)
            sent = _encode_source(each.source, each.media_type)
            if changed and sent["type"] == "text":
                reason = f"a document of the type {each.media_type} is sent as plain text"
                severity = Severity.INFO
                if each.source.kind == "base64" and "\N{REPLACEMENT CHARACTER}" in sent["data"]:
                    reason, severity = f"{reason}: what is not UTF-8 is replaced", Severity.WARNING
                request.record_block_loss(turn, index, LossKind.FLATTENED, reason, severity)


def encode_block(content: ContentBlock, tool_id: ToolId, note: dict[str, Any] | None = None) -> dict[str, Any]:
    """Encode one block. ``note`` holds the original layout of a tool's result."""
    match content:
        case TextBlock():
            encoded: dict[str, Any] = {"type": "text", "text": content.text}
            if content.citations and (cited := [citation.data for citation in content.citations if citation.data]):
                encoded["citations"] = cited
            return encoded
        case ToolUseBlock():
            return {"type": "tool_use", "id": tool_id(content.id), "name": content.name, "input": content.input}
        case ToolResultBlock():
            return _encode_tool_result(content, tool_id, note or {})
        case ThinkingBlock():
            return {"type": "thinking", "thinking": content.text, "signature": content.signature or ""}
        case RedactedThinkingBlock():
            return {"type": "redacted_thinking", "data": content.data}
        case ImageBlock():
            return {"type": "image", "source": _encode_source(content.source, content.media_type or "image/png")}
        case DocumentBlock():
            encoded = {
                "type": "document",
                "source": _encode_source(content.source, content.media_type or "application/pdf"),
            }
            encoded |= {k: v for k in ("title", "context") if (v := getattr(content, k)) is not None}
            return encoded if content.citations is None else {**encoded, "citations": {"enabled": content.citations}}
        case ProviderBlock():
            return dict(content.data)
        case _:
            raise TypeError(f"the projection let a {content.type} block through")


def _encode_tool_result(content: ToolResultBlock, tool_id: ToolId, note: dict[str, Any]) -> dict[str, Any]:
    encoded: dict[str, Any] = {"type": "tool_result", "tool_use_id": tool_id(content.tool_use_id)}
    parts = [encode_block(part, tool_id) for part in content.content]
    if notes := note.get("parts"):
        parts = [apply_diff(part, notes.get(str(index))) for index, part in enumerate(parts)]
    encoded["content"] = parts if note.get("list") else (_compact_content(parts) if parts else "")
    if content.is_error:
        encoded["is_error"] = True
    return encoded


def _encode_source(source: MediaSource, media_type: str) -> dict[str, Any]:
    match source.kind:
        case "text":
            return {"type": "text", "media_type": _PLAIN_TEXT, "data": source.data}
        case "base64" if media_type in _BASE64_TYPES or media_type.startswith("image/"):
            return {"type": "base64", "media_type": media_type, "data": source.data}
        case "base64":  # the wire accepts text as text/plain only
            return {"type": "text", "media_type": _PLAIN_TEXT, "data": _decode_base64_text(source.data)}
        case "url":
            return {"type": "url", "url": source.data}
        case _:
            return {"type": "file", "file_id": source.data}


def _decode_base64_text(data: str) -> str:
    """Decode base64 text up to a cut. It is UTF-8, or UTF-16 with a byte order mark; other bytes become replacement
    characters. Raises RequestError if the data is not base64."""
    digits = "".join(data.split()).rstrip("=")
    whole = digits if len(digits) % 4 != 1 else digits[:-1]  # a single digit is not a byte
    try:
        text = base64.b64decode(whole + "=" * (-len(whole) % 4), validate=True)
    except ValueError:
        raise RequestError("the data of a document is not base64: write the text itself, or encode its bytes") from None
    encoding = "utf-16" if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    return text.decode(encoding, "replace")
