"""Encodes the body of a chat request (docs/reference/wires/openai-chat.md).

Blocks are encoded as pieces of a message. A piece is a field of a message and one value of it: a content part, a tool
call, the refusal, the reasoning. The note of a piece, kept in provider_raw, is what it holds beyond our encoding of its
block. Besides ``set`` and ``drop``, which `apply_diff` applies, it may have the keys ``field`` if the block belongs in
another field than usual, ``kind`` if it has another type, and ``inner`` for the difference of the object under the
piece's type name. The note of a tool result has those of its parts under ``parts``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    VideoBlock,
)
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat import cache_marks, media, options, thinking_details
from dragoman_adapters.openai_chat.dialect import Dialect

IMAGES_FIELD = "images"
"""The field in which routers such as OpenRouter return generated images; OpenAI's own models return none."""
LIST_FIELDS = frozenset({"tool_calls", thinking_details.DETAILS_FIELD, IMAGES_FIELD})
"""Fields of a message that hold a list, with a piece for each item."""

_ROLES = {role: role.value for role in Role}
_TEXT_FIELDS = {"type", "text"}

Piece = tuple[str, Any]
PiecesByField = dict[str, list[Any]]
"""The encoded pieces of a message's blocks, by the message's field."""
Note = Mapping[str, Any]
ToolId = Callable[[str], str]


def encode_block(content: ContentBlock, note: Note, tool_id: ToolId, dialect: Dialect) -> Piece:
    """Encode a block and apply its note."""
    value: Any
    if isinstance(content, ToolUseBlock):
        as_received = content.raw_input if dialect.free_arguments else None
        function = {"name": content.name, "arguments": as_received or wirejson.dumps_text(content.input)}
        if note.get("field") == "function_call":
            field, value = "function_call", function
        elif note.get("kind") == "custom":
            custom = {"name": content.name, "input": content.raw_input or content.input.get("input", "")}
            field, value = "tool_calls", {"id": tool_id(content.id), "type": "custom", "custom": custom}
        else:
            field, value = "tool_calls", {"id": tool_id(content.id), "type": "function", "function": function}
    elif isinstance(content, TextBlock):
        kind = note.get("kind", "text")
        if note.get("field") == "refusal":
            field, value = "refusal", content.text
        else:
            field, value = "content", {"type": kind, kind: content.text}
    else:
        field, value = _encode_other(content, note, dialect)
    if note and isinstance(value, dict):
        kind = value.get("type")
        if "inner" in note and kind in value:
            value = {**value, kind: apply_diff(value[kind], note["inner"])}
        value = apply_diff(value, note)
    return field, value


def _encode_other(content: ContentBlock, note: Note, dialect: Dialect) -> Piece:
    """Encode a block that is neither a text nor a call."""
    match content:
        case RedactedThinkingBlock():
            return thinking_details.DETAILS_FIELD, thinking_details.encode_detail(content, note)
        case ThinkingBlock():
            details = bool(content.signature) and dialect.reasoning_details
            separate_field = thinking_details.DETAILS_FIELD if details else dialect.reasoning_fields[0]
            field = note.get("field") or ("content" if dialect.thinking_parts else separate_field)
            if field == thinking_details.DETAILS_FIELD:
                return field, thinking_details.encode_detail(content, note)
            if field != "content":
                return field, content.text
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": content.text}]}
            return "content", thought | ({"signature": content.signature} if content.signature else {})
        case ImageBlock() if note.get("field") == IMAGES_FIELD:
            return IMAGES_FIELD, media.encode_media(content, dialect)
        case ImageBlock() | VideoBlock() | AudioBlock() | DocumentBlock():
            return "content", media.encode_media(content, dialect)
        case ProviderBlock():
            return note.get("field", "content"), dict(content.data)
        case _:
            raise TypeError(f"the projection let a {content.type} block through")


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition], dialect: Dialect) -> dict[str, Any]:
    """Encode the whole body."""
    usable = request.fit_tools(tools)
    encoded: dict[str, Any] = {"model": request.target.model}
    encoded |= options.encode_options(request, dialect, tools=bool(usable))
    history = request.encode_history(request.turns, partial(encode_messages, request, dialect))
    if history.new_items and history.new_items[-1]["role"] == "assistant":
        history.new_items[-1] |= dialect.prefill
    cache_marks.mark_end(request, history.new_items)
    encoded["messages"] = history
    natives = request.encode_tools(usable, encode_tool)
    if usable and request.tools is None:  # all are plain, as most are: without notes
        encoded["tools"] = natives
        return encoded
    for definition, native in zip(usable, natives, strict=True):
        legacy = own_notes(definition, request.provider).get("legacy")
        encoded.setdefault("functions" if legacy else "tools", []).append(native)
    return encoded


