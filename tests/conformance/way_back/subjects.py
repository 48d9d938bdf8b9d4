"""The recorded replies, and the adapters that write them again for clients."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dragoman import Adapter, DragomanError, Message, RequestContext, WireResponse
from dragoman.canonical.events import StreamEvent
from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.scope import model_name, skip_reason
from tests.exchanges import RecordedExchange, load

CLIENT_WIRES = ("anthropic", "openai-chat", "openai", "google", "ollama")
"""The adapters of the wires that clients speak."""

CLIENT_MODEL = "client-model"
"""The model that a client asks for."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded reply, as its own adapter reads it. ``reply`` is the error of a reply that is one."""

    exchange: RecordedExchange
    reply: Message | DragomanError
    events: tuple[StreamEvent, ...]
    context: RequestContext


def recorded_replies(provider: str, start: int = 0, every: int = 1) -> Iterator[Recorded]:
    """All replies of a provider in scope, or one in ``every``."""
    in_scope = [exchange for exchange in load(provider) if skip_reason(exchange) is None]
    for exchange in in_scope[start::every]:
        yield read(exchange)


def read(exchange: RecordedExchange) -> Recorded:
    """Read a reply with the context of its request."""
    adapter, context = own_side(exchange)
    events: tuple[StreamEvent, ...] = ()
    try:
        if exchange.streamed and exchange.status < 400:
            events = tuple(adapter.iter_stream([exchange.body], context))
            last: Any = events[-1]
            reply = last.message if last.type == "message_complete" else last.error
        else:
            response = WireResponse(status=exchange.status, headers=exchange.headers, body=exchange.body)
            reply = adapter.from_wire_response(response, context)
    except DragomanError as error:
        reply = error
    return Recorded(exchange, reply, events, context)


def has_numbers_for_names(exchange: RecordedExchange) -> bool:
    """Whether a reply of Google came through a client of protocol buffers, which writes enumerations as numbers."""
    text = exchange.response if isinstance(exchange.response, str) else json.dumps(exchange.response)
    return re.search(r'"(?:finish_?[rR]eason|modality)": ?[0-9]', text) is not None


def own_side(exchange: RecordedExchange) -> tuple[Adapter, RequestContext]:
    """The adapter of the provider, and a context with the fields of the recorded request."""
    model = model_name(exchange)
    adapter, context = create_adapter(model), create_context(model)
    if isinstance(exchange.request, dict):
        conversation = {"messages": [], "contents": [], "input": ""}
        bare = {**exchange.request, **{key: value for key, value in conversation.items() if key in exchange.request}}
        try:
            adapter.from_wire_request(bare, context)
        except DragomanError:
            context.client_fields = None
    return adapter, context
