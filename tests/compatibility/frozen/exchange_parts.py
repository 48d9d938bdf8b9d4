"""The frozen parts of one recorded exchange: what is read from it, and the requests that are made from that for every
target.

Each part has the name of its cell. Ids and time come from the context, so that parts are the same bytes in every
process. Messages for people, such as an error's, are left out; those of losses are a cell of their own, so that a
better wording leaves the others unchanged.
"""

import json
from collections.abc import Generator, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from pydantic import BaseModel

from dragoman import Adapter, AdapterOptions, Message, RequestContext, ToolDefinition, WireResponse, get_adapter
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.losses import Loss
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.events import ErrorEvent, MessageComplete
from tests.conformance.adapters import create_context
from tests.conformance.formats.round_trips import FORMATS, NATIVE, writer_for
from tests.conformance.recordings.requests import STREAMED_BY_PATH
from tests.conformance.scope import model_name
from tests.conformance.swaps.histories import TARGETS
from tests.exchanges import RecordedExchange

Part = tuple[str, bytes]
"""The name of a cell, and what an exchange adds to it."""

RECORDED = "recorded"
"""The cell of the input: if it differs, the recordings are others."""

_SHAPES = [name for name in FORMATS if name not in NATIVE]
_NEXT = "And then?"


def parts(exchange: RecordedExchange) -> Iterator[Part]:
    """All parts, each of which depends on the exchange only. Nothing is raised: an error is a part."""
    recorded = [exchange.id, exchange.request, exchange.streaming, exchange.status, dict(exchange.headers)]
    yield RECORDED, _json(recorded) + exchange.body
    model = model_name(exchange)
    adapter, context = _adapter(model), _context(model)
    messages: list[Message] = []
    tools: list[ToolDefinition] = []
    options = AdapterOptions(context=context)
    if exchange.request is not None:
        try:
            messages, tools, options = adapter.from_wire_request(exchange.request, context)
        except Exception as error:
            yield "requests", _json(error)
        else:
            if exchange.provider in STREAMED_BY_PATH:
                options = replace(options, stream=exchange.streaming)
            yield "requests", _json([messages, tools, _non_default_options(options)])
            yield from _project(model, messages, tools, options)
    reply = yield from _reply(exchange, adapter, context)
    if messages and reply is not None:
        messages = [*messages, reply, Message.user(_NEXT, id=context.new_id(), created_at=context.clock())]
        yield from _project(model, messages, tools, options)
    yield from _convert(messages)


def _reply(
    exchange: RecordedExchange, adapter: Adapter, context: RequestContext
) -> Generator[Part, None, Message | None]:
    try:
        if not exchange.streamed or exchange.status >= 400:
            response = WireResponse(status=exchange.status, headers=exchange.headers, body=exchange.body)
            reply = adapter.from_wire_response(response, context)
            yield "replies", _json(reply)
            return reply
        events = list(adapter.iter_stream([exchange.body], context))
    except Exception as error:
        yield "errors", _json(error)
        return None
    yield "streams", _json([[event.type, *(getattr(event, field.name) for field in fields(event))] for event in events])
    last = events[-1]
    if isinstance(last, ErrorEvent):
        yield "errors", _json(last.error)
    return last.message if isinstance(last, MessageComplete) else None


def _project(
    model: str, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> Iterator[Part]:
    reasons = []
    for target, name in {"itself": model, **TARGETS}.items():
        sent, losses = _encode(name, messages, tools, options)
        yield f"to {target}", sent
        reasons += [[target, loss.reason] for loss in losses]
    yield "words of losses", _json(reasons)


def _encode(
    model: str, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
) -> tuple[bytes, Sequence[Loss]]:
    """A request to a model, with a context of its own that knows the conversation's tool ids."""
    context = _context(model)
    assert options.context is not None
    context.tool_ids = ToolIdMap.load(options.context.tool_ids.dump(), context.new_id)
    try:
        wire = _adapter(model).to_wire(messages, tools, options.with_context(context))
    except Exception as error:
        return _json(error), ()
    head = [wire.method, wire.path, sorted(wire.headers.items()), wire.stream, _named(wire.losses)]
    return _json(head) + wire.body, wire.losses


def _convert(messages: list[Message]) -> Iterator[Part]:
    for shape in _SHAPES if messages else ():
        try:
            written = writer_for(shape)(messages)
        except Exception as error:
            yield f"as {shape}", _json(error)
        else:
            if not isinstance(written.data, bytes):  # the bytes of a database depend on the version of SQLite
                yield f"as {shape}", _json([written.data, _named(written.losses)])


def _named(losses: Sequence[Loss]) -> list[list[Any]]:
    return [[loss.kind, loss.message_id, loss.block_index, loss.severity, loss.block_type] for loss in losses]


def _context(model: str) -> RequestContext:
    """Without prices: a newer price table changes nothing here."""
    return create_context(model, prices=None)


_adapter = cache(get_adapter)


def _non_default_options(options: AdapterOptions) -> dict[str, Any]:
    """What differs from the defaults: a new option changes nothing here."""
    default = AdapterOptions()
    found = {field.name: getattr(options, field.name) for field in fields(options) if field.name != "context"}
    return {name: value for name, value in found.items() if value != getattr(default, name)}


def _json(value: Any) -> bytes:
    return json.dumps(value, default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, ProviderError):
        place = [value.provider, value.model, value.status, value.code, value.request_id]
        return [type(value).__name__, value.error_class, value.retryable, value.retry_after, *place]
    if isinstance(value, Exception):
        return [type(value).__name__]
    if value is ...:
        return "..."  # fields that are excluded from the body
    raise TypeError(f"{type(value).__name__} has no form that is the same everywhere")