def encode_messages(request: RequestBuilder, dialect: Dialect, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Encode one message for each turn, and one for each tool result.

    ``turns`` may be a part of the history. It begins where the side changes (`begins_stretch`), so a result is in the
    same part as its call, and no message is merged with one of another part.
    """
    encoded: list[dict[str, Any]] = []
    tool_names: dict[str, str] = {}  # by call
    provider, marks = request.provider, request.options.prompt_cache
    names_tools, alternates = dialect.tool_name, dialect.alternating
    for turn in turns:
        if turn.role is Role.TOOL:
            encoded += _encode_tool_results(request, turn, tool_names, dialect)
            continue
        if names_tools and turn.text is None:
            tool_names |= {block.id: block.name for block in turn.blocks if isinstance(block, ToolUseBlock)}
        if (text := turn.plain_text(provider)) is not None:
            message_object: dict[str, Any] = {"role": _ROLES[turn.role], "content": text}
        else:
            message_object = _encode_turn(request, turn, dialect)
        if marks:
            message_object = cache_marks.mark_instructions(request, turn, message_object)
        if alternates and encoded and encoded[-1]["role"] == message_object["role"]:
            reason = "neighbouring messages of one role are sent as one"
            request.record_loss(LossKind.FLATTENED, reason, Severity.INFO)
            # Only one of them has calls: the projection has joined the assistant's message after one with calls.
            parts = _content_parts(encoded[-1]) + _content_parts(message_object)
            encoded[-1] = {**encoded[-1], **message_object, "content": parts or ""}
        else:
            encoded.append(message_object)
    return encoded


def _content_parts(message: Mapping[str, Any]) -> list[Any]:
    content = message["content"] or []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _encode_turn(request: RequestBuilder, turn: Turn, dialect: Dialect) -> dict[str, Any]:
    if turn.is_simple(request.provider):
        return _encode_simple(request, turn, dialect)
    raw = turn.raw_in_role(request.provider)
    marked = cache_marks.find_marked(request, turn)
    blocks: list[tuple[ContentBlock, Note]] = []
    for index, (block, note) in enumerate(_blocks_with_notes(turn, raw)):
        if not _check_block(request, turn, index, note, dialect, is_own=bool(raw)):
            continue
        if isinstance(block, ToolUseBlock) and block.raw_input and not (raw and dialect.free_arguments):
            block = block.model_copy(update={"raw_input": None})
        blocks.append((block, cache_marks.with_mark(request, note) if index in marked else note))
    request.record_moved_texts(turn, thinking_first=not dialect.thinking_parts)
    pieces = encode_pieces(blocks, request.tool_id, dialect)
    # Such an endpoint refuses calls without reasoning: docs/reference/wires/openai-chat.md#thinking.
    if dialect.reasoning_required and "tool_calls" in pieces and options.may_reason(request):
        pieces.setdefault(dialect.reasoning_fields[0], [""])
    encoded = encode_message(_ROLES[turn.role], pieces, raw, dialect)
    # An endpoint marks either the part, by its note above, or the whole message.
    return cache_marks.mark_message(request, encoded) if marked else encoded


def _encode_simple(request: RequestBuilder, turn: Turn, dialect: Dialect) -> dict[str, Any]:
    """Encode a simple turn: texts, and calls after them."""
    role = _ROLES[turn.role]
    texts: list[str] = []
    calls: list[dict[str, Any]] = []
    for block in turn.blocks:
        if type(block) is TextBlock:
            texts.append(block.text)
        elif type(block) is ToolUseBlock:
            function = {"name": block.name, "arguments": wirejson.dumps_text(block.input)}
            calls.append({"id": request.tool_id(block.id), "type": "function", "function": function})
    if len(texts) > 1 and role in dialect.part_roles:
        content: Any = [{"type": "text", "text": text} for text in texts]
    else:
        content = "\n".join(texts) if texts or not calls else None
    encoded = {"role": role, "content": content}
    if calls:
        encoded["tool_calls"] = calls
        if dialect.reasoning_required and options.may_reason(request):
            encoded[dialect.reasoning_fields[0]] = ""
    return encoded


def _blocks_with_notes(turn: Turn, raw: Note) -> Iterator[tuple[ContentBlock, Note]]:
    """Yield the blocks of a turn with their notes; a block that the projection made or changed has none."""
    notes = raw.get("blocks", {})
    for block, origin in turn.iter_blocks():
        yield block, notes.get(str(origin), {})


def _check_block(
    request: RequestBuilder, turn: Turn, index: int, note: Note, dialect: Dialect, *, is_own: bool
) -> bool:
    """Record what the wire loses of a block, and return whether the block is sent.

    ``is_own``: the message was read from this wire, and its notes apply.
    """
    if turn.portable:
        return True
    if not is_own:
        request.record_field_losses(turn, index, *_unsupported_fields(turn.blocks[index], dialect))
    match turn.blocks[index]:
        case TextBlock() as text if not _has_references(text, dialect):
            request.record_field_losses(turn, index, "citations")
        case ToolUseBlock() as call if call.raw_input is not None:
            # The endpoint takes its own model's text back; ``inner`` restores the arguments that it sent.
            is_restored = "inner" in note or (call.raw_input and is_own and dialect.free_arguments)
            if not is_restored:
                reason = "arguments that are not a JSON object: left out"
                request.record_block_loss(turn, index, LossKind.INVALID_INPUT, reason)
        case RedactedThinkingBlock() if not dialect.reasoning_details:
            request.record_block_loss(
                turn, index, LossKind.THINKING, "the endpoint takes no sealed reasoning: left out"
            )
            return False
        case ThinkingBlock() | RedactedThinkingBlock() if dialect.reasoning_replay != "always":
            calls = any(isinstance(other, ToolUseBlock) for other in turn.blocks)
            if dialect.reasoning_replay == "never" or not calls:
                why = "the endpoint reads no earlier reasoning here: left out"
                request.record_block_loss(turn, index, LossKind.THINKING, why, Severity.INFO)
                return False
        case _:
            pass
    return True


def _unsupported_fields(block: ContentBlock, dialect: Dialect) -> tuple[BlockField, ...]:
    """Fields of other providers' blocks that the wire does not support."""
    found: tuple[BlockField, ...] = ("note", "link_types", "kept_titles", "text_documents")
    if not (dialect.reasoning_details or dialect.thinking_parts):
        found = (*found, "signatures")
    if isinstance(block, AudioBlock) and dialect.media_as_text:
        found = (*found, "types")
    if isinstance(block, ToolResultBlock) and "tool" not in dialect.part_roles:
        found = (*found, "text_boundaries")
    return found if dialect.media_as_text else (*found, "names", "link_names")


def _has_references(text: TextBlock, dialect: Dialect) -> bool:
    """Whether all citations of a text are parts after it."""
    return dialect.references and all(source.kind == "reference" and source.data for source in text.citations)


def encode_pieces(blocks: Sequence[tuple[ContentBlock, Note]], tool_id: ToolId, dialect: Dialect) -> PiecesByField:
    """Encode blocks with their notes as pieces by field."""
    pieces: PiecesByField = {}
    for block, note in blocks:
        field, value = encode_block(block, note, tool_id, dialect)
        if field in pieces:
            pieces[field].append(value)
        else:
            pieces[field] = [value]
        if isinstance(block, TextBlock) and block.citations and _has_references(block, dialect):
            pieces[field] += [dict(source.data or {}) for source in block.citations]
    return pieces


def encode_message(role: str, pieces: PiecesByField, raw: Note, dialect: Dialect) -> dict[str, Any]:
    """Encode a message. Fields noted in ``raw`` are restored if no block covers them."""
    encoded: dict[str, Any] = {"role": role, "content": _encode_content(role, pieces, raw, dialect)}
    for field, values in pieces.items():
        if field in LIST_FIELDS:
            encoded[field] = values
        elif field != "content":  # texts of one field are joined; of objects, the last one counts
            encoded[field] = "".join(values) if isinstance(values[0], str) else values[-1]
    if residue := raw.get("residue"):
        encoded = apply_diff(encoded, _drop_covered(residue, pieces, dialect))
    return encoded


def _encode_content(role: str, pieces: PiecesByField, raw: Note, dialect: Dialect) -> Any:
    """Encode plain texts as one string, joined by line feeds, and other content as a list.

    Several texts are a list if the role takes parts, and so is what the provider's own message had as a list. Without
    content, the value is null if there is a call or a refusal instead.
    """
    values = pieces.get("content", [])
    if not values:
        return "" if pieces.keys().isdisjoint(("tool_calls", "function_call", "refusal")) else None
    if (raw and raw.get("list")) or (len(values) > 1 and role in dialect.part_roles):
        return values
    if any(value.keys() != _TEXT_FIELDS for value in values):
        return values
    return "\n".join([value["text"] for value in values])


def _drop_covered(residue: Note, pieces: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return a difference without fields that blocks cover, and without reasoning if none is sent."""
    reasoning = {*dialect.reasoning_fields, thinking_details.DETAILS_FIELD}
    unsent = reasoning if reasoning.isdisjoint(pieces) else set()
    return {
        "set": {
            field: value
            for field, value in residue.get("set", {}).items()
            if field not in pieces and not (value and field in unsent)  # one that was empty stays empty
        },
        "drop": [field for field in residue.get("drop", ()) if field not in pieces],
    }


def _encode_tool_results(
    request: RequestBuilder, turn: Turn, tool_names: Mapping[str, str], dialect: Dialect
) -> list[dict[str, Any]]:
    encoded: list[dict[str, Any]] = []
    if turn.is_simple(request.provider) and not dialect.tool_name:  # each result is one text
        for block in turn.blocks:
            if type(block) is ToolResultBlock and type(text := block.content[0]) is TextBlock:
                answered = request.tool_id(block.tool_use_id)
                encoded.append({"role": "tool", "tool_call_id": answered, "content": text.text})
        return encoded
    raw = turn.raw_in_role(request.provider)
    is_own = bool(raw)
    had_name = any("name" in note.get("set", {}) for note in raw.get("blocks", {}).values())
    marked = cache_marks.find_marked(request, turn)
    for index, (block, note) in enumerate(_blocks_with_notes(turn, raw)):
        if not isinstance(block, ToolResultBlock):
            continue
        if not turn.portable:
            request.record_field_losses(turn, index, "errors", *(() if is_own else _unsupported_fields(block, dialect)))
        answer = encode_tool_result(block, note, request.tool_id, dialect)
        # A result that the projection changed has lost its note, which may have had the tool's name.
        needs_name = not is_own or (turn.origins[index] == SYNTHETIC and had_name)
        if dialect.tool_name and block.tool_use_id in tool_names and needs_name:
            answer["name"] = tool_names[block.tool_use_id]
        encoded.append(cache_marks.mark_last_part(request, answer) if index in marked else answer)
    return encoded


def encode_tool_result(block: ToolResultBlock, note: Note, tool_id: ToolId, dialect: Dialect) -> dict[str, Any]:
    """Encode a tool result. Texts are joined by line feeds, unless the provider's own was a list."""
    notes = note.get("parts", {})
    noted_parts = [(part, notes.get(str(index), {})) for index, part in enumerate(block.content)]
    pieces = encode_pieces(noted_parts, tool_id, dialect)
    encoded: dict[str, Any] = {"role": "tool", "tool_call_id": tool_id(block.tool_use_id)}
    encoded["content"] = _encode_content("tool", pieces, note, dialect)
    return apply_diff(encoded, _drop_covered(note, pieces, dialect)) if note else encoded


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a tool, or a function of the older form; a tool that is not a function goes back unchanged."""
    function: dict[str, Any] = {"name": definition.name}
    if definition.description:
        function["description"] = definition.description
    function["parameters"] = definition.input_schema
    own = own_notes(definition, provider)
    if not own:  # most tools have no notes
        return {"type": "function", "function": function}
    if "native" in own:
        return dict(own["native"])
    note = own.get("residue", {})
    if own.get("legacy"):
        return apply_diff(function, note)
    return apply_diff({"type": "function", "function": apply_diff(function, note.get("inner"))}, note)
