"""Shortcuts for the adapter under test, with fixed ids and time."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, WireResponse
from dragoman.adapter.losses import LossKind
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.ids import format_ulid
from dragoman.canonical.message import MessageMetadata
from dragoman_adapters.cohere.adapter import CohereAdapter

MODEL = "command-a-plus-05-2026"
ADAPTER = CohereAdapter(MODEL)
WEATHER = ToolDefinition(name="weather", description="Tells the weather.")

Native = dict[str, Any]


def context() -> RequestContext:
    numbers = count(1)

    def mint() -> str:
        return format_ulid(next(numbers))

    return RequestContext(
        model=f"cohere:{MODEL}",
        session_id="sess_test",
        tool_ids=ToolIdMap(mint=lambda: "tu_" + mint()),
        new_id=mint,
        clock=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def call(arguments: str = '{"city":"Paris"}', **fields: Any) -> Native:
    return {"id": "w_1", "type": "function", "function": {"name": "weather", "arguments": arguments}, **fields}


def reply(finish: str = "COMPLETE", **message: Any) -> Native:
    return {"id": "r_1", "message": {"role": "assistant", **message}, "finish_reason": finish}


def text(words: str) -> Native:
    return {"type": "text", "text": words}


def read(native: Native, given: RequestContext | None = None) -> Message:
    return ADAPTER.from_wire_response(WireResponse(200, json.dumps(native).encode()), given or context())


def body_of(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    options: AdapterOptions | None = None,
    *,
    model: str = MODEL,
) -> tuple[Native, tuple[LossKind, ...]]:
    """The body of the messages, and the kinds of the losses."""
    wire = CohereAdapter(model).to_wire(messages, tools, options or AdapterOptions())
    return json.loads(wire.body), tuple(loss.kind for loss in wire.losses)


def return_trip(native: Native) -> Native:
    """A request, decoded and encoded again."""
    messages, tools, options = ADAPTER.from_wire_request(native, context())
    written: Native = json.loads(ADAPTER.to_wire(messages, tools, options).body)
    return written


def foreign(*blocks: ContentBlock) -> Message:
    """An assistant's message that another provider produced."""
    metadata = MessageMetadata(model="anthropic:claude-opus-5-5", provider="anthropic")
    return Message.assistant(blocks, metadata=metadata)


def event(kind: str, index: int | None = None, **message: Any) -> Native:
    found: Native = {"type": kind, "delta": {"message": message}}
    return found if index is None else {**found, "index": index}


def end(finish: str = "COMPLETE", **delta: Any) -> Native:
    return {"type": "message-end", "delta": {"finish_reason": finish, **delta}}


START = {"type": "message-start", "id": "r_1", "delta": {"message": {"role": "assistant", "content": []}}}


def sse(events: Iterable[Native]) -> bytes:
    return "".join(f"event: {each.get('type', '')}\ndata: {json.dumps(each)}\n\n" for each in events).encode()


def stream(*events: Native) -> list[StreamEvent]:
    return list(ADAPTER.iter_stream([sse([START, *events])], context()))
