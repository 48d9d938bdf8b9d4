"""Encodes the body of a request for an interaction: turns become steps, and one block is one content of a step."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from dragoman.adapter import wirejson
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests import stored_history
from dragoman.adapter.requests.block_fields import ACTIONS_NOTE
from dragoman.adapter.requests.call_translators import ActionCalls, restore_action
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.server_tools.native_calls import is_paused
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    MEDIA_BLOCKS,
    ContentBlock,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.google.encode import CONTINUE_TEXT, UNSUPPORTED_FIELDS, split_document, turn_notes
from dragoman_adapters.google.encode_blocks import Note, action_answer, encode_media
from dragoman_adapters.google_interactions.options import encode_options


def encode_block(block: ContentBlock) -> dict[str, Any]:
    """Encode a block as a content."""
    match block:
        case TextBlock():
            return {"type": "text", "text": block.text}
        case media if isinstance(media, MEDIA_BLOCKS):
            part = encode_media(media)
            data = part.get("inlineData") or part["fileData"]
            media_type = data.get("mimeType")
            kinds = ("application", "text") if media.type == "document" else (media.type,)
            if media.media_type is None and (media_type or "").partition("/")[0] not in kinds:
                media_type = None  # the name of a link suggests another kind of media than its block is
            fields = {"data": data.get("data"), "uri": data.get("fileUri"), "mime_type": media_type}
            return {"type": media.type, **{name: value for name, value in fields.items() if value is not None}}
        case ProviderBlock():
            return block.data
        case _:
            raise TypeError(f"the projection let a {block.type} block through")


def encode_step(block: ContentBlock, wire_id: str | None = None) -> dict[str, Any] | None:
    """Encode a block as a step; None if it is a content of a step."""
    match block:
        case ThinkingBlock():
            signature_field = {"signature": block.signature} if block.signature else {}
            summary_field = {"summary": [{"type": "text", "text": block.text}]} if block.text else {}
            return {"type": "thought", **signature_field, **summary_field}
        case ToolUseBlock():
            return {"type": "function_call", "id": wire_id, "name": block.name, "arguments": block.input}
        case _:
            return None


class Call(NamedTuple):
    """A call as its result must name it. ``action`` is Google's own call, if it is an action on a computer."""

    name: str
    action: ToolUseBlock | None = None


def encode_tool_result(block: ToolResultBlock, call: Call, wire_id: str) -> dict[str, Any]:
    """Encode a tool result as a step: its texts joined, or a list of contents if it has media.

    The result of an action on a computer is an object in the first text, such as one with the ``url``.
    """
    texts = [each.text for each in block.content if isinstance(each, TextBlock)]
    media = [encode_block(each) for each in block.content if not isinstance(each, TextBlock)]
    answer: Any = "\n".join(texts)
    if call.action is not None and not block.is_error:
        answer = wirejson.dumps_text(action_answer(texts, call.action, confirmed=True))
        if media:
            answer = [{"type": "text", "text": answer}, *media]
    elif media:  # in its order
        kept = [each for each in block.content if not isinstance(each, TextBlock) or each.text]
        answer = [
            {"type": "text", "text": each.text} if isinstance(each, TextBlock) else encode_block(each) for each in kept
        ]
    encoded: dict[str, Any] = {"type": "function_result", "call_id": wire_id, "name": call.name, "result": answer}
    return encoded | ({"is_error": True} if block.is_error else {})


STORED_FIELDS = ("previous_interaction_id",)
"""The fields that name what Google stores."""
RESUMED_BY = "continuation_token"
COMPUTER_CALL = "function_call"
"""The type of the steps by which a model uses a computer."""


