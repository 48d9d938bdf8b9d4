"""Canonical to wire: the body of a chat request (wire reference 4 and 8.1 to 8.2)."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    DocumentBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai.chat import parts
from dragoman_openai.chat.dialect import Dialect
from dragoman_openai.chat.parameters import parameters
from dragoman_openai.chat.parts import Note, ToolId

Written = dict[str, list[Any]]
"""What is written of a message's blocks, by the message's field."""


def body(request: Outgoing, tools: Sequence[ToolDefinition], dialect: Dialect) -> dict[str, Any]:
    """The whole body."""
    usable = request.usable(tools)
    encoded: dict[str, Any] = {"model": request.adapter.model}
    encoded |= parameters(request, dialect, tools=bool(usable))
    encoded["messages"] = messages(request, dialect)
    for definition in usable:
        legacy = _own(definition, request.provider).get("legacy")
        encoded.setdefault("functions" if legacy else "tools", []).append(tool(definition, request.provider))
    return encoded


def messages(request: Outgoing, dialect: Dialect) -> list[dict[str, Any]]:
    """One message a turn, and one for each result of a turn of results."""
    encoded: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for turn in request.turns:
        if turn.role is Role.TOOL:
            encoded += _results(request, turn, names, dialect)
            continue
        names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolUseBlock)}
        encoded.append(_message(request, turn, dialect))
    return encoded


def _message(request: Outgoing, turn: Turn, dialect: Dialect) -> dict[str, Any]:
    raw = turn.raw(request.provider)
    notes = raw.get("blocks", {})
    blocks = [
        (block, notes.get(str(origin), {}) if origin != MADE else {})
        for block, origin in zip(turn.blocks, turn.origins, strict=True)
        if _is_sent(request, turn, block, origin, dialect)
    ]
    wrote = written(blocks, request.tool_id, dialect)
    if dialect.reasoning_required and "tool_calls" in wrote and not dialect.thinking_parts:
        wrote.setdefault(dialect.reasoning_fields[0], [""])
    return message(str(turn.role), wrote, raw, dialect)


def _is_sent(request: Outgoing, turn: Turn, block: ContentBlock, origin: int, dialect: Dialect) -> bool:
    """Whether a block has a place on this wire; what has none, or only in part, is named as a loss."""
    match block:
        case TextBlock() if block.citations:
            _lose(request, turn, origin, LossKind.CITATIONS, "the sources of a text are not sent", block)
        case DocumentBlock() if block.context:
            _lose(request, turn, origin, LossKind.MEDIA, "the note that goes with a document is not sent", block)
        case ThinkingBlock() if dialect.reasoning_replay != "always":
            calls = any(isinstance(other, ToolUseBlock) for other in turn.blocks)
            if dialect.reasoning_replay == "never" or not calls:
                why = "the endpoint reads no earlier reasoning here: left out"
                _lose(request, turn, origin, LossKind.THINKING, why, block, Severity.INFO)
                return False
        case _:
            pass
    return True


def written(blocks: Sequence[tuple[ContentBlock, Note]], tool_id: ToolId, dialect: Dialect) -> Written:
    """Blocks, each with its note, as pieces by field."""
    wrote: Written = {}
    for block, note in blocks:
        field, value = parts.piece(block, note, tool_id, dialect)
        wrote.setdefault(field, []).append(value)
    return wrote


def message(role: str, wrote: Written, raw: Note, dialect: Dialect) -> dict[str, Any]:
    """A message. What ``raw`` notes about the fields of the provider's own one goes where no block speaks for them."""
    encoded: dict[str, Any] = {"role": role, "content": _content(role, wrote, raw, dialect)}
    for field, values in wrote.items():
        if field == "tool_calls":
            encoded[field] = values
        elif field != "content":
            encoded[field] = "".join(values) if isinstance(values[0], str) else values[-1]
    return restore(encoded, _without(raw.get("residue"), wrote))


