"""Structured output by a tool: the model has to call it, and callers see text."""

import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, RequestContext, TextBlock, ToolDefinition, WireResponse, get_adapter
from dragoman.adapter.losses import Severity
from dragoman.canonical.events import MessageComplete, StreamEvent, TextDelta
from dragoman.canonical.message import StopReason

ANTHROPIC, CHAT = "anthropic:claude-3-7-sonnet-latest", "openai-chat:gpt-4-turbo"
SCHEMA = {"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]}
QUESTION = [Message.user("6 times 7?")]


def context_of(model: str, tools: tuple[ToolDefinition, ...] = (), **options: Any) -> tuple[RequestContext, Any]:
    """The context that the reply is read with, and the body that was sent."""
    context = RequestContext(model=model, session_id="s")
    options.setdefault("output_schema", SCHEMA)
    wire = get_adapter(model).to_wire(QUESTION, tools, AdapterOptions(context=context, **options))
    return context, (json.loads(wire.body), wire.losses)


def handwritten_chat_reply(arguments: str) -> bytes:
    call = {"id": "call_1", "type": "function", "function": {"name": "answer", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c1", "object": "chat.completion", "model": "gpt-4-turbo", "choices": [choice]}).encode()


def handwritten_stream(*pieces: str) -> bytes:
    """A call of the tool in Anthropic's format, its input in these pieces."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "answer", "input": {}}
    message_object = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-3-7-sonnet",
    "content": [],
               "stop_reason": None, "usage": {"input_tokens": 9, "output_tokens": 1}}  # fmt: skip
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": message_object},
        {"type": "content_block_start", "index": 0, "content_block": call},
        *(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    return b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events)


@pytest.mark.parametrize(
    ("model", "choice"),
    [
        (ANTHROPIC, {"type": "tool", "name": "answer"}),
        (CHAT, {"type": "function", "function": {"name": "answer"}}),
    ],
)
def test_the_model_is_forced_to_call_the_answer_tool(model: str, choice: dict[str, Any]) -> None:
    """It is the only tool, its input schema is the requested one, and a loss reports the emulation."""
    context, (body, losses) = context_of(model)
    assert body["tool_choice"] == choice
    assert len(body["tools"]) == 1
    assert SCHEMA["properties"] in (
        body["tools"][0].get("input_schema", {}).get("properties"),
        body["tools"][0].get("function", {}).get("parameters", {}).get("properties"),
    )
    assert [(loss.severity, "output_schema" in loss.reason) for loss in losses] == [(Severity.INFO, True)]
    assert context.answer_tool is not None


def test_the_reply_becomes_text() -> None:
    """No call is left, no result is missing, and it is sent back as text."""
    context, _ = context_of(CHAT)
    reply = get_adapter(CHAT).from_wire_response(WireResponse(200, handwritten_chat_reply('{"answer": 42}')), context)
    assert (reply.content, reply.stop_reason) == ((TextBlock(text='{"answer":42}'),), StopReason.END_TURN)
    again = get_adapter(CHAT).to_wire([*QUESTION, reply, Message.user("And 7 times 8?")], [], AdapterOptions())
    assert json.loads(again.body)["messages"][1] == {"role": "assistant", "content": '{"answer":42}'}


def test_the_stream_becomes_text_as_it_arrives() -> None:
    """Its deltas add up to the text of the message, to the letter."""
    context, _ = context_of(ANTHROPIC, stream=True)
    events = list(get_adapter(ANTHROPIC).iter_stream([handwritten_stream('{"ans', 'wer": 4', "2}")], context))
    assert [event.text for event in events if isinstance(event, TextDelta)] == ['{"ans', 'wer": 4', "2}"]
    assert not [event for event in events if event.type.startswith("tool_use")]
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert (last.message.text, last.message.stop_reason) == ('{"answer": 42}', StopReason.END_TURN)


def test_a_broken_stream_keeps_the_text_so_far() -> None:
    """Half an answer is half a text, in an error's partial message."""
    context, _ = context_of(ANTHROPIC, stream=True)
    whole = handwritten_stream('{"ans', 'wer": 42}')
    events: list[StreamEvent] = list(
        get_adapter(ANTHROPIC).iter_stream([whole[: whole.index(b"content_block_stop")]], context)
    )
    assert events[-1].type == "error"
    assert events[-1].partial.text == '{"answer": 42}'  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "options",
    [
        {"tools": (ToolDefinition(name="look_up"),)},
        {"output_schema": {"type": "array", "items": {"type": "string"}}},
        {"thinking_budget": 2000},
    ],
    ids=["with tools of its own", "a schema of no object", "a model that reasons"],
)
def test_without_forced_calls_the_model_is_prompted(options: dict[str, Any]) -> None:
    """In the system prompt, which is a loss."""
    context, (body, losses) = context_of(ANTHROPIC, **options)
    assert context.answer_tool is None
    assert "JSON Schema" in body["system"]
    assert Severity.WARNING in {loss.severity for loss in losses}


def test_a_reused_context_forgets_the_schema() -> None:
    """The next request has no schema, so a tool of that name is the caller's own."""
    context, _ = context_of(CHAT)
    get_adapter(CHAT).to_wire(QUESTION, [ToolDefinition(name="answer")], AdapterOptions(context=context))
    reply = get_adapter(CHAT).from_wire_response(WireResponse(200, handwritten_chat_reply("{}")), context)
    assert [call.name for call in reply.tool_uses] == ["answer"]
