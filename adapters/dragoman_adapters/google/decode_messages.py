"""Decodes requests in Google's format: instruction, contents and tools (docs/reference/wires/google.md)."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from dragoman.adapter.wire_diff import diff_objects
from dragoman.canonical.blocks import ContentBlock, RedactedThinkingBlock, ToolUseBlock, replace_fields, text_block
from dragoman.canonical.guard import copy_json
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google import decode_blocks, encode, encode_blocks
from dragoman_adapters.google.values.decode_schema import decode_schema
from dragoman_adapters.google.values.spelling import camel_case_name, find_field, to_camel_case

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader


@dataclass(frozen=True, slots=True)
class _OpenCall:
    """A call without a result so far. ``id`` is Google's own, None if it issued none."""

    name: str
    id: str | None
    tool_use_id: str


def decode_history(native: Mapping[str, Any], reader: "HistoryReader") -> list[str]:
    """Add the messages of a request. Returns the names of the fields that they cover."""
    named, instruction = find_field(native, "systemInstruction")
    covered = ["contents"]
    if instruction:
        covered.append(named)
        notes: dict[str, Any] = {"named": named} if named != "systemInstruction" else {}
        if isinstance(instruction, str):
            reader.add(Role.SYSTEM, (text_block(instruction),), {**notes, "string": True})
        else:
            parts, layout = _split_content(instruction, {})
            _add_message(reader, Role.SYSTEM, parts, {**notes, **layout}, by_model=False)
    contents = native["contents"]
    start, known = reader.resume(contents)
    open_calls: list[_OpenCall] = list(known or ())
    for count, content in enumerate(islice(contents, start, None), start + 1):
        if content.get("role") == "model":
            parts, layout = _split_content(content, {"role": "model"})
            open_calls += _add_message(reader, Role.ASSISTANT, parts, {"joined": False, **layout}, by_model=True)
        else:
            _add_user_content(reader, content, open_calls)
        reader.mark(count, tuple(open_calls))
    return covered


def _add_user_content(reader: "HistoryReader", native: Mapping[str, Any], open_calls: list[_OpenCall]) -> None:
    """Add one content of the user. Each tool result becomes a message, and so do the other parts together."""
    parts, layout = _split_content(native, {"role": "user"})
    answers = [index for index, part in enumerate(parts) if _function_response(part) is not None]
    others = [index for index in range(len(parts)) if index not in answers]
    layout = {"joined": False, **layout}
    if answers + others != sorted(answers + others):
        layout["order"] = answers + others
    for index in answers:
        _add_tool_result(reader, parts[index], layout, open_calls)
        layout = {"joined": True}
    if others or not answers:
        _add_message(reader, Role.USER, [parts[index] for index in others], layout, by_model=False)


def _add_message(
    reader: "HistoryReader", role: Role, natives: list[dict[str, Any]], layout: dict[str, Any], *, by_model: bool
) -> list[_OpenCall]:
    blocks: list[ContentBlock] = []
    notes: dict[str, Any] = {}
    calls: list[_OpenCall] = []
    for native in natives:
        if len(native) == 1 and "text" in native:
            blocks.append(text_block(native["text"]))  # as below: a plain text leaves nothing to note
            continue
        call = find_field(native, "functionCall")[1] if by_model else None
        if call and (envelope := _find_envelope(native)):  # of another provider: see encode_reply
            blocks.append(RedactedThinkingBlock(data=envelope))
            native = {name: native[name] for name in native if name not in _SIGNATURES}
        wire_id = call.get("id") if call else None
        block = decode_blocks.decode_block(
            native, reader.call_id(wire_id) if call else "", reader.provider, by_model=by_model
        )
        blocks.append(block)
        if isinstance(block, ToolUseBlock):
            calls.append(_OpenCall(block.name, wire_id, block.id))
        if note := decode_blocks.note_part(native, encode_blocks.encode_block(block, wire_id)):
            notes[str(len(blocks) - 1)] = note
    reader.add(role, blocks, {**layout, **({"blocks": notes} if notes else {})})
    return calls


_SIGNATURES = ("thoughtSignature", "thought_signature")


