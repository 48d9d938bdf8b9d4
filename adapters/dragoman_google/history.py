"""Requests in Google's format: their instruction, contents and tools (wire reference 6)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.adapter.incoming import HistoryReader
from dragoman.adapter.residue import residue
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_google import encode, parts
from dragoman_google.schema import json_schema
from dragoman_google.spelling import camel, camel_name, either


@dataclass(frozen=True, slots=True)
class _Open:
    """A call that no answer has been read for. ``id`` is Google's own, where it issued one."""

    name: str
    id: str | None
    tool_use_id: str


def read(native: Mapping[str, Any], reader: HistoryReader) -> list[str]:
    """Adds the messages of a request; gives the names of the fields that they speak for."""
    named, instruction = either(native, "systemInstruction")
    spoken_for = ["contents"]
    if instruction:
        _add_instruction(reader, named, instruction)
        spoken_for.append(named)
    open_calls: list[_Open] = []
    for content in native["contents"]:
        if content.get("role") == "model":
            open_calls += _add_said(reader, content)
        else:
            _add_asked(reader, content, open_calls)
    return spoken_for


def _add_instruction(reader: HistoryReader, named: str, native: Any) -> None:
    notes: dict[str, Any] = {"named": named} if named != "systemInstruction" else {}
    if isinstance(native, str):
        reader.add(Role.SYSTEM, (TextBlock(text=native),), {**notes, "string": True})
        return
    content, single = _parts(native)
    layout = _layout(native, {}, single=single)
    _add(reader, Role.SYSTEM, content, {**notes, **layout}, by_model=False)


def _add_said(reader: HistoryReader, native: Mapping[str, Any]) -> list[_Open]:
    """One content of the model's, and the calls in it."""
    said, single = _parts(native)
    layout = _layout(native, {"role": "model"}, single=single)
    return _add(reader, Role.ASSISTANT, said, {"joined": False, **layout}, by_model=True)


def _add_asked(reader: HistoryReader, native: Mapping[str, Any], open_calls: list[_Open]) -> None:
    """One content of the user's: each tool's answer becomes a message of its own, and what stands beside them one."""
    asked, single = _parts(native)
    answers = [index for index, part in enumerate(asked) if _answer(part) is not None]
    others = [index for index in range(len(asked)) if index not in answers]
    layout = {"joined": False, **_layout(native, {"role": "user"}, single=single)}
    if answers + others != sorted(answers + others):
        layout["order"] = answers + others
    for index in answers:
        _add_answer(reader, asked[index], layout, open_calls)
        layout = {"joined": True}
    if others or not answers:
        _add(reader, Role.USER, [asked[index] for index in others], layout, by_model=False)


def _add(
    reader: HistoryReader, role: Role, natives: list[dict[str, Any]], layout: dict[str, Any], *, by_model: bool
) -> list[_Open]:
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    calls: list[_Open] = []
    for index, native in enumerate(natives):
        call = either(native, "functionCall")[1] if by_model else None
        wire_id = call.get("id") if call else None
        block = parts.block(native, reader.call_id(wire_id) if call else "", reader.provider, by_model=by_model)
        blocks.append(block)
        if isinstance(block, ToolUseBlock):
            calls.append(_Open(block.name, wire_id, block.id))
        if noted := parts.note(native, parts.part(block, wire_id)):
            notes[str(index)] = noted
    reader.add(role, blocks, {**layout, **({"blocks": notes} if notes else {})})
    return calls


def _add_answer(reader: HistoryReader, native: dict[str, Any], layout: dict[str, Any], open_calls: list[_Open]) -> None:
    answer = _answer(native) or {}
    call = _take(open_calls, answer.get("name"), answer.get("id"))
    tool_use_id = call.tool_use_id if call else reader.result_id(answer.get("id"))
    result = parts.result(answer, tool_use_id, reader.provider)
    name = call.name if call else str(answer.get("name") or "unknown")
    noted = parts.note(native, parts.result_part(result, name, call.id if call else None))
    reader.add(Role.TOOL, (result,), {**layout, **({"blocks": {"0": noted}} if noted else {})})


def _take(open_calls: list[_Open], name: str | None, wire_id: str | None) -> _Open | None:
    """The call that an answer is to: that of its id, else the first open one of its name, one without an id first."""
    fits = [call for call in open_calls if wire_id and call.id == wire_id]
    fits = fits or [call for call in open_calls if call.name == name and not call.id]
    fits = fits or [call for call in open_calls if call.name == name and not wire_id]
    if not fits:
        return None
    open_calls.remove(fits[0])
    return fits[0]


def _answer(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """A part's functionResponse in camelCase, if it is one."""
    native = either(part, "functionResponse")[1]
    answer: dict[str, Any] | None = camel(native)[0] if isinstance(native, dict) else None
    return answer


def _parts(native: Mapping[str, Any]) -> tuple[list[dict[str, Any]], bool]:
    """The parts of a content, and whether a lone one came without its list."""
    found = native.get("parts")
    return ([found], True) if isinstance(found, dict) else (list(found or ()), False)


def _layout(native: Mapping[str, Any], ours: dict[str, Any], *, single: bool) -> dict[str, Any]:
    """What a content holds beside its parts and beyond what we would write."""
    noted: dict[str, Any] = {"single": True} if single else {}
    if difference := residue({key: value for key, value in native.items() if key != "parts"}, ours):
        noted["content"] = difference
    if "parts" not in native:
        noted["content"] = {**noted.get("content", {}), "drop": [*noted.get("content", {}).get("drop", ()), "parts"]}
    return noted


def tools(native: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    """The tools of a request: functions, and those that Google runs itself, which are kept whole under their names."""
    found: list[ToolDefinition] = []
    for entry in native.get("tools") or ():
        read = [*_of_entry(entry, provider)]
        if read:
            noted = parts.note(entry, encode.tools(read, provider)[0])
            if noted:
                first = {**(read[0].provider_raw or {}), "entry": noted}
                read[0] = read[0].model_copy(update={"provider_raw": first})
        found += read
    return found


def _of_entry(entry: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    read: list[ToolDefinition] = []
    for key, value in entry.items():
        if camel_name(key) == encode.DECLARATIONS:
            for item in value or ():
                read.append(_function(item, {"by": provider, "joined": bool(read)}))
        elif value is not None:
            raw = {"by": provider, "joined": bool(read), "native": {key: value}}
            read.append(ToolDefinition(name=key, provider_raw=raw))
    return read


def _function(native: dict[str, Any], raw: dict[str, Any]) -> ToolDefinition:
    schema = either(native, "parametersJsonSchema")[1]
    if not isinstance(schema, dict):
        own = native.get("parameters")
        schema = json_schema(own) if isinstance(own, dict) else {"type": "object", "properties": {}}
    definition = ToolDefinition(name=native["name"], description=native.get("description") or "", input_schema=schema)
    if spelling := [key for key in native if camel_name(key) != key]:
        raw["spelling"] = spelling
    if difference := residue(native, encode.declaration(definition, raw)):
        raw["residue"] = difference
    return definition.model_copy(update={"provider_raw": raw})
