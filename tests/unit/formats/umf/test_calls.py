"""UMF's half in OpenAI's form, and calls and results of MCP as its types."""

import json
from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ToolUseBlock
from dragoman.formats import (
    FormatError,
    call_from_mcp,
    call_from_openai,
    call_to_mcp,
    call_to_openai,
    from_umf,
    internal_tool_call,
    internal_tool_result,
    read,
    result_from_mcp,
    result_to_mcp,
    to_umf,
    tool_from_openai,
    tool_result_block,
    tool_to_openai,
    tool_use_block,
)
from tests.tables import each_row

_OPENAI: Any = [
    {"role": "user", "content": "Weather?", "metadata": {"trace": {"id": 7, "tags": ["a"]}}},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}]},
    {"role": "tool", "tool_call_id": "call_1", "name": "weather", "content": "Rain."},
]  # fmt: skip


_CALL: Any = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def test_calls_next_to_the_content_are_read() -> None:
    """With nested metadata, which stays; the document is rewritten unchanged."""
    result = read(_OPENAI, "umf")
    call = result.messages[1].tool_uses[0]
    assert (call.name, call.input) == ("weather", {"city": "Bern"})
    assert result.messages[2].tool_results[0].tool_use_id == call.id
    assert to_umf(result.messages).data == _OPENAI
    assert [loss.path for loss in result.losses] == ["$[0].metadata.trace"]


def test_calls_are_written_next_to_the_content() -> None:
    """On request, with text before calls; the same history comes back."""
    call = ToolUseBlock(id="tu_01M7YJFK7P2ZFT4X2CGGZPP6M7", name="weather", input={"city": "Bern"})
    broken = ToolUseBlock(id="tu_01M7YJFK7P2ZFT4X2CGGZPP6M8", name="weather", raw_input="{")
    history = [Message.assistant([TextBlock(text="Look."), call, broken]), Message.assistant([call])]
    written = to_umf(history, openai_calls=True)
    arguments = [[each["function"]["arguments"] for each in entry["tool_calls"]] for entry in written.data]
    assert arguments == [['{"city":"Bern"}', "{"], ['{"city":"Bern"}']]
    assert [entry["content"] for entry in written.data] == ["Look.", ""]
    assert written.losses == ()
    assert [message.content for message in from_umf(written.data[:1])] == [history[0].content]
    behind = to_umf([Message.assistant([call, TextBlock(text="Done.")])], openai_calls=True)
    assert [loss.reason for loss in behind.losses] == [
        "calls in OpenAI's form stand behind the content: their place among the blocks is lost"
    ]


def test_every_field_that_is_not_taken_is_named() -> None:
    document: Any = [
        {"role": "user", "name": "ann", "content": "Hi.", "mood": "good"},
        {"role": "assistant", "content": "", "refusal": "No.", "tool_calls": [
            {**_CALL, "index": 0, "function": {**_CALL["function"], "strict": True}}]},
    ]  # fmt: skip
    result = read(document, "umf")
    named = ["$[0].mood", "$[0].name", "$[1].refusal", "$[1].tool_calls[0].index", "$[1].tool_calls[0].function.strict"]
    assert sorted(loss.path for loss in result.losses) == sorted(named)
    assert to_umf(result.messages).data == document


@each_row("native", [
    {"content": [{"type": "text", "text": "Rain."}], "isError": False},
    {"content": [{"type": "text", "text": "Rain."}]},
    {"content": [{"type": "text", "text": "No."}], "isError": True, "_meta": {"a": 1}},
    {"content": [], "structuredContent": {"sky": "rain"}, "isError": False, "resultType": "complete"},
    {"content": [{"type": "image", "data": "aGk=", "mimeType": "image/png"},
                 {"type": "resource_link", "uri": "file:///a", "name": "a"}], "isError": False},
])  # fmt: skip
def test_a_result_of_mcp_comes_back(native: Any) -> None:
    assert result_to_mcp(result_from_mcp(json.dumps(native), "call_1")) == native


def test_a_call_of_mcp_comes_back() -> None:
    """With the id of its request, which MCP keeps elsewhere."""
    native = {"name": "weather", "arguments": {"city": "Bern"}, "_meta": {"progressToken": 1}}
    call = call_from_mcp(native, call_id="call_1")
    assert (call.id, call_to_mcp(call)) == ("call_1", native)
    assert call_from_mcp({"name": "ping"}).arguments == {}


@each_row("text", ['{"city": "Bern"}', '{"city":"Bern"}', "{}", "", "{", "[1]"])
def test_a_call_of_openai_comes_back(text: str) -> None:
    """With the text of its arguments, whatever it is."""
    native = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": text}}
    assert call_to_openai(call_from_openai(native)) == native


def test_a_tool_of_openai_comes_back() -> None:
    """With its schema, and whether it is strict."""
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": True}
    native = {"type": "function", "function": function}
    assert tool_to_openai(tool_from_openai(native)) == native


def test_blocks_and_umf_types_are_each_other() -> None:
    """Calls, broken calls, results of one text, of none and of several parts."""
    for call in (ToolUseBlock(id="a", name="f", input={"b": 1}), ToolUseBlock(id="a", name="f", raw_input="{")):
        assert tool_use_block(internal_tool_call(call)) == call
    image = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    for content in ((), (TextBlock(text="Rain."),), (TextBlock(text="A:"), image)):
        block = (
            Message.tool("tu_01M7YJFK7P2ZFT4X2CGGZPP6M7", "x")
            .tool_results[0]
            .model_copy(update={"content": content, "is_error": True})
        )
        assert tool_result_block(internal_tool_result(block)) == block


@pytest.mark.parametrize(("function", "data", "path"), [
    (call_from_mcp, [], "$"),
    (call_from_mcp, {"arguments": {}}, "$.name"),
    (call_from_openai, {"id": "a", "function": 5}, "$.function"),
    (call_from_openai, {"id": "a", "function": {"name": "f", "arguments": 5}}, "$.function.arguments"),
    (tool_from_openai, {"type": "custom"}, "$.function"),
    (lambda data: result_from_mcp(data, "a"), {"content": [5]}, "$.content"),
    (lambda data: result_from_mcp(data, "a"), {"isError": "no"}, "$.isError"),
])  # fmt: skip
def test_what_is_none_has_a_path(function: Any, data: Any, path: str) -> None:
    with pytest.raises(FormatError) as caught:
        function(data)
    assert caught.value.path == path
