"""Shortcuts for the adapter under test, with fixed ids and time."""

import json
from collections.abc import Iterable, Mapping, Sequence
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
from dragoman_adapters.openai_responses.adapter import ResponsesAdapter

MODEL = "gpt-5.4"
ADAPTER = ResponsesAdapter(MODEL)

Item = dict[str, Any]


def context() -> RequestContext:
    numbers = count(1)

    def mint() -> str:
        return format_ulid(next(numbers))

    return RequestContext(
        model=f"openai:{MODEL}",
        session_id="sess_test",
        tool_ids=ToolIdMap(mint=lambda: "tu_" + mint()),
        new_id=mint,
        clock=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def response(output: Sequence[Item], **fields: Any) -> Item:
    """A response object; it is finished unless the arguments say otherwise."""
    return {"id": "resp_1", "object": "response", "status": "completed", "model": MODEL, "output": output, **fields}


def text_item(text: str, **fields: Any) -> Item:
    part = {"type": "output_text", "annotations": [], "text": text}
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]}
    return {**item, **fields}


def call_item(arguments: str = '{"city":"Paris"}', **fields: Any) -> Item:
    item = {"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "call_1", "name": "weather"}
    return {**item, "arguments": arguments, **fields}


def read(native: Item, given: RequestContext | None = None) -> Message:
    body = json.dumps(native).encode()
    return ADAPTER.from_wire_response(WireResponse(status=200, body=body), given or context())


def body_of(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    options: AdapterOptions | None = None,
    *,
    model: str = MODEL,
) -> tuple[dict[str, Any], tuple[LossKind, ...]]:
    """The body of the messages, and the kinds of the losses."""
    wire = ResponsesAdapter(model).to_wire(messages, tools, options or AdapterOptions())
    return json.loads(wire.body), tuple(loss.kind for loss in wire.losses)


def input_of(messages: Sequence[Message], given: RequestContext | None = None) -> list[Item]:
    body, _ = body_of(messages, options=AdapterOptions(context=given))
    items: list[Item] = body["input"]
    return items


def foreign(*blocks: ContentBlock) -> Message:
    """An assistant's message that another provider produced."""
    metadata = MessageMetadata(model="anthropic:claude-opus-5-5", provider="anthropic")
    return Message.assistant(blocks, metadata=metadata)


def sse(events: Iterable[Mapping[str, Any]], *, named: bool = True) -> bytes:
    """Events as bytes of the wire, with or without their names."""
    lines = []
    for event in events:
        name = f"event: {event['type']}\n" if named else ""
        lines.append(f"{name}data: {json.dumps(event)}\n\n")
    return "".join(lines).encode()


def stream(events: Iterable[Mapping[str, Any]], given: RequestContext | None = None) -> list[StreamEvent]:
    return list(ADAPTER.iter_stream([sse(events)], given or context()))
