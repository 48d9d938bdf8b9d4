"""Endpoints with both of OpenAI's APIs: the shape of the data shows which one, and a conversation stays in its API."""

import json
from typing import Any

import pytest

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import AuthenticationError, MalformedReplyError, ServerError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete, TextDelta
from dragoman.canonical.message import Message
from dragoman.canonical.server_tools import WebSearch
from dragoman_adapters.openrouter.adapter import OpenRouterAdapter
from tests.unit.adapters.compatible.test_endpoint_row import adapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    context,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    losses,
    read,
    reply_of,
    round_trip,
    stream,
)

GROK = adapter("xai", "grok-4.5")
DEEPSEEK = adapter("deepseek", "deepseek-v4-flash")

MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
}
SEARCH = {"id": "ws_1", "type": "web_search_call", "status": "completed"}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "x"}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "grok-4.5",
    "output": [THOUGHT, SEARCH, MESSAGE],
}


def frame(data: dict[str, Any]) -> bytes:
    return f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()


RESPONSE_STREAM = [
    frame({"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}}),
    frame({"type": "response.output_item.added", "output_index": 0, "item": {**MESSAGE, "content": []}}),
    frame({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"}),
    frame({"type": "response.completed", "response": {**RESPONSE, "output": [MESSAGE]}}),
]
CHAT_STREAM = [handwritten_chunk({"content": "Hi"}), handwritten_chunk({}, "stop"), DONE]


@pytest.mark.parametrize("both", [GROK, DEEPSEEK])
def test_replies_of_either_api_are_read(both: Adapter) -> None:
    """Whole or streamed, wherever a new conversation would begin."""
    assert read(RESPONSE, both).text == "Hi"
    assert read(handwritten_reply({"content": "Hi"}), both).text == "Hi"
    for chunks in (RESPONSE_STREAM, CHAT_STREAM):
        events = stream([b": comment\n\n", *chunks], both)
        assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi"]
        last = events[-1]
        assert isinstance(last, MessageComplete)
        assert last.message.text == "Hi"


@pytest.mark.parametrize(("both", "path"), [(GROK, "/responses"), (DEEPSEEK, "/chat/completions")])
def test_a_conversation_starts_in_the_first_api(both: Adapter, path: str) -> None:
    """It continues in its API, also if that is the second one."""
    begun = [Message.user("Hi")]
    assert encode_request(begun, both)[1].path == path
    assert encode_request([*begun, read(RESPONSE, both), Message.user("?")], both)[1].path == "/responses"
    chatted = [*begun, read(handwritten_reply({"content": "Hi"}), both), Message.user("?")]
    assert encode_request(chatted, both)[1].path == "/chat/completions"


def test_streamed_replies_keep_their_api() -> None:
    """Streamed replies keep their API, also the partial message of a broken one."""
    for chunks, path in ((RESPONSE_STREAM, "/responses"), (CHAT_STREAM, "/chat/completions")):
        whole, cut = stream(chunks, DEEPSEEK)[-1], stream(chunks[:-1], DEEPSEEK)[-1]
        assert isinstance(whole, MessageComplete)
        assert isinstance(cut, ErrorEvent)
        assert cut.partial is not None
        for message in (whole.message, cut.partial):
            assert encode_request([Message.user("Hi"), message, Message.user("?")], DEEPSEEK)[1].path == path


def test_native_items_go_back_in_their_api() -> None:
    """Reasoning and the provider's own calls unchanged."""
    body, wire = encode_request([Message.user("Hi"), read(RESPONSE, GROK), Message.user("?")], GROK)
    assert body["input"][1:3] == [THOUGHT, SEARCH]
    assert not wire.losses


def test_native_items_of_the_other_api_are_losses() -> None:
    """If a history comes from both, the earliest message decides; native calls of the other API are text."""
    chatted = read(handwritten_reply({"content": "Hi"}), GROK)
    body, wire = encode_request(
        [Message.user("?"), chatted, Message.user("!"), read(RESPONSE, GROK), Message.user("?")], GROK
    )
    assert wire.path == "/chat/completions"
    texts = [part["text"] for part in body["messages"][3]["content"]]
    assert texts == ["[xai's other API ran its tool web_search earlier]", "Hi"]
    reason = "the web_search_call of xai's other API means nothing elsewhere"
    assert ("native_block", reason) in losses(wire)


def test_requests_of_either_api_are_rewritten() -> None:
    chat = {"model": "grok-4.5", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}
    responses = {"model": "grok-4.5", "input": [{"role": "user", "content": "Hi"}], "store": False}
    stored = {"model": "grok-4.5", "input": [], "previous_response_id": "resp_1"}
    for both in (GROK, adapter("deepseek", "grok-4.5")):
        for body in (chat, responses, stored):
            assert round_trip(body, both) == body


GRAMMAR = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: WORD"}}
CUSTOM_IN_CHAT = {"type": "custom", "custom": {"name": "c", "description": "d", "format": GRAMMAR}}
CUSTOM_IN_RESPONSES = {
    "type": "custom",
    "name": "c",
    "description": "d",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: WORD"},
}
UNKNOWN_IN_CHAT = {"type": "new_kind", "new_kind": {"name": "n"}}


@pytest.mark.parametrize("provider", ["azure-openai", "xai", "deepseek", "openrouter"])
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-5"])
def test_native_tools_stay_in_their_api(provider: str, model: str) -> None:
    """A request of one API is not moved to the other for a tool that is in the first one's form already."""
    both = get_adapter(f"{provider}:{model}")
    chat = {"model": model, "messages": [{"role": "user", "content": "Hi"}], "tools": [CUSTOM_IN_CHAT]}
    responses = {"model": model, "input": [{"role": "user", "content": "Hi"}], "tools": [CUSTOM_IN_RESPONSES]}
    for body in (chat, responses):
        assert round_trip(body, both) == body


@pytest.mark.parametrize(
    ("provider", "sent"),
    [
        ("azure-openai", CUSTOM_IN_RESPONSES),
        ("xai", {"type": "function", "name": "c"}),  # it has no custom tools
    ],
)
def test_tools_of_the_other_api_are_translated(provider: str, sent: dict[str, Any]) -> None:
    """A web search moves a request to the Responses API, and its other tools with it: none is in Chat's form there."""
    both = adapter(provider, "gpt-5")
    function = {"type": "function", "function": {"name": "f", "x_new": 1}, "x_new": 2}
    body = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [CUSTOM_IN_CHAT, function, UNKNOWN_IN_CHAT],
    }
    messages, tools, _ = both.from_wire_request(body, context(both))
    stored = {provider: {"previous_response_id": "resp_1"}}
    encoded, wire = encode_request(messages, both, [*tools, WebSearch()], extra=stored)
    assert wire.path == "/responses"
    own, plain, search = encoded["tools"]
    assert {name: own[name] for name in sent} == sent
    assert (plain["name"], search["type"]) == ("f", "web_search")
    assert "x_new" not in json.dumps(encoded)
    assert f"the tool n runs at {provider}'s other API only" in [loss.reason for loss in wire.losses]


def test_stored_state_belongs_to_one_api() -> None:
    """Only the Responses API can continue a stored response."""
    extra = {"deepseek": {"previous_response_id": "resp_1"}}
    assert encode_request([Message.user("Hi")], DEEPSEEK, extra=extra)[1].path == "/responses"


def test_errors_are_the_same_in_both_apis() -> None:
    """Errors are the same in both APIs by status, by the first frame of a stream, and with an empty body."""
    error = {"error": {"message": "The server had an error", "type": "server_error", "code": None}}
    last = stream([b"data: " + json.dumps(error).encode() + b"\n\n"], GROK)[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, ServerError)
    assert last.partial is None
    refused = WireResponse(status=400, body=b'{"code": "invalid-argument", "error": "Incorrect API key provided."}')
    with pytest.raises(AuthenticationError):
        GROK.from_wire_response(refused, context(GROK))
    with pytest.raises(MalformedReplyError):
        GROK.from_wire_response(WireResponse(status=200, body=b"<html>"), context(GROK))
    broken = stream([b"data: <html>\n\n"], GROK)[-1]
    assert isinstance(broken, ErrorEvent)
    assert isinstance(broken.error, MalformedReplyError)


def test_an_empty_stream_is_truncated() -> None:
    last = stream([], GROK)[-1]
    assert isinstance(last, ErrorEvent)
    assert type(last.error).__name__ == "StreamTruncatedError"


def test_capabilities_are_those_of_the_first_api() -> None:
    """A new conversation begins in it."""
    assert GROK.capabilities.thinking_policy.own_unsigned
    assert GROK.capabilities.supports_developer_role
    assert repr(OpenRouterAdapter("a/b")) == "OpenRouterAdapter('openrouter:a/b')"


def test_foreign_replies_are_sent_in_the_first_api() -> None:
    """A history of another provider decides nothing."""
    other = reply_of("openai:gpt-5", [ThinkingBlock(text="Hm"), TextBlock(text="Hi")])
    block = ProviderBlock(provider="openai", kind="web_search_call", data=SEARCH)
    body, wire = encode_request([Message.user("?"), other, reply_of("openai:gpt-5", [block]), Message.user("!")], GROK)
    assert wire.path == "/responses"
    assert "web_search_call" not in json.dumps(body)


def test_cached_items_of_one_api_are_not_sent_in_the_other() -> None:
    """A session that moves to the other API encodes its whole history again: items have another form there."""
    earlier = [Message.user("?"), reply_of("openai:gpt-5", [TextBlock(text="Hi")]), Message.user("!")]
    in_chat = read(handwritten_reply({"content": "Hi"}), GROK)
    session = context(GROK)
    for history in (earlier, [*earlier, in_chat, Message.user("And?")]):
        grown = GROK.to_wire(history, (), AdapterOptions(context=session))
        fresh = GROK.to_wire(history, (), AdapterOptions(context=context(GROK)))
        assert (grown.path, grown.body) == (fresh.path, fresh.body)
    assert grown.path == "/chat/completions"