def _content(role: str, wrote: Written, raw: Note, dialect: Dialect) -> Any:
    """A lone text without extras as a string, anything else as a list; null where other fields speak instead."""
    values = wrote.get("content", [])
    if not values:
        return "" if role != "assistant" or not wrote else None
    if all(value.keys() == {"type", "text"} for value in values) and not raw.get("list"):
        if len(values) == 1:
            return values[0]["text"]
        if role not in dialect.part_roles:
            return "\n".join(value["text"] for value in values)
    return values


def _without(residue: Note | None, wrote: Mapping[str, Any]) -> dict[str, Any]:
    """A residue without the fields that blocks speak for."""
    if not residue:
        return {}
    return {
        "set": {field: value for field, value in residue.get("set", {}).items() if field not in wrote},
        "drop": [field for field in residue.get("drop", ()) if field not in wrote],
    }


def _results(request: Outgoing, turn: Turn, names: Mapping[str, str], dialect: Dialect) -> list[dict[str, Any]]:
    notes = turn.raw(request.provider).get("blocks", {})
    encoded: list[dict[str, Any]] = []
    for block, origin in zip(turn.blocks, turn.origins, strict=True):
        if not isinstance(block, ToolResultBlock):
            continue
        if block.is_error and not any(loss.reason == _NO_ERROR_FLAG for loss in request.losses):
            _lose(request, turn, origin, LossKind.FLATTENED, _NO_ERROR_FLAG, block, Severity.INFO)
        content = [part for part in block.content if _is_part(request, turn, part, origin)]
        note = notes.get(str(origin), {}) if origin != MADE else {}
        answer = result(block, content, note, request.tool_id, dialect)
        if dialect.tool_name and block.tool_use_id in names:
            answer.setdefault("name", names[block.tool_use_id])
        encoded.append(answer)
    return encoded


_NO_ERROR_FLAG = "the wire has no flag for a failed tool: its answer must say so itself"


def _is_part(request: Outgoing, turn: Turn, part: ContentBlock, origin: int) -> bool:
    own = isinstance(part, ProviderBlock) and part.provider == request.provider
    if own or isinstance(part, (TextBlock, *MEDIA_BLOCKS)):
        return True
    _lose(request, turn, origin, LossKind.NATIVE_BLOCK, f"a tool's answer holds no {part.type}", part)
    return False


def result(
    block: ToolResultBlock, content: Sequence[ContentBlock], note: Note, tool_id: ToolId, dialect: Dialect
) -> dict[str, Any]:
    """A tool's answer; ``content`` are the parts of it that can be sent."""
    notes = note.get("parts", {})
    wrote = written([(part, notes.get(str(index), {})) for index, part in enumerate(content)], tool_id, dialect)
    encoded: dict[str, Any] = {"role": "tool", "tool_call_id": tool_id(block.tool_use_id)}
    encoded["content"] = _content("tool", wrote, note, dialect)
    return restore(encoded, _without(note, wrote))


def _lose(
    request: Outgoing,
    turn: Turn,
    origin: int,
    kind: LossKind,
    reason: str,
    block: ContentBlock,
    severity: Severity = Severity.WARNING,
) -> None:
    request.losses.append(Loss(kind, turn.message.id, origin, reason, severity, block.type))


def _own(definition: ToolDefinition, provider: str) -> Mapping[str, Any]:
    raw = definition.provider_raw or {}
    return raw if raw.get("by") == provider else {}


def tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """A tool, or a function of the older form; a tool that is no function goes back as it was read."""
    own = _own(definition, provider)
    if "native" in own:
        return dict(own["native"])
    function: dict[str, Any] = {"name": definition.name}
    if definition.description:
        function["description"] = definition.description
    function["parameters"] = definition.input_schema
    note = own.get("residue", {})
    if own.get("legacy"):
        return restore(function, note)
    return restore({"type": "function", "function": restore(function, note.get("inner"))}, note)
