"""Encodes the body of a request for an interaction."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests import schemas
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import DocumentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google.encode_blocks import Note
from dragoman_adapters.google.encode_messages import CONTINUE_TEXT, UNSUPPORTED_FIELDS, turn_notes
from dragoman_adapters.google_interactions import encode_blocks
from dragoman_adapters.google_interactions.options import encode_options


def has_stored_history(extra: Mapping[str, Any]) -> bool:
    """Whether Google stores earlier turns, so that a result's call may be missing from the history."""
    return bool(extra.get("previous_interaction_id"))


def encode_body(request: RequestBuilder, definitions: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body."""
    turns = [turn for turn in request.turns if turn.role is not Role.SYSTEM]
    instruction = _encode_system(request)
    agent = "agent" in request.options.extra.get(request.provider, {})
    encoded: dict[str, Any] = {} if agent else {"model": request.target.model}
    if instruction:
        encoded["system_instruction"] = instruction
    encoded["input"] = _encode_input(request, turns)
    if usable := schemas.fit_tool_schemas(request, request.usable_tools(definitions)):
        encoded["tools"] = [
            request.finish_function(each, encode_tool(each, _own_note(each, request.provider))) for each in usable
        ]
    return encoded | encode_options(request, tools=bool(usable))


def _encode_system(request: RequestBuilder) -> str:
    """Encode the instructions as one text."""
    texts = [
        (turn, index, block.text)
        for turn in request.turns
        if turn.role is Role.SYSTEM
        for index, block in enumerate(turn.blocks)
        if isinstance(block, TextBlock)
    ]
    for turn, index, _ in texts:
        request.record_field_losses(turn, index, "citations")
        if len(texts) > 1:
            request.record_block_loss(
                turn, index, LossKind.FLATTENED, "the instructions are sent as one text", Severity.INFO
            )
    return "\n\n".join(text for _, _, text in texts)


def encode_tool(definition: ToolDefinition, note: Note) -> dict[str, Any]:
    """Encode a function in the flat form; a server tool goes back unchanged."""
    if "native" in note:
        return dict(note["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded["parameters"] = definition.input_schema
    return apply_diff(encoded, note.get("residue"))


def _own_note(definition: ToolDefinition, provider: str) -> Note:
    raw = definition.provider_raw or {}
    return raw if raw.get("by") == provider else {}


def _encode_input(request: RequestBuilder, turns: Sequence[Turn]) -> Any:
    """Encode the steps. A request that was read as a text or as bare contents keeps that form if it has one turn."""
    if not turns:
        request.record_loss(LossKind.EMPTY_MESSAGE, "nothing is left to send: a user's turn is added", Severity.INFO)
        return CONTINUE_TEXT
    steps: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for turn in turns:
        note = turn_notes(turn, request.provider)
        if turn.role is Role.ASSISTANT:
            names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolUseBlock)}
            steps += _encode_assistant_turn(request, turn, note)
        elif turn.role is Role.TOOL:
            _encode_tool_results(request, turn, note, names, steps)
        else:
            _encode_user_turn(request, turn, note, steps)
    if not steps:
        return CONTINUE_TEXT
    form = turn_notes(turns[0], request.provider).get("form")
    if form is None or len(turns) > 1:
        return steps
    contents = steps[0]["content"]
    if form == "contents":
        return contents
    return contents[0]["text"] if form == "text" else contents[0]


def _encode_user_turn(request: RequestBuilder, turn: Turn, note: Note, steps: list[dict[str, Any]]) -> None:
    contents = [each for index in range(len(turn.blocks)) for each in _encode_content(request, turn, index, note)]
    if note.get("joined") and steps and steps[-1]["type"] == "user_input":
        steps[-1]["content"] += contents
    elif contents or note:
        steps.append(apply_diff({"type": "user_input", "content": contents}, note.get("beside")))
    elif not steps or _is_output(steps[-1]):
        reason = "the user's message is empty: a word is put in its place"
        request.record_loss(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
        steps.append({"type": "user_input", "content": [{"type": "text", "text": CONTINUE_TEXT}]})


def _encode_tool_results(
    request: RequestBuilder, turn: Turn, note: Note, names: Mapping[str, str], steps: list[dict[str, Any]]
) -> None:
    for index, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            continue
        if not note:
            request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS)
        native = encode_blocks.encode_tool_result(
            block, names.get(block.tool_use_id, "unknown"), request.tool_id(block.tool_use_id)
        )
        native = request.restore_block(turn, index, native) if note else native
        if not note.get("inside"):
            steps.append(native)
        elif note.get("joined") and steps and steps[-1]["type"] == "user_input":
            steps[-1]["content"].append(native)
        else:
            steps.append(apply_diff({"type": "user_input", "content": [native]}, note.get("beside")))


def _encode_assistant_turn(request: RequestBuilder, turn: Turn, note: Note) -> list[dict[str, Any]]:
    """Encode an assistant's turn. Neighbouring contents share one step, unless they were read as several."""
    steps: list[dict[str, Any]] = []
    layout = _step_starts(turn, note)
    for index, block in enumerate(turn.blocks):
        request.record_field_losses(turn, index, "arguments")
        wire_id = request.tool_id(block.id) if isinstance(block, ToolUseBlock) else None
        own_step = encode_blocks.encode_step(block, wire_id)
        if own_step is None and layout is not None and block.type == "provider" and layout.get(index) == "step":
            own_step = encode_blocks.encode_block(block)
        if own_step is not None:
            steps.append(request.restore_block(turn, index, own_step) if note else own_step)
            continue
        starts_step = layout.get(index) == "first" if layout is not None else not (steps and _is_output(steps[-1]))
        if starts_step:
            steps.append({"type": "model_output", "content": []})
        steps[-1]["content"] += _encode_content(request, turn, index, note)
    if layout is not None:
        return _apply_step_notes(steps, note)
    for index in turn.texts_after_calls():
        request.record_block_loss(turn, index, LossKind.FLATTENED, "words behind a call go before it", Severity.INFO)
    # Nothing may be between a call and its result, so all calls come last.
    return sorted(
        (step for step in steps if step.get("content") != []), key=lambda step: bool(step["type"] == "function_call")
    )


def _is_output(step: Mapping[str, Any]) -> bool:
    return bool(step["type"] == "model_output")


def _step_starts(turn: Turn, note: Note) -> dict[int, str] | None:
    """Return by index which block is the ``first`` of a step, and which is a ``step`` alone; None if the turn has
    changed since it was read."""
    if "steps" not in note or turn.origins != tuple(range(len(turn.message.content))):
        return None
    found: dict[int, str] = {}
    position = 0
    for step in note["steps"]:
        count = step.get("contents", 1)
        if count:
            found[position] = "first" if "contents" in step else "step"
        position += count
    return found


def _apply_step_notes(steps: list[dict[str, Any]], note: Note) -> list[dict[str, Any]]:
    """Return the steps with the fields that they were read with, and with the steps that were read without content."""
    remaining = iter(steps)
    return [
        apply_diff(
            {"type": "model_output", "content": []} if step.get("contents") == 0 else next(remaining),
            step.get("beside"),
        )
        for step in note["steps"]
    ]


def _encode_content(request: RequestBuilder, turn: Turn, index: int, note: Note) -> Iterator[dict[str, Any]]:
    block = turn.blocks[index]
    if note and turn.origins[index] != SYNTHETIC:
        encoded = request.restore_block(turn, index, encode_blocks.encode_block(block))
        if "annotations" not in encoded:
            request.record_field_losses(turn, index, "citations")
        yield encoded
        return
    request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS, "resolution")
    if isinstance(block, TextBlock) and not block.text:
        request.record_block_loss(turn, index, LossKind.EMPTY_TEXT, "an empty text is not sent", Severity.INFO)
        return
    if isinstance(block, DocumentBlock):
        if text := "\n".join(filter(None, (block.title, block.context))):
            request.record_block_loss(
                turn, index, LossKind.FLATTENED, "title and note go in front as text", Severity.INFO
            )
            yield {"type": "text", "text": text}
        if block.source.kind == "text":
            # A document cannot be plain text on this wire.
            yield {"type": "text", "text": block.source.data}
            return
    yield encode_blocks.encode_block(block)
