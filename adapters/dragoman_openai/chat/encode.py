"""Canonical to wire: the body of a chat request (wire reference 4 and 8.1 to 8.2)."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.adapter import schemas
from dragoman.adapter.details import Detail
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.residue import restore
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai.chat import details, parameters, parts
from dragoman_openai.chat.dialect import Dialect
from dragoman_openai.chat.parts import Note, ToolId

Written = dict[str, list[Any]]
"""What is written of a message's blocks, by the message's field."""


def body(request: Outgoing, tools: Sequence[ToolDefinition], dialect: Dialect) -> dict[str, Any]:
    """The whole body."""
    usable = schemas.fit_tools(request, request.usable(tools))
    encoded: dict[str, Any] = {"model": request.adapter.model}
    encoded |= parameters.write(request, dialect, tools=bool(usable))
    told = request.history(request.turns, partial(messages, request, dialect))
    if told.fresh and told.fresh[-1]["role"] == "assistant":
        told.fresh[-1] |= dialect.prefill
    encoded["messages"] = told
    for definition in usable:
        legacy = _own(definition, request.provider).get("legacy")
        encoded.setdefault("functions" if legacy else "tools", []).append(tool(definition, request.provider))
    return encoded


def messages(request: Outgoing, dialect: Dialect, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """One message a turn, and one for each result of a turn of results."""
    encoded: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for turn in turns:
        if turn.role is Role.TOOL:
            encoded += _results(request, turn, names, dialect)
            continue
        if not turn.plain:
            names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolUseBlock)}
        spoken = _message(request, turn, dialect)
        if dialect.alternating and encoded and encoded[-1]["role"] == spoken["role"]:
            reason = "neighbouring messages of one role are sent as one"
            request.lose(LossKind.FLATTENED, reason, Severity.INFO)
            encoded[-1] = {**encoded[-1], **spoken, "content": _parts(encoded[-1]) + _parts(spoken) or ""}
        else:
            encoded.append(spoken)
    return encoded


def _parts(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"] or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _message(request: Outgoing, turn: Turn, dialect: Dialect) -> dict[str, Any]:
    if (text := turn.bare(request.provider)) is not None:
        return {"role": turn.role.value, "content": text}
    # A turn that was made because of a message, or has another role by now, is not the one that was noted.
    raw = turn.raw(request.provider) if turn.role is turn.message.role else {}
    blocks = [
        (block if _is_free(turn, request, dialect) else _parsed(block), note)
        for index, (block, note) in enumerate(_noted(turn, raw))
        if _is_sent(request, turn, index, note, dialect)
    ]
    for index in turn.words_behind_calls():
        request.lose_block(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
    if not dialect.thinking_parts:
        for index in turn.thoughts_inside():
            request.lose_block(turn, index, LossKind.FLATTENED, "thinking goes first, as one text", Severity.INFO)
    wrote = written(blocks, request.tool_id, dialect)
    if dialect.reasoning_required and "tool_calls" in wrote and parameters.may_reason(request):
        wrote.setdefault(dialect.reasoning_fields[0], [""])
    return message(str(turn.role), wrote, raw, dialect)


def _noted(turn: Turn, raw: Note) -> Iterator[tuple[ContentBlock, Note]]:
    """The blocks of a turn with their notes; one that the projection made or changed has none."""
    notes = raw.get("blocks", {})
    for block, origin in zip(turn.blocks, turn.origins, strict=True):
        yield block, notes.get(str(origin), {}) if origin != MADE else {}


def _is_sent(request: Outgoing, turn: Turn, index: int, note: Note, dialect: Dialect) -> bool:
    """Whether a block has a place on this wire; what has none, or only in part, is named as a loss."""
    if not turn.raw(request.provider):
        request.lose_details(turn, index, *_lacking(turn.blocks[index], dialect))
    match turn.blocks[index]:
        case TextBlock() as text if not _is_backed(text, dialect):
            request.lose_details(turn, index, "citations")
        case ToolUseBlock() as call if call.raw_input is not None and not (
            "inner" in note or (call.raw_input and _is_free(turn, request, dialect))
        ):
            request.lose_block(turn, index, LossKind.INVALID_INPUT, "arguments that are no JSON object: left out")
        case RedactedThinkingBlock() if not dialect.reasoning_details:
            request.lose_block(turn, index, LossKind.THINKING, "the endpoint takes no sealed reasoning: left out")
            return False
        case ThinkingBlock() | RedactedThinkingBlock() if dialect.reasoning_replay != "always":
            calls = any(isinstance(other, ToolUseBlock) for other in turn.blocks)
            if dialect.reasoning_replay == "never" or not calls:
                why = "the endpoint reads no earlier reasoning here: left out"
                request.lose_block(turn, index, LossKind.THINKING, why, Severity.INFO)
                return False
        case _:
            pass
    return True


def _lacking(block: ContentBlock, dialect: Dialect) -> tuple[Detail, ...]:
    """What the wire has no place for in what others said."""
    found: tuple[Detail, ...] = ("note", "link_types", "kept_titles", "text_documents")
    if not (dialect.reasoning_details or dialect.thinking_parts):
        found = (*found, "signatures")
    if isinstance(block, AudioBlock) and dialect.media_as_text:
        found = (*found, "types")
    if isinstance(block, ToolResultBlock) and "tool" not in dialect.part_roles:
        found = (*found, "seams")
    return found if dialect.media_as_text else (*found, "names", "link_names")


def _is_free(turn: Turn, request: Outgoing, dialect: Dialect) -> bool:
    """Whether arguments may be no JSON: where the endpoint takes back what its own model wrote."""
    return dialect.free_arguments and bool(turn.raw(request.provider))


def _parsed(block: ContentBlock) -> ContentBlock:
    """A call with what could be read of its arguments, which is nothing where they were no object."""
    if isinstance(block, ToolUseBlock) and block.raw_input is not None:
        return block.model_copy(update={"raw_input": None})
    return block


def _is_backed(text: TextBlock, dialect: Dialect) -> bool:
    """Whether all sources of a text are parts that stand behind it."""
    return dialect.references and all(source.kind == "reference" and source.data for source in text.citations)


def written(blocks: Sequence[tuple[ContentBlock, Note]], tool_id: ToolId, dialect: Dialect) -> Written:
    """Blocks, each with its note, as pieces by field."""
    wrote: Written = {}
    for block, note in blocks:
        field, value = parts.piece(block, note, tool_id, dialect)
        wrote.setdefault(field, []).append(value)
        if isinstance(block, TextBlock) and _is_backed(block, dialect):
            wrote[field] += [dict(source.data or {}) for source in block.citations]
    return wrote


def message(role: str, wrote: Written, raw: Note, dialect: Dialect) -> dict[str, Any]:
    """A message. What ``raw`` notes about the fields of the provider's own one goes where no block speaks for them."""
    encoded: dict[str, Any] = {"role": role, "content": _content(role, wrote, raw, dialect)}
    for field, values in wrote.items():
        if field in ("tool_calls", details.FIELD):
            encoded[field] = values
        elif field != "content":
            encoded[field] = "".join(values) if isinstance(values[0], str) else values[-1]
    return restore(encoded, _without(raw.get("residue"), wrote, dialect))


