"""Whole replies: their content, their stop reasons, and what is sent back."""

import json
from typing import Any

import pytest

from dragoman.adapter.errors import ContentFilterError, DragomanError, MalformedReplyError, RateLimitError
from dragoman.canonical.blocks import AudioBlock, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import CostStatus, Usage
from tests.tables import each_row
from tests.unit.adapters.openai_chat.wire import adapter, context, encode_request, handwritten_reply, losses, read

CALL: dict[str, Any] = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
}


def shape(message: Message) -> list[tuple[Any, ...]]:
    """The blocks of a message in short."""
    short: list[tuple[Any, ...]] = []
    for block in message.content:
        match block:
            case TextBlock() | ThinkingBlock():
                short.append((block.type, block.text))
            case ToolUseBlock():
                short.append((block.name, block.input, block.raw_input))
            case _:
                short.append((block.type,))
    return short


HANDWRITTEN_REPLIES: list[tuple[str, dict[str, Any], str | None, list[tuple[Any, ...]], str]] = [
    ("text", {"content": "Hi"}, "stop", [("text", "Hi")], "end_turn"),
    ("nothing", {"content": None}, "stop", [], "end_turn"),
    ("no finish reason", {"content": "Hi"}, None, [("text", "Hi")], "end_turn"),
    ("an empty finish reason", {"content": "Hi"}, "", [("text", "Hi")], "end_turn"),
    ("an unknown finish reason", {"content": "Hi"}, "eos", [("text", "Hi")], "end_turn"),
    ("cut by the limit", {"content": "Hi"}, "length", [("text", "Hi")], "max_tokens"),
    ("cut by the window", {"content": "Hi"}, "model_length", [("text", "Hi")], "context_overflow"),
    ("filtered", {"content": ""}, "content_filter", [], "refusal"),
    ("failed", {"content": "Hi"}, "error", [("text", "Hi")], "error"),
    ("refused", {"content": None, "refusal": "No."}, "stop", [("text", "No.")], "refusal"),
    (
        "a call",
        {"content": None, "tool_calls": [CALL]},
        "tool_calls",
        [("weather", {"city": "Oslo"}, None)],
        "tool_use",
    ),
    ("a call that ends with stop", {"tool_calls": [CALL]}, "stop", [("weather", {"city": "Oslo"}, None)], "tool_use"),
    (
        "a call of the older form",
        {"content": None, "function_call": {"name": "add", "arguments": '{"a": 1}'}},
        "function_call",
        [("add", {"a": 1}, None)],
        "tool_use",
    ),
    ("an empty call of the older form", {"content": "Hi", "function_call": {"name": "", "arguments": ""}}, "stop",
     [("text", "Hi")], "end_turn"),
    ("no arguments", {"tool_calls": [{**CALL, "function": {"name": "now"}}]}, "tool_calls",
     [("now", {}, None)], "tool_use"),
    ("arguments as an object", {"tool_calls": [{**CALL, "function": {"name": "f", "arguments": {"a": 1}}}]},
     "tool_calls", [("f", {"a": 1}, None)], "tool_use"),
    ("malformed arguments", {"tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{a"}}]}, "tool_calls",
     [("f", {}, "{a")], "tool_use"),
    ("arguments cut before they began", {"tool_calls": [{**CALL, "function": {"name": "f", "arguments": ""}}]},
     "length", [("f", {}, "")], "max_tokens"),
    ("a custom tool", {"tool_calls": [{"id": "call_2", "type": "custom", "custom": {"name": "sum", "input": "4+4"}}]},
     "tool_calls", [("sum", {"input": "4+4"}, None)], "tool_use"),
    ("reasoning", {"reasoning_content": "Hm", "content": "Hi"}, "stop", [("thinking", "Hm"), ("text", "Hi")],
     "end_turn"),
    ("reasoning under two names", {"reasoning": "Hm", "reasoning_content": "Hm", "content": "Hi"}, "stop",
     [("thinking", "Hm"), ("text", "Hi")], "end_turn"),
    ("content in parts", {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]},
                                      {"type": "text", "text": "Hi"}]}, "stop",
     [("thinking", "Hm"), ("text", "Hi")], "end_turn"),
]  # fmt: skip


@each_row(
    ("message", "finish", "blocks", "reason"),
    [case[1:] for case in HANDWRITTEN_REPLIES],
)
def test_a_reply_becomes_blocks_and_a_reason(
    message: dict[str, Any], finish: str | None, blocks: list[tuple[Any, ...]], reason: str
) -> None:
    """Every shape of a reply has its blocks, in the order thinking, text, calls, and one reason to stop."""
    read_message = read(handwritten_reply(message, finish))
    assert (shape(read_message), read_message.stop_reason) == (blocks, reason)


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hi"},
        {"content": None, "refusal": "No."},
        {"content": "Wait", "tool_calls": [CALL]},
        {"content": None, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{ "a": 1}'}}]},
        {"content": None, "tool_calls": [{**CALL, "function": {"name": "f", "arguments": "{a"}}]},
        {"content": None, "tool_calls": [{**CALL, "extra_content": {"google": {"thought_signature": "sig"}}}]},
        {
            "content": None,
            "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sum", "input": "4+4"}}],
        },
        {"content": None, "function_call": {"name": "add", "arguments": '{ "a": 1}'}},
    ],
    ids=str,
)
def test_a_reply_is_sent_back_unchanged(message: dict[str, Any]) -> None:
    """The provider gets its own reply back unchanged, down to the white space of arguments."""
    reply = read(handwritten_reply(message))
    body, _ = encode_request([Message.user("Hi"), reply])
    assert body["messages"][1] == {"role": "assistant", **message}


