"""Threads: a conversation that Anthropic holds for five minutes, so that a request sends only what is new
(platform.claude.com/docs/en/build-with-claude/message-threads).

The whole request is encoded, as without the option, and its reply gets a note about it. `shorten` then removes what the
thread already has. A thread that is gone is an error that the session answers with the whole history.
"""

from collections.abc import Sequence
from typing import Any

from dragoman.adapter.requests import stored_history
from dragoman.adapter.requests.encode_cache import EncodedHistory
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.message import Message, StopReason

_BETA = "message-threads-2026-08-12"
_FIELD = "thread"
_CREATED_WITH = ("system", "tools")
"""The fields that a thread keeps from its first request; to change one takes a new thread."""
_END = "thread_end"
"""The key of the encoder's state for the number of messages that the thread has."""


def is_wanted(request: RequestBuilder) -> bool:
    """Whether the option ``server_state`` asks for a thread; if there can be none, that is a loss."""
    return stored_history.wants_stored_history(request, (_FIELD,))


def begin_or_continue(
    request: RequestBuilder, encoded: dict[str, Any], turns: Sequence[Turn], ends: Sequence[int]
) -> None:
    """Add the thread to a whole body. ``ends`` has the number of messages after each turn."""
    frame = {name: encoded.get(name) for name in _CREATED_WITH}
    items = [frame, *encoded["messages"].new_items]
    stored_history.note_request(request, items)
    stored = stored_history.find_stored_reply(turns, [end + 1 for end in ends], items, request.provider)
    if stored is None or stored.end >= len(items) or not stored.raw.get("id") or not _is_held(stored.message):
        encoded[_FIELD] = {"type": "create"}
        request.encoder_state[_END] = 0
        return
    encoded[_FIELD] = {"type": "continue", "previous_message_id": stored.raw["id"]}
    request.encoder_state[_END] = stored.end - 1
    stored_history.drop_stored_losses(request, turns, [end + 1 for end in ends], stored.end)


def shorten(request: RequestBuilder, body: dict[str, Any]) -> list[str]:
    """Remove what the thread already has, after all of it was compared with the signatures of the history. Returns the
    beta headers that a thread needs; none if the body has none of ours."""
    if (end := request.encoder_state.get(_END)) is None:
        return []
    if body[_FIELD]["type"] == "continue":
        for name in _CREATED_WITH:
            body.pop(name, None)
        body["messages"] = EncodedHistory((), body["messages"].new_items[end:])
    return [_BETA]


def _is_held(reply: Message) -> bool:
    """Whether the thread has a reply: not a refused turn, nor one that a fallback model wrote."""
    usage = reply.metadata.usage
    iterations = (usage.raw or {}).get("iterations") if usage else None
    written = iterations if isinstance(iterations, list) else ()
    return reply.stop_reason is not StopReason.REFUSAL and not any(
        isinstance(each, dict) and each.get("type") == "fallback_message" for each in written
    )
