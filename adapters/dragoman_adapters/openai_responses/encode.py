"""Encodes the body of a Responses request (docs/reference/wires/openai-responses.md): turns become items, which are
messages, reasoning, calls and outputs. `encode_blocks` encodes the content parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.notes import own_notes
from dragoman.adapter.requests import stored_history
from dragoman.adapter.requests.block_fields import BlockField
from dragoman.adapter.requests.encode_cache import EncodedHistory
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import (
    DocumentBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Channel, Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_responses import encode_blocks, native_calls
from dragoman_adapters.openai_responses.client_tools import group_tools
from dragoman_adapters.openai_responses.options import encode_options

_ROLES = {role: role.value for role in Role}
PHASES = {Channel.COMMENTARY: "commentary", Channel.FINAL: "final_answer"}

SEPARATOR = "\n\n"
"""The separator of the parts of a reasoning item in one text."""


_FOREIGN_NOTE: Mapping[str, Any] = {"string": True}
"""The note for messages of other wires. Output parts would need the id of an item, so each text of the assistant is a
message whose content is a string.
"""

_UNSUPPORTED_FIELDS: tuple[BlockField, ...] = ("link_types", "names", "text_documents")
"""Fields of other providers' blocks that the wire does not support."""

_OWN_ITEMS = (Role.ASSISTANT, Role.TOOL)
"""The roles each of whose blocks is an item, in messages of other wires."""

_NATIVE_CALLS = "native_calls"
"""The key of the encoder's state for calls that are items of their own, by id."""

ToolId = Callable[[str], str]
Note = Mapping[str, Any]
"""What `MessageAccumulator` noted about a native item or part."""


@dataclass(slots=True)
class _MessageItem:
    """A message item whose parts are being collected."""

    note: Note
    native_parts: list[dict[str, Any]] = field(default_factory=list)


def _encode_turn(request: RequestBuilder, turn: Turn) -> list[dict[str, Any]]:
    """Encode the items of one turn. Blocks that were read from one message item become one item again."""
    has_own_items = bool(turn.blocks) and turn.role in _OWN_ITEMS and _NATIVE_CALLS not in request.encoder_state
    if has_own_items and turn.is_simple(request.provider):
        return _encode_simple(request, turn)
    raw = turn.raw(request.provider)
    starts, notes = raw.get("items", {}), raw.get("blocks", {})
    items: list[tuple[int, dict[str, Any] | _MessageItem]] = []
    message: _MessageItem | None = None
    for index, block in enumerate(turn.blocks):
        origin = str(turn.origins[index])
        if encode_blocks.is_part(block):
            if message is None or origin in starts or (turn.role is Role.ASSISTANT and not raw):
                message = _MessageItem(starts.get(origin, {} if raw else _FOREIGN_NOTE))
                items.append((index, message))
            message.native_parts += _encode_parts(request, turn, index, notes.get(origin, {}))
            continue
        message = None
        items += [(index, item) for item in _encode_item(request, turn, index, notes.get(origin, {}))]
    if not turn.blocks and ("0" in starts or turn.role is not Role.TOOL):
        items.append((-1, _MessageItem(starts.get("0", _FOREIGN_NOTE))))
    if turn.role is Role.ASSISTANT:
        items = _drop_trailing_reasoning(request, turn, items)
    return [
        encode_message(turn.role, turn.message.channel, item.native_parts, item.note)
        if isinstance(item, _MessageItem)
        else item
        for _, item in items
    ]


def _encode_simple(request: RequestBuilder, turn: Turn) -> list[dict[str, Any]]:
    """Encode a simple turn: each block is an item of its own."""
    items: list[dict[str, Any]] = []
    for block in turn.blocks:
        if type(block) is TextBlock:
            items.append(_encode_message_item(turn.role, None, block.text))
        elif type(block) is ToolUseBlock:
            items.append(encode_tool_call(block, request.tool_id))
        elif type(block) is ToolResultBlock and type(text := block.content[0]) is TextBlock:
            answered = request.tool_id(block.tool_use_id)
            items.append({"type": "function_call_output", "call_id": answered, "output": text.text})
    return items


