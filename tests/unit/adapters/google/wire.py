"""Shortcuts for adapter tests. Ids count up; bodies are written by hand, after docs/reference/wires/google.md."""

import json
from datetime import UTC, datetime
from itertools import count
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, WireRequest, WireResponse
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent
from dragoman.canonical.ids import format_ulid
from dragoman_adapters.google.adapter import GoogleAdapter, VertexAdapter

GEMINI_3 = GoogleAdapter("gemini-3-flash-preview")
GEMINI_2 = GoogleAdapter("gemini-2.5-flash")
VERTEX = VertexAdapter("gemini-3-flash-preview")


def context(adapter: GoogleAdapter) -> RequestContext:
    tools, messages = count(1), count(1)
    return RequestContext(
        model=str(adapter.model_id),
        session_id="sess_test",
        tool_ids=ToolIdMap(mint=lambda: "tu_" + format_ulid(next(tools))),
        new_id=lambda: format_ulid(next(messages)),
        clock=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def handwritten_reply(*parts: dict[str, Any], reason: Any = "STOP", **candidate: Any) -> dict[str, Any]:
    return {
        "candidates": [{"content": {"parts": list(parts), "role": "model"}, "finishReason": reason, **candidate}],
        "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5},
        "modelVersion": "gemini-3-flash-preview",
    }


def read(native: Any, adapter: GoogleAdapter = GEMINI_3) -> Message:
    body = json.dumps(native).encode()
    return adapter.from_wire_response(WireResponse(status=200, body=body), context(adapter))


def reply_of(*parts: dict[str, Any], adapter: GoogleAdapter = GEMINI_3) -> Message:
    """The message of a reply that holds these parts."""
    return read(handwritten_reply(*parts), adapter)


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\r\n\r\n" for chunk in chunks)


def events(body: bytes, adapter: GoogleAdapter = GEMINI_3) -> list[StreamEvent]:
    return list(adapter.iter_stream([body], context(adapter)))


def stream_message(body: bytes, adapter: GoogleAdapter = GEMINI_3) -> Message:
    last = events(body, adapter)[-1]
    assert isinstance(last, MessageComplete), last
    return last.message


def failure(body: bytes, adapter: GoogleAdapter = GEMINI_3) -> ErrorEvent:
    last = events(body, adapter)[-1]
    assert isinstance(last, ErrorEvent), last
    return last


def wire(
    *messages: Message, adapter: GoogleAdapter = GEMINI_3, tools: tuple[ToolDefinition, ...] = (), **options: Any
) -> WireRequest:
    return adapter.to_wire(messages, tools, AdapterOptions(**options))


def body(*messages: Message, adapter: GoogleAdapter = GEMINI_3, **options: Any) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(wire(*messages, adapter=adapter, **options).body)
    return written


def return_trip(native: dict[str, Any], adapter: GoogleAdapter = GEMINI_3) -> dict[str, Any]:
    """A request, decoded and encoded again."""
    messages, tools, options = adapter.from_wire_request(native, context(adapter))
    written: dict[str, Any] = json.loads(adapter.to_wire(messages, tools, options).body)
    return written