def _find_envelope(native: Mapping[str, Any]) -> str | None:
    """Return the envelope in the place of a call's signature."""
    signature = next((native[name] for name in _SIGNATURES if isinstance(native.get(name), str)), None)
    if signature is None:
        return None
    from dragoman.adapter.answers.provider_state import is_envelope  # imported late: only servers have state

    return signature if is_envelope(signature) else None


def _add_tool_result(
    reader: "HistoryReader", native: dict[str, Any], layout: dict[str, Any], open_calls: list[_OpenCall]
) -> None:
    answer = _function_response(native) or {}
    call = _pop_call(open_calls, answer.get("name"), answer.get("id"))
    tool_use_id = call.tool_use_id if call else reader.result_id(answer.get("id"))
    result = decode_blocks.decode_tool_result(answer, tool_use_id, reader.provider)
    name = call.name if call else str(answer.get("name") or "unknown")
    note = decode_blocks.note_part(native, encode_blocks.encode_tool_result(result, name, call.id if call else None))
    reader.add(Role.TOOL, (result,), {**layout, **({"blocks": {"0": note}} if note else {})})


def _pop_call(open_calls: list[_OpenCall], name: str | None, wire_id: str | None) -> _OpenCall | None:
    """Remove and return the call of a result: by its id, else the first open call of that name, those without an id
    first.
    """
    candidates = [call for call in open_calls if wire_id and call.id == wire_id]
    candidates = candidates or [call for call in open_calls if call.name == name and not call.id]
    candidates = candidates or [call for call in open_calls if call.name == name and not wire_id]
    if not candidates:
        return None
    open_calls.remove(candidates[0])
    return candidates[0]


def _function_response(part: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a part's functionResponse in camelCase; None if it has none."""
    native = find_field(part, "functionResponse")[1]
    return to_camel_case(native)[0] if isinstance(native, dict) else None


def _split_content(native: Mapping[str, Any], ours: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the parts of a content, and what it holds in addition to them and to what we would write."""
    found = native.get("parts")
    parts, is_single = ([found], True) if isinstance(found, dict) else (list(found or ()), False)
    note: dict[str, Any] = {"single": True} if is_single else {}
    if difference := diff_objects({key: value for key, value in native.items() if key != "parts"}, ours):
        note["content"] = difference
    if "parts" not in native:
        note["content"] = {**note.get("content", {}), "drop": [*note.get("content", {}).get("drop", ()), "parts"]}
    return parts, note


def decode_tools(native: Mapping[str, Any], provider: str) -> list[ToolDefinition]:
    """Decode the tools of a request. Tools that Google runs itself are kept whole, under their names."""
    found: list[ToolDefinition] = []
    for entry in native.get("tools") or ():
        definitions: list[ToolDefinition] = []
        for key, value in entry.items():
            if camel_case_name(key) == encode.DECLARATIONS_FIELD:
                for item in value or ():
                    definitions.append(_decode_function(item, {"by": provider, "joined": bool(definitions)}))
            elif value is not None:
                raw = {"by": provider, "joined": bool(definitions), "native": {key: value}}
                definitions.append(ToolDefinition(name=key, provider_raw=raw))
        if definitions and (note := decode_blocks.note_part(entry, encode.encode_tools(definitions, provider)[0])):
            first = {**(definitions[0].provider_raw or {}), "entry": note}
            definitions[0] = replace_fields(definitions[0], {"provider_raw": copy_json(first)})
        found += definitions
    return found


def _decode_function(native: dict[str, Any], raw: dict[str, Any]) -> ToolDefinition:
    schema = find_field(native, "parametersJsonSchema")[1]
    if not isinstance(schema, dict):
        own = native.get("parameters")
        schema = decode_schema(own) if isinstance(own, dict) else {"type": "object", "properties": {}}
    definition = ToolDefinition(name=native["name"], description=native.get("description") or "", input_schema=schema)
    if spelling := [key for key in native if camel_case_name(key) != key]:
        raw["spelling"] = spelling
    if difference := diff_objects(native, encode.encode_function(definition, raw)):
        raw["residue"] = difference
    return replace_fields(definition, {"provider_raw": copy_json(raw)})