def _encode_parts(request: RequestBuilder, turn: Turn, index: int, note: Note) -> list[dict[str, Any]]:
    block = turn.blocks[index]
    side = "output" if turn.role is Role.ASSISTANT else "input"
    is_own = bool(turn.raw(request.provider))
    if isinstance(block, TextBlock) and block.citations:
        # Texts of another provider are sent as strings, without their citations.
        kept = tuple(cited for cited in block.citations if is_own and cited.kind in encode_blocks.ANNOTATIONS)
        if kept != block.citations:
            request.record_block_loss(turn, index, LossKind.CITATIONS, "citations of another provider: left out")
            block = block.model_copy(update={"citations": kept})
    if not is_own:
        request.record_field_losses(turn, index, *_UNSUPPORTED_FIELDS)
    encoded = [request.restore_block(turn, index, encode_blocks.encode_block(block, side, note))]
    if isinstance(block, DocumentBlock) and block.context:
        reason = "the note that goes with a document stands in front of it as text"
        request.record_block_loss(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
        encoded.insert(0, {"type": "input_text", "text": block.context})
    return encoded


def _encode_item(request: RequestBuilder, turn: Turn, index: int, note: Note) -> list[dict[str, Any]]:
    """Encode a block as an item of its own; none if it cannot be sent."""
    match turn.blocks[index]:
        case ThinkingBlock() | RedactedThinkingBlock() as block:
            return _encode_reasoning(request, turn, index, encode_thinking(block, note))
        case ToolUseBlock() as block:
            item = request.restore_block(turn, index, encode_tool_call(block, request.tool_id))
            if block.raw_input is not None and item["arguments"] != block.raw_input:
                request.record_block_loss(
                    turn, index, LossKind.INVALID_INPUT, "arguments that are not a JSON object: left out"
                )
            if item["type"] != "function_call":
                request.encoder_state.setdefault(_NATIVE_CALLS, {})[block.id] = item
            return [item]
        case ToolResultBlock() as block if (
            call := request.encoder_state.get(_NATIVE_CALLS, {}).get(block.tool_use_id)
        ) and "type" not in note.get("set", {}):
            if call["type"] == "computer_call":
                return native_calls.computer_items(call, request.tool_id(block.tool_use_id), block)
            return [native_calls.result_item(call, request.tool_id(block.tool_use_id), block)]
        case ToolResultBlock() as block:
            request.record_field_losses(
                turn, index, "errors", *(() if turn.raw(request.provider) else ("note", *_UNSUPPORTED_FIELDS))
            )
            return [request.restore_block(turn, index, encode_tool_result(block, request.tool_id, note))]
        case ProviderBlock() as block:
            return [block.data]
        case block:
            raise TypeError(f"the projection let a {block.type} block through")


def _encode_reasoning(request: RequestBuilder, turn: Turn, index: int, encoded: dict[str, Any]) -> list[dict[str, Any]]:
    item = request.restore_block(turn, index, encoded)
    stored = "id" in item and turn.raw(request.provider).get("store") is not False
    if item.get("encrypted_content") or item.get("content") or stored:
        if isinstance(turn.blocks[index], RedactedThinkingBlock):
            reason = "sealed thinking is sent as reasoning without a summary"
            request.record_block_loss(turn, index, LossKind.THINKING, reason, Severity.INFO)
        return [item]
    reason = "reasoning that neither the item itself nor the provider's store holds: left out"
    request.record_block_loss(turn, index, LossKind.THINKING, reason)
    return []


def _drop_trailing_reasoning(
    request: RequestBuilder, turn: Turn, items: list[tuple[int, dict[str, Any] | _MessageItem]]
) -> list[tuple[int, dict[str, Any] | _MessageItem]]:
    """Leave out reasoning at the end, and ids of items whose reasoning is missing.

    Reasoning must be followed by the item that it led to, and an item with an id requires its reasoning. Without ids,
    items are plain content, and need no reasoning.
    """
    while items and _is_reasoning(items[-1][1]):
        index, _ = items.pop()
        request.record_block_loss(turn, index, LossKind.THINKING, "reasoning without an item that follows it: left out")
    sent = {turn.origins[index] for index, item in items if _is_reasoning(item)}
    thoughts = [
        origin
        for origin, block in enumerate(turn.message.content)
        if isinstance(block, (ThinkingBlock, RedactedThinkingBlock))
    ]
    if sent.issuperset(thoughts):
        return items
    return [(index, _without_id(item)) for index, item in items]


def _is_reasoning(item: dict[str, Any] | _MessageItem) -> bool:
    return not isinstance(item, _MessageItem) and item.get("type") == "reasoning"


def _without_id(item: dict[str, Any] | _MessageItem) -> dict[str, Any] | _MessageItem:
    if isinstance(item, _MessageItem):
        extra = {key: value for key, value in item.note.get("set", {}).items() if key != "id"}
        return _MessageItem({**item.note, "set": extra}, item.native_parts)
    if item.get("type") == "function_call":
        return {key: value for key, value in item.items() if key != "id"}
    return item


def encode_message(role: Role, channel: Channel | None, content: list[dict[str, Any]], note: Note) -> dict[str, Any]:
    """Encode a message item. The content is a string if it is one plain text and not the assistant's."""
    text = content[0]["text"] if len(content) == 1 and content[0].keys() == {"type", "text"} else None
    text = "" if not content else text
    as_string = note.get("string", role is not Role.ASSISTANT)
    return apply_diff(_encode_message_item(role, channel, text if as_string and text is not None else content), note)


def _encode_message_item(role: Role, channel: Channel | None, content: str | list[dict[str, Any]]) -> dict[str, Any]:
    if role is not Role.ASSISTANT:
        return {"role": _ROLES[role], "content": content}
    encoded: dict[str, Any] = {"type": "message", "role": "assistant", "content": content}
    if channel in PHASES:
        encoded["phase"] = PHASES[channel]
    return encoded


def encode_thinking(block: ThinkingBlock | RedactedThinkingBlock, note: Note) -> dict[str, Any]:
    """Encode a reasoning item. ``note`` names the field of the text and the lengths of its parts."""
    if isinstance(block, RedactedThinkingBlock):
        return {"type": "reasoning", "summary": [], "encrypted_content": block.data}
    texts = _split_text(block.text, note.get("lengths", ()))
    encoded: dict[str, Any] = {"type": "reasoning", "summary": []}
    if note.get("field") == "content":
        encoded["content"] = [{"type": "reasoning_text", "text": text} for text in texts]
    else:
        encoded["summary"] = [{"type": "summary_text", "text": text} for text in texts]
    if block.signature is not None:
        encoded["encrypted_content"] = block.signature
    return encoded


def _split_text(text: str, lengths: tuple[int, ...]) -> list[str]:
    """Split a text into the parts that it was joined from; one part if the lengths are not those of this text."""
    if sum(lengths) + len(SEPARATOR) * (len(lengths) - 1) != len(text):
        return [text] if text else []
    pieces: list[str] = []
    start = 0
    for length in lengths:
        pieces.append(text[start : start + length])
        start += length + len(SEPARATOR)
    return pieces


def encode_tool_call(block: ToolUseBlock, tool_id: ToolId) -> dict[str, Any]:
    """Encode a function call; its arguments are JSON text."""
    arguments = wirejson.dumps_text(block.input)
    return {"type": "function_call", "call_id": tool_id(block.id), "name": block.name, "arguments": arguments}


def encode_tool_result(block: ToolResultBlock, tool_id: ToolId, note: Note) -> dict[str, Any]:
    """Encode the output of a function: a string if it is one plain text, else parts. The wire has no error flag."""
    answer: Any
    notes = note.get("parts", {})
    content = [
        apply_diff(encode_blocks.encode_block(part, "input", part_note), part_note)
        for part, part_note in ((part, notes.get(str(index), {})) for index, part in enumerate(block.content))
    ]
    is_plain = len(content) == 1 and content[0].keys() == {"type", "text"}
    answer = content
    if not note.get("list") and (is_plain or not content):
        answer = content[0]["text"] if content else ""
    return {"type": "function_call_output", "call_id": tool_id(block.tool_use_id), "output": answer}


_CONTINUE = "Continue."
STORED_FIELDS = ("previous_response_id", "conversation")
"""The fields that name what the provider stores."""


def has_stored_history(extra: Mapping[str, Any]) -> bool:
    """Whether the provider stores earlier turns, so that a result's call may be missing from the history."""
    return any(extra.get(name) for name in STORED_FIELDS)


def refers_to_items(messages: Sequence[Message]) -> bool:
    """Whether messages have references to items that the provider stores."""
    return any(
        type(block) is ProviderBlock and block.kind == "item_reference"
        for message in messages
        for block in message.content
    )


def encode_body(request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
    """Encode the whole body."""
    encoded: dict[str, Any] = {"model": request.target.model}
    turns = request.turns
    if instructions := _instructions_text(turns, request.provider):
        encoded["instructions"] = instructions
        if not turns[0].raw(request.provider):
            request.record_field_losses(turns[0], 0, "citations")
        turns = turns[1:]
    if stored_history.wants_stored_history(request, STORED_FIELDS):
        encoded |= _encode_continuation(request, turns)
    elif turns:
        encoded["input"] = _encode_input(request, turns)
    usable = request.fit_tools(tools)
    encoded |= encode_options(request, tools=bool(usable))
    if usable:
        encoded["tools"] = natives = request.encode_tools(usable, encode_tool)
        if request.tools is not None:  # most tools have no notes
            namespaces = [own_notes(definition, request.provider).get("namespace") for definition in usable]
            encoded["tools"] = group_tools(zip(natives, namespaces, strict=True))
    return encoded


def _instructions_text(turns: Sequence[Turn], provider: str) -> str | None:
    """Return the text for ``instructions``, or None if the first turn is an item.

    The text is that of a first system message which is one text, and which was read from ``instructions`` or from
    another wire. Instructions are not part of the history that the provider stores: a continued conversation sends them
    each time, while an item would be added each time. Later system messages are items, because adding one must not
    change how the first is sent. A lone system message is an item as well, because a request needs input.
    """
    match turns:
        case [Turn(role=Role.SYSTEM, blocks=(TextBlock(text=text),)) as first, *others]:
            raw = first.raw(provider)
            return text if raw.get("instructions") or (others and not raw) else None
        case _:
            return None


def _encode_input(request: RequestBuilder, turns: Sequence[Turn]) -> str | EncodedHistory:
    """Encode the items, or a string if the request was read with nothing else."""
    match turns:
        case [Turn(blocks=(TextBlock(text=text),)) as only] if only.raw(request.provider).get("string"):
            return text
        case _:
            history = request.encode_history(turns, partial(_encode_messages, request))
            if not history:
                reason = "nothing is left to send: a user's turn is added"
                request.record_loss(LossKind.EMPTY_MESSAGE, reason, Severity.INFO)
                history.new_items.append({"role": "user", "content": _CONTINUE})
            return history


def _encode_continuation(request: RequestBuilder, turns: Sequence[Turn]) -> dict[str, Any]:
    """Encode the items that the provider does not have, and what they continue; all items if there is no such reply."""
    ends: list[int] = []
    items = _encode_messages(request, turns, ends)
    stored_history.note_request(request, items)
    state = request.options.server_state
    conversation = state if isinstance(state, str) else None
    stored = stored_history.find_stored_reply(turns, ends, items, request.provider)
    continued: dict[str, Any] = {}
    first = 0
    if (
        stored is not None
        and stored.end < len(items)
        and conversation in (None, conversation_of(stored.message))
        and (response := stored.raw.get("id"))
    ):
        first = stored.end
        stored_history.drop_stored_losses(request, turns, ends, first)
        continued = {"conversation": conversation} if conversation else {"previous_response_id": response}
    elif any(conversation is not None and conversation_of(turn.message) == conversation for turn in turns):
        request.record_option_loss("server_state", "the history is not that of the conversation: all of it is sent")
    elif conversation is not None:
        continued = {"conversation": conversation}
    return {**continued, "input": EncodedHistory((), items[first:])}


def conversation_of(message: Message) -> str | None:
    """Return the id of the provider's conversation that a reply is part of."""
    conversation = (message.metadata.provider_raw or {}).get("conversation")
    return conversation.get("id") if isinstance(conversation, Mapping) else None


def _encode_messages(
    request: RequestBuilder, turns: Sequence[Turn], ends: list[int] | None = None
) -> list[dict[str, Any]]:
    """Encode the items of turns. ``ends`` receives the number of items after each turn."""
    if not request.usual and any(turn.message.channel for turn in turns):
        for role, side in groupby(turns, key=lambda turn: turn.role):
            if role is Role.ASSISTANT:
                _record_channel_losses(request, list(side))
    items: list[dict[str, Any]] = []
    provider = request.provider
    for turn in turns:
        if (text := turn.plain_text(provider)) is not None:
            items.append(_encode_message_item(turn.role, None, text))
        else:
            items += _encode_turn(request, turn)
        if ends is not None:
            ends.append(len(items))
    return items


def _record_channel_losses(request: RequestBuilder, turns: Sequence[Turn]) -> None:
    """Record the channels of consecutive assistant messages as losses if they differ or if no text can carry them."""
    phases = {PHASES.get(turn.message.channel) if turn.message.channel else None for turn in turns}
    has_text = any(encode_blocks.is_part(block) for turn in turns for block in turn.blocks)
    if len(phases) > 1 or (phases != {None} and not has_text):
        for turn in turns:
            request.record_message_loss(
                turn, LossKind.CHANNEL, "the channel is not told from that of what stands beside it"
            )


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a tool; a server tool goes back unchanged.

    ``strict`` is always sent: without it, the API tries the strict form, which makes optional arguments required.
    """
    own = own_notes(definition, provider)
    if "native" in own:
        return dict(own["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded |= {"parameters": definition.input_schema, "strict": False}
    return apply_diff(encoded, own.get("residue")) if own else encoded  # most tools have no notes
