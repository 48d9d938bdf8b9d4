"""Wire to canonical: replies, and requests in the format of Chat Completions (wire reference 4)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.assembly import Reply
from dragoman.adapter.incoming import HistoryReader
from dragoman.adapter.residue import residue
from dragoman.canonical.blocks import Citation, ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, Role, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman_openai.chat import details, encode, parts
from dragoman_openai.chat.dialect import Dialect, lookup
from dragoman_openai.chat.parts import Piece
from dragoman_openai.chat.usage import usage

STOP_REASONS = {
    "stop": StopReason.END_TURN,
    "length": StopReason.MAX_TOKENS,
    "content_filter": StopReason.REFUSAL,
    "tool_calls": StopReason.TOOL_USE,
    "function_call": StopReason.TOOL_USE,
    "model_length": StopReason.CONTEXT_OVERFLOW,
    "model_context_window_exceeded": StopReason.CONTEXT_OVERFLOW,
    "sensitive": StopReason.REFUSAL,
    "error": StopReason.ERROR,
    "insufficient_system_resource": StopReason.ERROR,
    "network_error": StopReason.ERROR,
}

_REPLY_SPOKEN_FOR = {"model", "choices", "usage", "object"}
_CHOICE_SPOKEN_FOR = {"index", "message", "delta"}
_MESSAGE_SPOKEN_FOR = {"role", "content", "refusal", "audio", "tool_calls", "function_call", "annotations"}

Difference = Callable[[Piece, Piece], dict[str, Any]]


def reply_object(body: bytes) -> dict[str, Any]:
    return wirejson.loads_object(body)


def message(
    native: dict[str, Any],
    reply: Reply,
    dialect: Dialect,
    status: MessageStatus = MessageStatus.COMPLETE,
    *,
    said: Sequence[Piece] | None = None,
    cut: Collection[int] = (),
) -> Message:
    """A whole reply object, or the one that a stream has gathered. Only the first choice becomes the message.

    A stream hands in what was said in its own order, and at which positions of it calls were broken off.
    """
    choice = first_choice(native)
    spoken = choice["message"]
    if said is None:
        said = parts.said(spoken, dialect)
    finish = choice.get("finish_reason")
    cut = {*cut, *cut_by_length(said, finish)}
    content, notes = _blocks(said, reply.call_id, reply.provider, dialect, parts.difference_in_reply, cut)
    listed = lookup(native, dialect.source_list) if dialect.source_list else None
    content = _cited(content, [*(spoken.get("annotations") or ()), *(listed or ())])
    raw: dict[str, Any] = {
        "reply": _filled(native, _REPLY_SPOKEN_FOR),
        "choice": _filled(choice, _CHOICE_SPOKEN_FOR),
        "choices": [other for other in native["choices"] if other is not choice],
        "message": _filled(spoken, {*_MESSAGE_SPOKEN_FOR, *dialect.reasoning_fields, details.FIELD}),
        "blocks": notes,
        "list": isinstance(spoken.get("content"), list),
    }
    return reply.message(
        content,
        model=native.get("model") or None,
        stop_reason=_stop_reason(finish, content, said, status),
        usage=usage(native, dialect),
        raw={key: value for key, value in raw.items() if value},
        status=status,
    )


def first_choice(native: Mapping[str, Any]) -> dict[str, Any]:
    """The choice with the index 0, or without any."""
    choices: list[dict[str, Any]] = native["choices"]
    return next((choice for choice in choices if not choice.get("index")), choices[0])


def cut_by_length(said: Sequence[Piece], finish: str | None) -> list[int]:
    """The position of a last call that the limit broke off before its arguments began; others show by parsing."""
    if finish != "length" or not said or not parts.is_call(said[-1]):
        return []
    field, value = said[-1]
    function = value if field == "function_call" else value.get("function")
    return [len(said) - 1] if isinstance(function, dict) and not function.get("arguments") else []


def _filled(native: Mapping[str, Any], spoken_for: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in native.items() if key not in spoken_for and value not in (None, "", [], {})}


def _stop_reason(
    native: str | None, content: Iterable[ContentBlock], said: Iterable[Piece], status: MessageStatus
) -> StopReason | None:
    """Many servers say "stop", or nothing, for calls and refusals as well, so those are seen by looking."""
    if status is MessageStatus.CANCELLED:
        return StopReason.CANCELLED
    if status is MessageStatus.ERROR:
        return StopReason.ERROR
    reason = STOP_REASONS.get(native or "stop", StopReason.END_TURN)
    if reason is StopReason.END_TURN:
        if any(isinstance(block, ToolUseBlock) for block in content):
            return StopReason.TOOL_USE
        if any(field == "refusal" for field, _ in said):
            return StopReason.REFUSAL
    return reason


def _blocks(
    said: Iterable[Piece],
    call_id: Callable[[int, str | None], str],
    provider: str,
    dialect: Dialect,
    difference: Difference,
    cut: Collection[int] = (),
) -> tuple[list[ContentBlock], dict[str, Any]]:
    """The blocks of the pieces, and by position what our encoder would not write for them."""
    content: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    for position, piece in enumerate(said):
        tool_use_id = call_id(position, parts.native_id(piece)) if parts.is_call(piece) else ""
        block, note = parts.block(piece, tool_use_id, provider, cut=position in cut)
        content.append(block)
        if piece[0] != "audio":  # what a model spoke goes back as its transcript
            ours = parts.piece(block, note, lambda _, piece=piece: parts.native_id(piece) or "", dialect)  # type: ignore[misc]
            note |= difference(piece, ours)
        if note:
            notes[str(position)] = note
    return content, notes


def _cited(content: list[ContentBlock], annotations: Any) -> list[ContentBlock]:
    """The sources of an answer stand beside it and count its characters: they belong to its first text."""
    if not annotations:
        return content
    citations = tuple(_citation(item) for item in annotations)
    place = next((index for index, block in enumerate(content) if isinstance(block, TextBlock)), None)
    if place is not None:
        content[place] = content[place].model_copy(update={"citations": citations})
    return content


def _citation(native: dict[str, Any] | str) -> Citation:
    if isinstance(native, str):
        return Citation(kind="url", url=native)
    kind = native.get("type") or "url_citation"
    inner = native.get(kind)
    facts = inner if isinstance(inner, dict) else native
    return Citation(
        kind=kind,
        title=facts.get("title"),
        url=facts.get("url"),
        start=facts.get("start_index"),
        end=facts.get("end_index"),
        data=native,
    )


def history(native: dict[str, Any], reader: HistoryReader, dialect: Dialect) -> None:
    """The messages of a request. A result of the older form names no call: it answers the latest one without an id."""
    unnamed: str | None = None
    for item in native["messages"]:
        if item["role"] in ("tool", "function"):
            answered = reader.result_id(item["tool_call_id"]) if "tool_call_id" in item else None
            _add_result(reader, item, answered or unnamed or reader.result_id(None), dialect)
            continue
        said = parts.said(item, dialect)
        content, notes = _blocks(
            said, lambda _, native_id: reader.call_id(native_id), reader.provider, dialect, parts.difference
        )
        unnamed = _unnamed_call(content, said)
        raw = {"list": isinstance(item.get("content"), list), "blocks": notes}
        raw["residue"] = _message_residue(item, content, notes, said, raw, dialect)
        content = _cited(content, item.get("annotations"))
        reader.add(Role(item["role"]), content, {key: value for key, value in raw.items() if value})


def _unnamed_call(content: Iterable[ContentBlock], said: Iterable[Piece]) -> str | None:
    for block, piece in zip(content, said, strict=True):
        if isinstance(block, ToolUseBlock) and parts.native_id(piece) is None:
            return block.id
    return None


def _message_residue(
    native: dict[str, Any],
    content: Sequence[ContentBlock],
    notes: Mapping[str, Any],
    said: Iterable[Piece],
    raw: Mapping[str, Any],
    dialect: Dialect,
) -> dict[str, Any] | None:
    """What a message holds in the fields that its blocks do not speak for."""
    noted = [(block, notes.get(str(index), {})) for index, block in enumerate(content)]
    ours = encode.message(native["role"], encode.written(noted, str, dialect), raw, dialect)
    spoken_for = {"role", *(field for field, _ in said)}
    return residue(_others(native, spoken_for), _others(ours, spoken_for))


def _others(fields: Mapping[str, Any], spoken_for: Collection[str]) -> dict[str, Any]:
    return {field: value for field, value in fields.items() if field not in spoken_for}


def _add_result(reader: HistoryReader, native: dict[str, Any], tool_use_id: str, dialect: Dialect) -> None:
    said = parts.said({"content": native.get("content")}, dialect)
    content, notes = _blocks(said, lambda *_: "", reader.provider, dialect, parts.difference)
    answer = ToolResultBlock(tool_use_id=tool_use_id, content=tuple(content))
    note: dict[str, Any] = {"list": True} if isinstance(native.get("content"), list) else {}
    if notes:
        note["parts"] = notes
    ours = encode.result(answer, note, lambda _: native.get("tool_call_id", ""), dialect)
    spoken_for = {field for field, _ in said}
    note |= residue(_others(native, spoken_for), _others(ours, spoken_for)) or {}
    reader.add(Role.TOOL, (answer,), {"blocks": {"0": note}} if note else {})


def tools(native: dict[str, Any], provider: str) -> list[ToolDefinition]:
    """The tools of a request, and the functions of its older form. A tool that is no function is kept whole."""
    found: list[ToolDefinition] = []
    for item in native.get("tools") or ():
        if isinstance(item.get("function"), dict):
            found.append(_tool(item["function"], item, provider, {}))
        else:
            inner = item.get(item["type"])
            name = (inner.get("name") if isinstance(inner, dict) else None) or item.get("name") or item["type"]
            found.append(ToolDefinition(name=name, provider_raw={"by": provider, "native": item}))
    found += [_tool(item, item, provider, {"legacy": True}) for item in native.get("functions") or ()]
    return found


def _tool(function: dict[str, Any], native: dict[str, Any], provider: str, raw: dict[str, Any]) -> ToolDefinition:
    schema = function.get("parameters")
    given = {"input_schema": schema} if isinstance(schema, dict) else {}
    definition = ToolDefinition(name=function["name"], description=function.get("description") or "", **given)
    marked = definition.model_copy(update={"provider_raw": {"by": provider, **raw}})
    if note := parts.difference(("tools", native), ("tools", encode.tool(marked, provider))):
        raw = {**raw, "residue": note}
    return definition.model_copy(update={"provider_raw": {"by": provider, **raw}}) if raw else definition
