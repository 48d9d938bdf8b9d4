"""Reasoning in typed details: read as blocks, streamed in fragments, sent back unchanged and in order."""

from typing import Any

import pytest

from dragoman.canonical.blocks import ProviderBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock
from dragoman.canonical.events import ThinkingDelta
from dragoman.canonical.message import Message
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    adapter,
    adapter_with,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    losses,
    read,
    reply_of,
    round_trip,
    stream,
    stream_message,
)

TEXT = {"type": "reasoning.text", "text": "Hm", "signature": "s1", "format": "f", "index": 0}
SUMMARY = {"type": "reasoning.summary", "summary": "In short", "format": "f", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "format": "f", "index": 0}
OTHER = {"type": "reasoning.server_tool_call", "name": "search", "index": 2}


def details_reply(reads: str = "other:*") -> ChatAdapter:
    chat = adapter("any", reasoning_details=True, reasoning_replay="always", reasoning_fields=("reasoning",))
    return adapter_with(chat, supports_prefill="native", thinking_policy={"reads_from": [reads], "own_unsigned": True})


def assistant(chat: ChatAdapter, message: Message) -> dict[str, Any]:
    found: dict[str, Any] = encode_request([message], chat)[0]["messages"][0]
    return found


def test_details_become_blocks() -> None:
    """A text with its signature, a summary, an encrypted one, and unknown kinds; the plain text repeats them."""
    details = [TEXT, SUMMARY, SEALED, OTHER]
    message = read(
        handwritten_reply({"content": "Hi", "reasoning": "HmIn short", "reasoning_details": details}), details_reply()
    )
    assert message.content == (
        ThinkingBlock(text="Hm", signature="s1"),
        ThinkingBlock(text="In short"),
        RedactedThinkingBlock(data="x"),
        ProviderBlock(provider="other", kind="reasoning.server_tool_call", data=OTHER),
        TextBlock(text="Hi"),
    )
    assert assistant(details_reply(), message) == {"role": "assistant", "content": "Hi", "reasoning_details": details}


def test_encrypted_details_keep_the_plain_text() -> None:
    """If no detail is readable, the plain text is kept as separate content."""
    message = read(
        handwritten_reply({"content": "Hi", "reasoning": "Hm", "reasoning_details": [SEALED]}), details_reply()
    )
    assert [block.type for block in message.content] == ["thinking", "redacted_thinking", "text"]
    assert assistant(details_reply(), message) == {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "Hm",
        "reasoning_details": [SEALED],
    }


def test_streamed_details_are_assembled() -> None:
    """Fragments of one kind and index are one detail, up to its signature; encrypted ones come whole."""

    def chunk(*details: dict[str, Any]) -> bytes:
        text = "".join(detail.get("text") or "" for detail in details)
        return handwritten_chunk({"reasoning": text or None, "reasoning_details": details})

    def fragment(**fields: Any) -> dict[str, Any]:
        return {"type": "reasoning.text", "format": "f", "index": 0, **fields}

    chunks = [
        chunk(fragment(text="H")),
        chunk(fragment(text="m")),
        chunk(fragment(signature="s1")),
        chunk(fragment(text="So")),
        chunk(SEALED, {**SEALED, "data": "y"}),
        handwritten_chunk({"content": "Hi"}, "stop"),
        DONE,
    ]
    events = [event for event in stream(chunks, details_reply()) if isinstance(event, ThinkingDelta)]
    assert [(event.content_block_index, event.text, event.signature, event.redacted) for event in events] == [
        (0, "H", None, None),
        (0, "m", None, None),
        (0, "", "s1", None),
        (1, "So", None, None),
        (2, "", None, SEALED["data"]),
        (3, "", None, "y"),
    ]
    details = [TEXT, fragment(text="So"), SEALED, {**SEALED, "data": "y"}]
    message = stream_message(chunks, details_reply())
    assert assistant(details_reply(), message) == {"role": "assistant", "content": "Hi", "reasoning_details": details}
    assert message == read(handwritten_reply({"content": "Hi", "reasoning_details": details}), details_reply())


@pytest.mark.parametrize("plain", [{}, {"reasoning": "Hm"}])
def test_requests_keep_their_details(plain: dict[str, Any]) -> None:
    """A recorded history is sent back unchanged, with or without the plain text next to its details."""
    reply = {"role": "assistant", "content": "Hi", **plain, "reasoning_details": [TEXT, SEALED]}
    body = {"model": "any", "messages": [{"role": "user", "content": "?"}, reply, {"role": "user", "content": "!"}]}
    assert round_trip(body, details_reply()) == body


@pytest.mark.parametrize("plain", [{}, {"reasoning": "Hm"}])
def test_another_family_gets_no_details(plain: dict[str, Any]) -> None:
    """The same provider with another model behind it gets no detail, nor the plain text, which is a loss."""
    chat = details_reply("other:elsewhere*")
    reply = {"role": "assistant", "content": "Hi", **plain, "reasoning_details": [TEXT, SEALED]}
    body = {"model": "any", "messages": [reply]}
    assert round_trip(body, chat)["messages"] == [{"role": "assistant", "content": "Hi"}]
    message = read(handwritten_reply({"content": "Hi", **plain, "reasoning_details": [TEXT, SEALED]}), chat)
    _, wire = encode_request([message], chat)
    assert [kind for kind, _ in losses(wire)] == ["thinking", "thinking"]


def test_signed_thinking_becomes_a_detail() -> None:
    """Thinking from another wire becomes a detail if details can hold its signature."""
    message = reply_of("other:any", [ThinkingBlock(text="Hm", signature="s1"), ThinkingBlock(text="So")])
    assert assistant(details_reply(), message) == {
        "role": "assistant",
        "content": "",
        "reasoning_details": [{"type": "reasoning.text", "text": "Hm", "signature": "s1"}],
        "reasoning": "So",
    }


def test_endpoints_without_details_ignore_them() -> None:
    """An endpoint without details may use the name for something else; encrypted thinking is a loss there."""
    plain = adapter_with(
        adapter("any", reasoning_replay="always"),
        supports_prefill="native",
        thinking_policy={"reads_from": ["other:*"]},
    )
    message = read(handwritten_reply({"content": "Hi", "reasoning_details": [{"of": "its own"}]}), plain)
    assert message.content == (TextBlock(text="Hi"),)
    body, wire = encode_request([reply_of("other:any", [RedactedThinkingBlock(data="x"), TextBlock(text="Hi")])], plain)
    assert body["messages"] == [{"role": "assistant", "content": "Hi"}]
    assert [kind for kind, _ in losses(wire)] == ["thinking"]
