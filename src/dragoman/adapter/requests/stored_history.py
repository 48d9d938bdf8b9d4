"""Continues a history that the provider stores: finds the reply after which a request only sends what is new.

Each reply to a request with the option ``server_state`` gets a note of the items before it. A later request encodes the
whole history, as always, and compares: an edited, forked or compacted history differs, and is sent whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.requests.encode_cache import STORED_NOTE, digest
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.message import Message, MessageStatus, Role


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply that the provider stores. ``end``: the items up to its last one are stored with it."""

    message: Message
    end: int

    @property
    def raw(self) -> Mapping[str, Any]:
        return self.message.metadata.provider_raw or {}


def wants_stored_history(request: RequestBuilder, named_by: Sequence[str]) -> bool:
    """Whether the option ``server_state`` is set and possible; if it is not possible, it is a loss.

    ``named_by`` are the fields of the body that name what to continue, in case ``extra`` has one.
    """
    extra = request.options.extra.get(request.provider, {})
    if (state := request.used.take("server_state")) is None:
        return False
    wanted, offered = "conversation" if isinstance(state, str) else "response", request.target.capabilities.wire
    if wanted not in (offered.get("server_state") or ()):
        request.record_option_loss("server_state", f"the endpoint is not known to store a {wanted}")
    elif any(extra.get(name) for name in named_by):
        request.record_option_loss("server_state", "extra names what to continue")
    elif extra.get("store") is False:
        request.record_option_loss("server_state", "with store: false, nothing is stored")
    else:
        return True
    return False


def note_request(request: RequestBuilder, items: Sequence[Any]) -> None:
    """Note the items of the whole history for the reply."""
    request.context.reply_note = {STORED_NOTE: {"items": len(items), "digest": _digest(items)}}


def find_stored_reply(
    turns: Sequence[Turn], ends: Sequence[int], items: Sequence[Any], provider: str
) -> StoredReply | None:
    """Return the latest stored reply that the same items precede; None if there is none.

    ``ends`` has the number of items after each turn.
    """
    later: Message | None = None
    for place in range(len(turns) - 1, -1, -1):
        message = turns[place].message
        if message is later or turns[place].role is not Role.ASSISTANT:
            continue
        later = message
        raw = message.metadata.provider_raw or {}
        is_stored = raw.get("by") == provider and raw.get("store") is not False
        if not is_stored or message.metadata.status is not MessageStatus.COMPLETE:
            continue
        if (note := raw.get(STORED_NOTE)) is None:
            return None  # what an earlier reply continued may be gone
        first = next(index for index, turn in enumerate(turns) if turn.message is message)
        start = ends[first - 1] if first else 0
        if note["items"] == start and note["digest"] == _digest(items[:start]):
            return StoredReply(message, ends[place])
    return None


def drop_stored_losses(request: RequestBuilder, turns: Sequence[Turn], ends: Sequence[int], end: int) -> None:
    """Remove the losses of messages that are not sent."""
    sent = {turn.message.id for turn, last in zip(turns, ends, strict=True) if last > end}
    unsent = {turn.message.id for turn in turns} - sent
    request.losses[:] = [loss for loss in request.losses if loss.message_id not in unsent]


def _digest(items: Sequence[Any]) -> str:
    return digest(wirejson.dumps(list(items))).hexdigest()
