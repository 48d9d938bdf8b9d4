"""Encodes the body of a generateContent request (docs/reference/wires/google.md)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from dragoman.adapter.requests import schemas
from dragoman.adapter.requests.call_translators import ActionCalls
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google.encode_blocks import Note, apply_note
from dragoman_adapters.google.encode_messages import CapabilitiesOf, encode_messages, encode_parts
from dragoman_adapters.google.options import encode_options
from dragoman_adapters.google.values.spelling import camel_case_name

DECLARATIONS_FIELD = "functionDeclarations"


def encode_body(
    request: RequestBuilder, definitions: Sequence[ToolDefinition], capabilities_of: CapabilitiesOf
) -> dict[str, Any]:
    """Encode the whole body. The path holds the model and says whether to stream."""
    system, turns = _split_system(request.turns)
    encoded: dict[str, Any] = _encode_system(request, system)
    encoded["contents"] = request.encode_history(turns, partial(encode_messages, request, capabilities_of))
    if usable := schemas.fit_tool_schemas(request, request.usable_tools(definitions)):
        encoded["tools"] = encode_tools(usable, request.provider)
        _finish_functions(request, usable, encoded["tools"])
        if (computer := request.context.native_calls.get("functionCall")) is not None:
            names = {tool.name for tool in usable if "native" not in (tool.provider_raw or {})}
            request.context.action_calls = ActionCalls(computer, names)
    return encoded | encode_options(request, tools=bool(usable))


def _finish_functions(
    request: RequestBuilder, definitions: Sequence[ToolDefinition], entries: Sequence[dict[str, Any]]
) -> None:
    by_name = {definition.name: definition for definition in definitions if definition.extra}
    for entry in entries if by_name else ():
        for function in entry.get(DECLARATIONS_FIELD, ()):
            if (definition := by_name.get(function.get("name"))) is not None:
                function |= request.finish_function(definition, function)


def _split_system(turns: Sequence[Turn]) -> tuple[Sequence[Turn], Sequence[Turn]]:
    """Split off leading system turns."""
    for position, turn in enumerate(turns):
        if turn.role is not Role.SYSTEM:
            return turns[:position], turns[position:]
    return turns, ()


def _encode_system(request: RequestBuilder, turns: Sequence[Turn]) -> dict[str, Any]:
    """Encode the instructions as one content, whose role is optional."""
    if not turns:
        return {}
    if len(turns) == 1 and (text := turns[0].plain_text(request.provider)) is not None:
        return {"systemInstruction": {"parts": [{"text": text}]}}  # as most system prompts are
    notes = turns[0].raw(request.provider)
    parts = [encoded for turn in turns for encoded in encode_parts(request, turn)]
    if not parts and not notes:
        return {}
    content: Any = apply_diff({"parts": parts}, notes.get("content"))
    if notes.get("single") and len(parts) == 1:
        content["parts"] = parts[0]
    if notes.get("string") and len(parts) == 1:
        content = parts[0]["text"]
    return {notes.get("named", "systemInstruction"): content}


def encode_tools(definitions: Sequence[ToolDefinition], provider: str) -> list[dict[str, Any]]:
    """Encode the tools. Functions share one entry; entries of a decoded request stay as they were, server tools
    included.
    """
    entries: list[dict[str, Any]] = []
    notes: list[Note] = []
    for definition in definitions:
        raw = definition.provider_raw or {}
        own = raw if raw.get("by") == provider else {}
        native = own.get("native")
        joins = (
            own["joined"] if "joined" in own else bool(native is None and entries and DECLARATIONS_FIELD in entries[-1])
        )
        if not joins or not entries:
            entries.append({})
            notes.append(own.get("entry", {}))
        if native is not None:
            entries[-1] |= native
        else:
            entries[-1].setdefault(DECLARATIONS_FIELD, []).append(encode_function(definition, own))
    return [apply_note(entry, note) for entry, note in zip(entries, notes, strict=True)]


def encode_function(definition: ToolDefinition, own: Note) -> dict[str, Any]:
    """Encode a function with its parameters as JSON Schema."""
    encoded: dict[str, Any] = {"name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded["parametersJsonSchema"] = definition.input_schema
    spelling = {camel_case_name(name): name for name in own.get("spelling", ())}
    return apply_diff({spelling.get(key, key): value for key, value in encoded.items()}, own.get("residue"))
