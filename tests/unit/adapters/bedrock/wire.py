"""Shortcuts for the adapter under test, with fixed ids and time."""

import base64
import json
import struct
import zlib
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
from dragoman_adapters.bedrock.adapter import BedrockAdapter

CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVA = "us.amazon.nova-2-lite-v1:0"
VERSION = {"anthropic_version": "bedrock-2023-05-31"}
AS_MESSAGES = AdapterOptions(extra={"bedrock": VERSION})
WEATHER = ToolDefinition(name="weather", description="Tells the weather.")

Native = dict[str, Any]


def context(model: str = CLAUDE) -> RequestContext:
    numbers = count(1)

    def mint() -> str:
        return format_ulid(next(numbers))

    return RequestContext(
        model=f"bedrock:{model}",
        session_id="sess_test",
        tool_ids=ToolIdMap(mint=lambda: "tu_" + mint()),
        new_id=mint,
        clock=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def reply(*content: Native, stop: str = "end_turn", **fields: Any) -> Native:
    return {"output": {"message": {"role": "assistant", "content": list(content)}}, "stopReason": stop, **fields}


def call(tool_use_id: str = "tooluse_1", **fields: Any) -> Native:
    return {"toolUse": {"toolUseId": tool_use_id, "name": "weather", "input": {"city": "Paris"}, **fields}}


def answer(tool_use_id: str = "tooluse_1", **fields: Any) -> Native:
    return {"toolResult": {"toolUseId": tool_use_id, "content": [{"text": "Sunny"}], **fields}}


def read(native: Native, model: str = CLAUDE) -> Message:
    response = WireResponse(200, json.dumps(native).encode())
    return BedrockAdapter(model).from_wire_response(response, context(model))


def body_of(
    messages: Sequence[Message],
    tools: Sequence[ToolDefinition] = (),
    options: AdapterOptions | None = None,
    *,
    model: str = CLAUDE,
) -> tuple[Native, tuple[LossKind, ...]]:
    """The body of the messages, and the kinds of the losses."""
    wire = BedrockAdapter(model).to_wire(messages, tools, options or AdapterOptions())
    return json.loads(wire.body), tuple(loss.kind for loss in wire.losses)


def return_trip(native: Native, model: str = CLAUDE) -> Native:
    """A request, decoded and encoded again."""
    adapter = BedrockAdapter(model)
    messages, tools, options = adapter.from_wire_request(native, context(model))
    written: Native = json.loads(adapter.to_wire(messages, tools, options).body)
    return written


def foreign(*blocks: ContentBlock) -> Message:
    """An assistant's message that another provider produced."""
    metadata = MessageMetadata(model="openai:gpt-6.1-sol", provider="openai")
    return Message.assistant(blocks, metadata=metadata)


def frame(name: str, payload: Native | bytes, kind: str = "event", **headers: str) -> bytes:
    """A message of an event stream."""
    named = {":message-type": kind, f":{kind}-type": name, **headers}
    data = b"".join(_header(key, value) for key, value in named.items())
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    prelude = struct.pack(">II", 16 + len(data) + len(body), len(data))
    message = prelude + struct.pack(">I", zlib.crc32(prelude)) + data + body
    return message + struct.pack(">I", zlib.crc32(message))


def _header(name: str, value: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\7" + struct.pack(">H", len(value)) + value.encode()


def chunk(payload: Native) -> bytes:
    """A model's own event, as InvokeModel wraps it."""
    return frame("chunk", {"bytes": base64.b64encode(json.dumps(payload).encode()).decode(), "p": "abc"})


START = frame("messageStart", {"role": "assistant", "p": "abcd"})
STOP = frame("messageStop", {"stopReason": "end_turn", "p": "a"})
COUNTS = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
METADATA = frame("metadata", {"usage": COUNTS, "metrics": {"latencyMs": 7}, "p": ""})
END = STOP + METADATA


def started(index: int, **start: Any) -> bytes:
    return frame("contentBlockStart", {"contentBlockIndex": index, "start": start})


def delta(index: int, **fields: Any) -> bytes:
    return frame("contentBlockDelta", {"contentBlockIndex": index, "delta": fields, "p": "abc"})


def stopped(index: int) -> bytes:
    return frame("contentBlockStop", {"contentBlockIndex": index})


def stream(chunks: Iterable[bytes], model: str = CLAUDE) -> list[StreamEvent]:
    return list(BedrockAdapter(model).iter_stream(chunks, context(model)))
