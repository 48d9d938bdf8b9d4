"""Shortcuts for the tests: an adapter in any dialect, hand-written replies, streams and requests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.facts.capabilities import ModelTable
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.events import MessageComplete, StreamEvent
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect

DONE = b"data: [DONE]\n\n"


def adapter(model: str = "gpt-4.1", **fields: Any) -> ChatAdapter:
    """OpenAI's own adapter, or one in a dialect with these fields."""
    if not fields:
        return ChatAdapter(model)
    kind = type("DialectAdapter", (ChatAdapter,), {"provider": "other", "dialect": Dialect(**fields)})
    found: ChatAdapter = kind(model)
    return found


def adapter_with(chat: ChatAdapter, **abilities: Any) -> ChatAdapter:
    """The same adapter for a model with these abilities, whatever its table declares."""
    kind = type("AbleAdapter", (type(chat),), {"models": ModelTable({"default": abilities})})
    found: ChatAdapter = kind(chat.model)
    return found


def context(chat: Adapter) -> RequestContext:
    """A context whose ids and time are the same in every run."""
    messages, calls = count(1), count(1)
    return RequestContext(
        model=str(chat.model_id),
        session_id="sess_1",
        tool_ids=ToolIdMap(lambda: f"tu_{next(calls):026}"),
        new_id=lambda: f"{next(messages):026}",
        clock=lambda: datetime(2026, 11, 21, tzinfo=UTC),
    )


def handwritten_reply(message: Mapping[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-4.1-2025", "choices": [choice], **fields}


def read(native: Any, chat: Adapter | None = None, status: int = 200) -> Message:
    chat = chat or adapter()
    return chat.from_wire_response(WireResponse(status=status, body=json.dumps(native).encode()), context(chat))


def handwritten_chunk(
    delta: Mapping[str, Any] | None = None, finish: str | None = None, index: int = 0, **fields: Any
) -> bytes:
    choices = [] if delta is None else [{"index": index, "delta": delta, "finish_reason": finish}]
    chunk = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "model": "gpt-4.1-2025",
        "choices": choices,
        **fields,
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def handwritten_call(arguments: str | None, index: int | None = 0, **fields: Any) -> dict[str, Any]:
    """A delta of one tool call; ``name`` and ``id`` as fields."""
    function = {"arguments": arguments, **({"name": fields.pop("name")} if "name" in fields else {})}
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, **fields, "function": function}]}


def stream(chunks: Iterable[bytes], chat: Adapter | None = None) -> list[StreamEvent]:
    chat = chat or adapter()
    return list(chat.iter_stream(chunks, context(chat)))


def stream_message(chunks: Iterable[bytes], chat: Adapter | None = None) -> Message:
    last = stream(chunks, chat)[-1]
    assert isinstance(last, MessageComplete), last
    return last.message


def encode_request(
    messages: Sequence[Message],
    chat: Adapter | None = None,
    tools: Sequence[ToolDefinition] = (),
    **options: Any,
) -> tuple[dict[str, Any], WireRequest]:
    """The body of a request, and the request."""
    chat = chat or adapter()
    wire = chat.to_wire(messages, tools, AdapterOptions(**options))
    return json.loads(wire.body), wire


def losses(wire: WireRequest) -> list[tuple[str, str]]:
    return [(str(loss.kind), loss.reason.partition(":")[0]) for loss in wire.losses]


def round_trip(body: dict[str, Any], chat: Adapter | None = None) -> dict[str, Any]:
    chat = chat or adapter(body["model"])
    messages, tools, options = chat.from_wire_request(body, context(chat))
    again: dict[str, Any] = json.loads(chat.to_wire(messages, tools, options).body)
    return again


def reply_of(model: str, blocks: Iterable[ContentBlock]) -> Message:
    """An assistant's message that this model gave."""
    return Message.assistant(blocks, metadata=MessageMetadata(model=model, provider=model.partition(":")[0]))
