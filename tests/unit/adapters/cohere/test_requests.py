"""Requests in Cohere's format: read, and written again as they were."""

import json
from dataclasses import replace
from typing import Any

import pytest

from dragoman import AdapterOptions
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import ImageBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message
from tests.unit.adapters.cohere.wire import ADAPTER, MODEL, Native, call, context, return_trip, text

USER: Native = {"role": "user", "content": "Hi"}
TOOL: Native = {
    "type": "function",
    "function": {"name": "weather", "description": "Tells.", "parameters": {"type": "object", "properties": {}}},
}

CONVERSATIONS: list[list[Native]] = [
    [USER],
    [{"role": "system", "content": "Be brief."}, USER],
    [{"role": "system", "content": [text("Be brief.")]}, {"role": "user", "content": [text("Hi"), text("you")]}],
    [
        USER,
        {"role": "assistant", "content": [text("Hello")], "citations": [], "tool_calls": [], "tool_plan": None},
        USER,
    ],
    [USER, {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, text("Hello")]}, USER],
    [
        USER,
        {"role": "assistant", "tool_plan": "I will look.", "tool_calls": [call(), call(id="w_2")]},
        {"role": "tool", "tool_call_id": "w_1", "content": "Sunny"},
        {"role": "tool", "tool_call_id": "w_2", "content": [text("Rain")]},
    ],
    [
        USER,
        {"role": "assistant", "content": [text("")], "tool_calls": [call('{ "city": "Paris" }')]},
        {"role": "tool", "tool_call_id": "w_1", "content": [{"type": "document", "document": {"data": {"a": 1}}}]},
    ],
    [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [call("not json")]},
        {
            "role": "tool",
            "tool_call_id": "w_1",
            "content": [{"type": "document", "document": {"data": "x", "id": "1"}}],
        },
    ],
    [
        USER,
        {"role": "assistant", "content": "Matz", "citations": [{"start": 0, "end": 4, "text": "Matz", "sources": []}]},
        USER,
    ],
    [
        USER,
        {
            "role": "assistant",
            "content": "Matz",
            "citations": [{"start": 0, "type": "TEXT_CONTENT"}, {"start": 1, "type": "PLAN"}],
        },
        USER,
    ],
    [
        {
            "role": "user",
            "content": [
                text("What?"),
                {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,YQ==", "detail": "low"}},
                {"type": "image_url", "image_url": "https://x.test/a.png"},
            ],
        }
    ],
]


@pytest.mark.parametrize("messages", CONVERSATIONS)
def test_conversations_are_rewritten_unchanged(messages: list[Native]) -> None:
    """Layouts, empty fields, spelling and native parts included."""
    body = {"model": MODEL, "messages": messages, "tools": [TOOL]}
    assert return_trip(body) == body


OPTIONS: list[Native] = [
    {"stream": False},
    {"stream": True, "max_tokens": 9, "temperature": 0.3, "p": 0.9, "k": 5, "seed": 7, "stop_sequences": ["END"]},
    {"tool_choice": "REQUIRED", "strict_tools": True},
    {"tool_choice": "NONE", "documents": [], "safety_mode": "OFF"},
    {"thinking": {"type": "enabled"}},
    {"thinking": {"type": "enabled", "token_budget": 100}},
    {"thinking": {"type": "disabled"}},
    {"response_format": {"type": "json_object", "json_schema": {"type": "object"}}},
    {"response_format": {"type": "json_object"}},
]


@pytest.mark.parametrize("fields", OPTIONS)
def test_options_are_rewritten_unchanged(fields: Native) -> None:
    """A field without a canonical option stays a field of Cohere's."""
    body = {"model": MODEL, "messages": [USER], "tools": [TOOL], **fields}
    assert return_trip(body) == body


def test_tools_are_rewritten_unchanged() -> None:
    """Also tools that are not functions, or that lack fields of our encoding."""
    native = {"type": "search", "search": {}}
    bare = {"type": "function", "function": {"name": "bare"}, "strict": True}
    body = {"model": MODEL, "messages": [USER], "tools": [TOOL, native, bare]}
    assert return_trip(body) == body


def test_a_field_that_was_read_does_not_hide_an_option() -> None:
    """A request that was read without streaming can be sent with streaming."""
    messages, tools, options = ADAPTER.from_wire_request(
        {"model": MODEL, "messages": [USER], "stream": False}, context()
    )
    wire = ADAPTER.to_wire(messages, tools, replace(options, stream=True))
    assert json.loads(wire.body)["stream"] is True


def test_parts_become_blocks() -> None:
    """Parts become blocks: images by their sources, a document as the text of its data."""
    messages, _, _ = ADAPTER.from_wire_request({"messages": CONVERSATIONS[-1]}, context())
    _, inline, linked = messages[0].content
    assert isinstance(inline, ImageBlock)
    assert isinstance(linked, ImageBlock)
    assert (inline.source.kind, inline.media_type, inline.detail) == ("base64", "image/jpeg", "low")
    assert (linked.source.kind, linked.source.data) == ("url", "https://x.test/a.png")
    messages, _, _ = ADAPTER.from_wire_request({"messages": CONVERSATIONS[6]}, context())
    assert messages[-1].content == (
        ToolResultBlock(tool_use_id=messages[1].tool_uses[0].id, content=(TextBlock(text='{"a":1}'),)),
    )


def test_options_become_options() -> None:
    native = {"messages": [USER], **OPTIONS[1], "tool_choice": "REQUIRED", **OPTIONS[5]}
    _, _, options = ADAPTER.from_wire_request(json.dumps(native).encode(), context())
    assert (options.max_output_tokens, options.top_p, options.top_k, options.stream) == (9, 0.9, 5, True)
    assert (options.tool_choice, options.thinking, options.thinking_budget) == ("required", True, 100)


@pytest.mark.parametrize("body", [b"[]", b"{", {}, {"messages": [{"role": "chatbot"}]}, {"messages": 3}])
def test_invalid_requests_are_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        ADAPTER.from_wire_request(body, context())


def test_the_path_and_extra_fields_of_a_request() -> None:
    """The path is that of version 2 of the chat; the caller's extra fields are merged into the body."""
    options = AdapterOptions(stream=True, tool_choice=NamedTool("x"), extra={"cohere": {"safety_mode": "OFF"}})
    wire = ADAPTER.to_wire([Message.user("Hi")], [], options)
    assert (wire.method, wire.path, wire.stream) == ("POST", "/v2/chat", True)
    body = json.loads(wire.body)
    assert body["safety_mode"] == "OFF"
    assert "tool_choice" not in body
