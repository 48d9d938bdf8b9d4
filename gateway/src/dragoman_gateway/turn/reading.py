"""Decides whether the gateway has to read the messages of a request, or may leave that to the provider."""

import re
from collections.abc import Sequence
from typing import Any

from dragoman import AdapterOptions, Message, TextBlock, ToolDefinition
from dragoman.answers import holds_state
from dragoman_gateway.turn.request import HISTORIES, ClientRequest

_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_THINKING = re.compile(rb'"type"\s*:\s*"thinking"')


def must_read(request: ClientRequest, model: str) -> bool:
    """Whether the request needs what a session does with its messages. ``model`` is that of the first place."""
    wire, fields = request.wire, request.fields
    return (
        type(request) is not ClientRequest  # its address or its form says a part
        or not model.startswith(f"{wire.provider}:")
        or not _has_messages(fields)
        or bool(fields.get("background"))
        or any(fields.get(name) is not None for name in wire.server_state)
        or (wire.signs_thinking and _THINKING.search(request.body) is not None)
        or holds_state(request.body)
    )


def is_plain(messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions) -> bool:
    """Whether a request asks for a reply to texts and no more: then it needs nothing that only a session does, such as
    running tools, reading files and going on without an expired container."""
    return (
        not tools
        and options.server_state is None
        and options.background is None
        and all(type(block) is TextBlock for message in messages for block in message.content)
    )


def _has_messages(fields: dict[str, Any]) -> bool:
    """Whether the history looks like one; the provider says what is wrong inside."""
    name = next((name for name in HISTORIES if name in fields), "")
    history = fields.get(name)
    if isinstance(history, list):
        default = None if name == "messages" else "user"  # items of Responses need no role
        return bool(history) and all(isinstance(each, dict) and each.get("role", default) in _ROLES for each in history)
    return isinstance(history, str) and bool(history)