def _content(role: str, wrote: Written, raw: Note, dialect: Dialect) -> Any:
    """A lone text without extras as a string, others as a list; null where a call or a refusal speaks instead."""
    values = wrote.get("content", [])
    if not values:
        return "" if wrote.keys().isdisjoint(("tool_calls", "function_call", "refusal")) else None
    if all(value.keys() == {"type", "text"} for value in values) and not raw.get("list"):
        if len(values) == 1:
            return values[0]["text"]
        if role not in dialect.part_roles:
            return "\n".join(value["text"] for value in values)
    return values


def _without(residue: Note | None, wrote: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """A residue without the fields that blocks speak for, and without reasoning where none is sent."""
    if not residue:
        return {}
    reasoning = {*dialect.reasoning_fields, details.FIELD}
    silent = reasoning if reasoning.isdisjoint(wrote) else set()
    return {
        "set": {
            field: value
            for field, value in residue.get("set", {}).items()
            if field not in wrote and not (value and field in silent)
        },
        "drop": [field for field in residue.get("drop", ()) if field not in wrote],
    }


def _results(request: Outgoing, turn: Turn, names: Mapping[str, str], dialect: Dialect) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    for index, (block, note) in enumerate(_noted(turn, turn.raw(request.provider))):
        if not isinstance(block, ToolResultBlock):
            continue
        own = bool(turn.raw(request.provider))
        request.lose_details(turn, index, "errors", *(() if own else _lacking(block, dialect)))
        answer = result(block, note, request.tool_id, dialect)
        if dialect.tool_name and block.tool_use_id in names and not turn.raw(request.provider):
            answer["name"] = names[block.tool_use_id]
        encoded.append(answer)
    return encoded


def result(block: ToolResultBlock, note: Note, tool_id: ToolId, dialect: Dialect) -> dict[str, Any]:
    """A tool's answer. Texts are joined by line feeds (specification D5.4), unless the provider's own was a list."""
    notes = note.get("parts", {})
    parts_of = [(part, notes.get(str(index), {})) for index, part in enumerate(block.content)]
    wrote = written(parts_of, tool_id, dialect)
    encoded: dict[str, Any] = {"role": "tool", "tool_call_id": tool_id(block.tool_use_id)}
    encoded["content"] = _content("tool", wrote, note, dialect)
    return restore(encoded, _without(note, wrote, dialect))


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