def test_reply_only_fields_are_not_sent_back() -> None:
    """An index, a null and fields of replies only are not sent; provider_raw keeps what no other field holds."""
    call = {**CALL, "index": 0, "note": None}
    reply = read(handwritten_reply({"content": None, "annotations": [], "padding": "x", "tool_calls": [call]}))
    body, _ = encode_request([reply])
    assert body["messages"][0] == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert reply.metadata.provider_raw is not None
    assert reply.metadata.provider_raw["message"] == {"padding": "x"}


def test_further_choices_are_kept() -> None:
    """Only choice 0 is the message, at any place in the list."""
    first = {"index": 0, "message": {"role": "assistant", "content": "one"}, "finish_reason": "stop"}
    second = {"index": 1, "message": {"role": "assistant", "content": "two"}, "finish_reason": "stop"}
    reply = read({"id": "x", "choices": [second, first]})
    assert reply.text == "one"
    assert reply.metadata.provider_raw is not None
    assert reply.metadata.provider_raw["choices"] == [second]


def test_annotations_become_citations() -> None:
    """url_citation annotations become citations of the text; they are not sent again, which is a loss."""
    source = {
        "type": "url_citation",
        "url_citation": {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2},
    }
    reply = read(handwritten_reply({"content": "Hi", "annotations": [source]}))
    (text,) = reply.content
    assert isinstance(text, TextBlock)
    (citation,) = text.citations
    assert (citation.kind, citation.url, citation.start, citation.end, citation.data) == (
        "url_citation", "https://a.test", 0, 2, source,
    )  # fmt: skip
    body, wire = encode_request([reply])
    assert body["messages"][0]["content"] == "Hi"
    assert losses(wire) == [("citations", "the sources of a text are not sent")]


def test_generated_audio_returns_as_its_transcript() -> None:
    """The wire accepts no audio from an assistant; its transcript is kept."""
    audio = {"id": "audio_1", "data": "QUJD", "transcript": "Hello", "expires_at": 1}
    reply = read(handwritten_reply({"content": None, "audio": audio}), adapter("gpt-audio"))
    (block,) = reply.content
    assert isinstance(block, AudioBlock)
    assert (block.source.data, block.transcript) == ("QUJD", "Hello")
    body, _ = encode_request([reply], adapter("gpt-audio"))
    assert body["messages"][0] == {"role": "assistant", "content": "Hello"}


def test_an_unknown_kind_of_call_is_kept_whole() -> None:
    """A kind without a canonical form is sent back in its place."""
    call = {"id": "call_3", "type": "teleport", "teleport": {"to": "Oslo"}}
    reply = read(handwritten_reply({"content": None, "tool_calls": [call]}))
    assert reply.content == (ProviderBlock(provider="openai-chat", kind="teleport", data=call),)
    body, _ = encode_request([reply])
    assert body["messages"][0]["tool_calls"] == [call]


@pytest.mark.parametrize(
    ("native", "kind"),
    [
        ({}, MalformedReplyError),
        ({"choices": []}, MalformedReplyError),
        ({"choices": [{"index": 0}]}, MalformedReplyError),
        ([], MalformedReplyError),
        (
            handwritten_reply({"tool_calls": [{**CALL, "function": {"name": "", "arguments": "{}"}}]}),
            MalformedReplyError,
        ),
        (handwritten_reply({"content": [{"text": "no type"}]}), MalformedReplyError),
        ({"error": {"message": "filtered", "code": "content_filter", "status": 400}}, ContentFilterError),
        ({"choices": [{"index": 0, "error": {"code": 429, "message": "slow"}}]}, RateLimitError),
    ],
)
def test_an_invalid_reply_is_a_typed_error(native: Any, kind: type[DragomanError]) -> None:
    """A body of another shape, or an error under status 200, never passes as a reply."""
    with pytest.raises(kind):
        read(native)


def test_a_client_gets_counts_by_the_names_of_its_wire() -> None:
    """The counts of the provider are repeated only if they have these names: its SDK requires them."""
    chat = adapter()
    own = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "rate": "low"}
    for raw, rate in ((own, "low"), ({"total_tokens": 5}, None), (None, None)):
        usage = Usage(input_tokens=3, output_tokens=2, raw=raw, cost_status=CostStatus.UNPRICED)
        metadata = MessageMetadata(provider=chat.provider, model=str(chat.model_id), usage=usage)
        message = Message.assistant("Hi.", metadata=metadata)
        counted = json.loads(chat.to_wire_response(message, context(chat)).body)["usage"]
        assert [counted[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")] == [3, 2, 5]
        assert counted.get("rate") == rate
