"""The public names as a type checker sees them. Nothing here runs; test_typing.py lets mypy and pyright read it.

A line that must not pass carries the code of mypy's error: an unused ``type: ignore`` is an error too.
"""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any, assert_type

import dragoman
from dragoman import (
    Adapter,
    AdapterCapabilities,
    AdapterOptions,
    ImageBlock,
    Loss,
    MediaSource,
    Message,
    MessageComplete,
    RequestContext,
    Role,
    SideEffects,
    StopReason,
    TextBlock,
    TextDelta,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    WireRequest,
    WireResponse,
    get_adapter,
    limits,
    testing,
    transport,
)
from dragoman import errors as all_errors
from dragoman import events as all_events
from dragoman.adapter.facts.capabilities import Support
from dragoman.blocks import ContentBlock
from dragoman.canonical.ids import ModelId
from dragoman.events import ErrorEvent, StreamEvent
from dragoman.messages import MessageMetadata, check, read_message, write_message


def messages() -> None:
    message = Message.user("Hi")
    assert_type(message, Message)
    assert_type(message.content, tuple[ContentBlock, ...])
    assert_type(message.role, Role)
    assert_type(message.created_at, datetime)
    assert_type(message.metadata, MessageMetadata)
    assert_type(message.text, str)
    assert_type(message.tool_uses, tuple[ToolUseBlock, ...])
    assert_type(message.tool_results, tuple[ToolResultBlock, ...])
    assert_type(message.usage, Usage | None)
    assert_type(message.stop_reason, StopReason | None)
    assert_type(message.model_copy(update={"session_id": "s"}), Message)
    assert_type(Message.assistant([TextBlock(text="a"), ThinkingBlock(text="b")]), Message)
    assert_type(Message.tool("tu_1", "ok", is_error=True), Message)
    assert_type(read_message(write_message(message)), Message)
    assert_type(check([message]), list[str])

    message.content = ()  # type: ignore[misc]  # not pyright: it does not know that models are frozen
    message.txet()  # type: ignore[attr-defined]
    Message.user(7)  # type: ignore[arg-type]
    Message.tool()  # type: ignore[call-arg]
    Message(content=())  # type: ignore[call-arg]
    Message(role=Role.USER, contents=())  # type: ignore[call-arg]


def blocks(block: ContentBlock) -> None:
    if isinstance(block, ToolUseBlock):
        assert_type(block.input, dict[str, Any])
        assert_type(block.raw_input, str | None)
    if isinstance(block, ImageBlock):
        assert_type(block.source, MediaSource)

    TextBlock(txt="a")  # type: ignore[call-arg]
    ImageBlock()  # type: ignore[call-arg]


def money(usage: Usage) -> None:
    assert_type(usage.cost_usd, Decimal | None)
    assert_type(usage.total_tokens, int)
    usage.cost_usd + 1  # type: ignore[operator]


def tools() -> None:
    tool = ToolDefinition(name="f", side_effects=SideEffects.READ)
    assert_type(tool.problems(), list[str])
    assert_type(tool.input_schema, dict[str, Any])


def adapters(adapter: Adapter, chunks: AsyncIterator[bytes]) -> None:
    assert_type(get_adapter("anthropic:claude-opus-5-5"), Adapter)
    assert_type(adapter.model_id, ModelId)
    assert_type(adapter.capabilities, AdapterCapabilities)
    assert_type(adapter.capabilities.supports_tools, Support)

    context = RequestContext.for_model("anthropic:claude-opus-5-5", session_id="sess_1")
    assert_type(context, RequestContext)
    wire = adapter.to_wire([Message.user("Hi")], [], AdapterOptions(max_output_tokens=1, tool_choice="auto"))
    assert_type(wire, WireRequest)
    assert_type(wire.body, bytes)
    assert_type(wire.losses, tuple[Loss, ...])
    assert_type(adapter.from_wire_response(WireResponse(status=200, headers={}, body=b""), context), Message)
    assert_type(adapter.iter_stream([b""], context), Iterator[StreamEvent])
    assert_type(adapter.stream_response(chunks, context), AsyncIterator[StreamEvent])
    history, definitions, options = adapter.from_wire_request(b"{}", context)
    assert_type(history, list[Message])
    assert_type(definitions, list[ToolDefinition])
    assert_type(options, AdapterOptions)

    AdapterOptions(max_tokens=1)  # type: ignore[call-arg]
    AdapterOptions(tool_choice="always")  # type: ignore[arg-type]
    AdapterOptions().stream = True  # type: ignore[misc]
    Adapter("m")  # type: ignore[abstract]


def events(event: StreamEvent) -> str:
    match event:
        case TextDelta():
            return event.text
        case MessageComplete():
            return event.message.text
        case ErrorEvent():
            assert_type(event.partial, Message | None)
            return str(event.error)
        case _:
            return event.type


def doors(error: dragoman.BudgetExceededError, refused: all_errors.PolicyDeniedError) -> None:
    assert_type(error.per, str)
    assert_type(refused.hook, str)
    assert_type(all_errors.ConflictError("no").expected, int | None)
    assert_type(all_events.TextDelta("m", 0, "Hi").text, str)

    dragoman.Sesion("openai:gpt-6.1-sol")  # type: ignore[attr-defined]
    all_errors.RateLimitErorr("no")  # type: ignore[attr-defined]
    all_events.TextDetla()  # type: ignore[attr-defined]
    limits.Limmits()  # type: ignore[attr-defined]
    testing.ScriptedProvidr()  # type: ignore[attr-defined]
    transport.Fetchr()  # type: ignore[attr-defined]
