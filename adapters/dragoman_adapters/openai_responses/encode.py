"""Encodes the body of a Responses request (docs/reference/wires/openai-responses.md). `encode_messages` encodes the
items."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests import schemas
from dragoman.adapter.requests.history import stored_history
from dragoman.adapter.requests.history.encode_cache import EncodedHistory
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire_diff import apply_diff
from dragoman.canonical.blocks import ProviderBlock, TextBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_responses import encode_blocks, encode_messages
from dragoman_adapters.openai_responses.client_tools import group_tools
from dragoman_adapters.openai_responses.options import encode_options

_CONTINUE = "Continue."
STORED_FIELDS = ("previous_response_id", "conversation")
"""The fields that name what the provider stores."""


def has_stored_history(messages: Sequence[Message], extra: Mapping[str, Any]) -> bool:
    """Whether the provider stores earlier turns, so that a result's call may be missing from the history."""
    if extra and any(extra.get(name) for name in STORED_FIELDS):
        return True
    for message in messages:  # a plain loop, because it reads the whole history for each request
        for block in message.content:
            if type(block) is ProviderBlock and block.kind == "item_reference":
                return True
    return False


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
    usable = schemas.fit_tool_schemas(request, request.usable_tools(tools))
    encoded |= encode_options(request, tools=bool(usable))
    if usable:
        encoded["tools"] = group_tools(
            (request.finish_function(definition, encode_tool(definition, request.provider)),
             _namespace(definition, request.provider))
            for definition in usable
        )  # fmt: skip
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
    if (
        stored is not None
        and stored.end < len(items)
        and conversation in (None, conversation_of(stored.message))
        and (response := stored.raw.get("id"))
    ):
        stored_history.drop_stored_losses(request, turns, ends, stored.end)
        continued = {"conversation": conversation} if conversation else {"previous_response_id": response}
        return {**continued, "input": EncodedHistory((), items[stored.end :])}
    if conversation is None:
        return {"input": EncodedHistory((), items)}
    if any(conversation_of(turn.message) == conversation for turn in turns):
        request.record_option_loss("server_state", "the history is not that of the conversation: all of it is sent")
        return {"input": EncodedHistory((), items)}
    return {"conversation": conversation, "input": EncodedHistory((), items)}


def conversation_of(message: Message) -> str | None:
    """Return the id of the provider's conversation that a reply is part of."""
    conversation = (message.metadata.provider_raw or {}).get("conversation")
    return conversation.get("id") if isinstance(conversation, Mapping) else None


def _encode_messages(
    request: RequestBuilder, turns: Sequence[Turn], ends: list[int] | None = None
) -> list[dict[str, Any]]:
    """Encode the items of turns. ``ends`` receives the number of items after each turn."""
    if any(turn.message.channel for turn in turns):
        for role, side in groupby(turns, key=lambda turn: turn.role):
            if role is Role.ASSISTANT:
                _record_channel_losses(request, list(side))
    items: list[dict[str, Any]] = []
    for turn in turns:
        items += encode_messages.encode_turn(request, turn)
        if ends is not None:
            ends.append(len(items))
    return items


def _record_channel_losses(request: RequestBuilder, turns: Sequence[Turn]) -> None:
    """Record the channels of consecutive assistant messages as losses if they differ or if no text can carry them."""
    if not any(turn.message.channel for turn in turns):
        return
    phases = {encode_messages.PHASES.get(turn.message.channel) if turn.message.channel else None for turn in turns}
    has_text = any(encode_blocks.is_part(block) for turn in turns for block in turn.blocks)
    if len(phases) > 1 or (phases != {None} and not has_text):
        for turn in turns:
            request.record_message_loss(
                turn, LossKind.CHANNEL, "the channel is not told from that of what stands beside it"
            )


def _namespace(definition: ToolDefinition, provider: str) -> Mapping[str, Any] | None:
    raw = definition.provider_raw or {}
    return raw.get("namespace") if raw.get("by") == provider else None


def encode_tool(definition: ToolDefinition, provider: str) -> dict[str, Any]:
    """Encode a tool; a server tool goes back unchanged.

    ``strict`` is always sent: without it, the API tries the strict form, which makes optional arguments required.
    """
    raw = definition.provider_raw or {}
    own = raw if raw.get("by") == provider else {}
    if "native" in own:
        return dict(own["native"])
    encoded: dict[str, Any] = {"type": "function", "name": definition.name}
    if definition.description:
        encoded["description"] = definition.description
    encoded |= {"parameters": definition.input_schema, "strict": False}
    return apply_diff(encoded, own.get("residue"))