def has_stored_history(extra: Mapping[str, Any]) -> bool:
    """Whether Google stores earlier turns, so that a result's call may be missing from the history."""
    return any(extra.get(name) for name in STORED_FIELDS)


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body."""
    turns = [turn for turn in request.turns if turn.role is not Role.SYSTEM]
    instruction = _encode_system(request)
    agent = "agent" in request.options.extra.get(request.provider, {})
    encoded: dict[str, Any] = {} if agent else {"model": request.target.model}
    if instruction:
        encoded["system_instruction"] = instruction
    continues = stored_history.wants_stored_history(request, STORED_FIELDS)
    if turns and is_paused(turns[-1], request.target.server_tools, request.provider):
        encoded |= _encode_resumption(request, turns, turns[-1].raw(request.provider))
    elif continues:
        encoded |= _encode_continuation(request, turns)
    else:
        encoded["input"] = _encode_input(request, turns)
    if usable := request.fit_tools(tools):
        encoded["tools"] = request.encode_tools(usable, encode_tool)
        if (computer := request.context.native_calls.get(COMPUTER_CALL)) is not None:
            names = {tool.name for tool in usable if "native" not in (tool.provider_raw or {})}
            request.context.action_calls = ActionCalls(computer, names)
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


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a function in the flat form; a server tool goes back unchanged."""
    note = own_notes(definition, provider)
    if "native" in note:
        return dict(note["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded["parameters"] = definition.input_schema
    return apply_diff(encoded, note.get("residue"))


def _encode_resumption(request: RequestBuilder, turns: Sequence[Turn], paused: Note) -> dict[str, Any]:
    """Encode the token of a reply that stopped at Google's own limit. Google has the interaction; if it does not store
    it, it gets the same input again."""
    token = {RESUMED_BY: paused[RESUMED_BY]}
    if paused.get("id") and request.options.extra.get(request.provider, {}).get("store") is not False:
        request.losses = [loss for loss in request.losses if not loss.message_id]
        return {"previous_interaction_id": paused["id"], **token}
    asked = [index for index, turn in enumerate(turns) if turn.role is not Role.ASSISTANT]
    return {"input": _encode_input(request, turns[: asked[-1] + 1 if asked else 0]), **token}


def _encode_continuation(request: RequestBuilder, turns: Sequence[Turn]) -> dict[str, Any]:
    """Encode the steps that Google does not have, and what they continue; all steps if there is no such reply."""
    ends: list[int] = []
    steps = _encode_steps(request, turns, ends)
    stored_history.note_request(request, steps)
    stored = stored_history.find_stored_reply(turns, ends, steps, request.provider)
    if stored is None or stored.end >= len(steps) or not (interaction := stored.raw.get("id")):
        return {"input": steps or CONTINUE_TEXT}
    stored_history.drop_stored_losses(request, turns, ends, stored.end)
    return {"previous_interaction_id": interaction, "input": steps[stored.end :]}


def _encode_input(request: RequestBuilder, turns: Sequence[Turn]) -> Any:
    """Encode the steps. A request that was read as a text or as bare contents keeps that form if it has one turn."""
    if not turns:
        request.record_loss(LossKind.EMPTY_MESSAGE, "nothing is left to send: a user's turn is added", Severity.INFO)
        return CONTINUE_TEXT
    steps = _encode_steps(request, turns, [])
    if not steps:
        return CONTINUE_TEXT
    form = turn_notes(turns[0], request.provider).get("form")
    if form is None or len(turns) > 1:
        return steps
    contents = steps[0]["content"]
    if form == "contents":
        return contents
    return contents[0]["text"] if form == "text" else contents[0]


def _encode_steps(request: RequestBuilder, turns: Sequence[Turn], ends: list[int]) -> list[dict[str, Any]]:
    """Encode the steps. ``ends`` receives the number of steps after each turn."""
    steps: list[dict[str, Any]] = []
    calls: dict[str, Call] = {}
    for turn in turns:
        note = turn_notes(turn, request.provider)
        if turn.role is Role.ASSISTANT:
            steps += _encode_assistant_turn(request, turn, note, calls)
        elif turn.role is Role.TOOL:
            _encode_tool_results(request, turn, note, calls, steps)
        else:
            contents = [{"type": "text", "text": text}] if (text := turn.plain_text(request.provider)) else []
            for index in range(0 if contents else len(turn.blocks)):
                contents += _encode_content(request, turn, index, note)
            if note.get("joined") and steps and steps[-1]["type"] == "user_input":
                steps[-1]["content"] += contents
            elif contents or note:
                steps.append(apply_diff({"type": "user_input", "content": contents}, note.get("beside")))
            elif not steps or _is_output(steps[-1]):
                reason = "the user's message is empty: a word is put in its place"
                request.record_loss(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
                steps.append({"type": "user_input", "content": [{"type": "text", "text": CONTINUE_TEXT}]})
        ends.append(len(steps))
    return steps


def _encode_tool_results(
    request: RequestBuilder,
    turn: Turn,
    note: Note,
    calls: Mapping[str, Call],
    steps: list[dict[str, Any]],
) -> None:
    for index, block in enumerate(turn.blocks):
        if not isinstance(block, ToolResultBlock):
            continue
        if not note:
            request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS, "resolution", "title", "note")
        call = calls.get(block.tool_use_id) or Call("unknown")
        native = encode_tool_result(block, call, request.tool_id(block.tool_use_id))
        native = request.restore_block(turn, index, native) if note else native
        if not note.get("inside"):
            steps.append(native)
        elif note.get("joined") and steps and steps[-1]["type"] == "user_input":
            steps[-1]["content"].append(native)
        else:
            steps.append(apply_diff({"type": "user_input", "content": [native]}, note.get("beside")))


def _encode_assistant_turn(
    request: RequestBuilder, turn: Turn, note: Note, calls: dict[str, Call]
) -> list[dict[str, Any]]:
    """Encode an assistant's turn, and note its calls for their results. Neighbouring contents share one step, unless
    they were read as several."""
    steps: list[dict[str, Any]] = []
    if turn.is_simple(request.provider):
        texts = [encode_block(block) for block in turn.blocks if isinstance(block, TextBlock)]
        steps += [{"type": "model_output", "content": texts}] if texts else []
        for block in turn.blocks:
            if isinstance(block, ToolUseBlock):
                calls[block.id] = Call(block.name)
                own_step = encode_step(block, request.tool_id(block.id))
                steps += [own_step] if own_step else []
        return steps
    layout = _step_starts(turn, note)
    for index, block in enumerate(turn.blocks):
        request.record_field_losses(turn, index, "arguments")
        wire_id = None
        if isinstance(block, ToolUseBlock):
            wire_id, is_action = request.tool_id(block.id), block.id in note.get(ACTIONS_NOTE, ())
            block = restore_action(block) if is_action else block
            calls[block.id] = Call(block.name, block if is_action else None)
        own_step = encode_step(block, wire_id)
        if own_step is None and layout is not None and block.type == "provider" and layout.get(index) == "step":
            own_step = encode_block(block)
        if own_step is not None:
            steps.append(request.restore_block(turn, index, own_step) if note else own_step)
            continue
        starts_step = layout.get(index) == "first" if layout is not None else not (steps and _is_output(steps[-1]))
        if starts_step:
            steps.append({"type": "model_output", "content": []})
        steps[-1]["content"] += _encode_content(request, turn, index, note)
    if layout is not None:
        return _apply_step_notes(steps, note)
    request.record_moved_texts(turn)
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
    if note and turn.origins[index] != SYNTHETIC:
        encoded = request.restore_block(turn, index, encode_block(turn.blocks[index]))
        if "annotations" not in encoded:
            request.record_field_losses(turn, index, "citations")
        yield encoded
        return
    request.record_field_losses(turn, index, *UNSUPPORTED_FIELDS, "resolution")
    yield from map(encode_block, split_document(request, turn, index))
