"""Reasoning through OpenRouter: kept unchanged, and sent back only to its own vendor."""

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import RedactedThinkingBlock, TextBlock, ThinkingBlock
from dragoman.canonical.message import Message
from dragoman_adapters.openrouter.adapter import OpenRouterAdapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    encode_request,
    handwritten_chunk,
    handwritten_reply,
    losses,
    read,
    reply_of,
    round_trip,
    stream_message,
)

CLAUDE = OpenRouterAdapter("anthropic/claude-haiku-4.5")
SONNET = OpenRouterAdapter("anthropic/claude-sonnet-4.6")
GEMINI = OpenRouterAdapter("google/gemini-2.5-flash")

SIGNED = {"type": "reasoning.text", "text": "Hm", "signature": "s1", "format": "anthropic-claude-v1", "index": 0}
SEALED = {"type": "reasoning.encrypted", "data": "x", "id": "tool_1", "format": "google-gemini-v1", "index": 1}


def reply(model: str, *details: dict[str, Any]) -> Message:
    native = {"content": "Hi", "reasoning": "Hm", "reasoning_details": list(details)}
    return read({**handwritten_reply(native), "model": model}, OpenRouterAdapter(model))


def history(message: Message) -> list[Message]:
    return [Message.user("Begin"), message, Message.user("Go on")]


@pytest.mark.parametrize("adapter", [CLAUDE, SONNET])
def test_details_return_to_the_same_vendor(adapter: OpenRouterAdapter) -> None:
    """Details return to the same vendor: unchanged and in order, also to another model of its family."""
    message = reply("anthropic/claude-haiku-4.5-20251001", SIGNED, SEALED)
    assert message.content == (
        ThinkingBlock(text="Hm", signature="s1"),
        RedactedThinkingBlock(data="x"),
        TextBlock(text="Hi"),
    )
    body, wire = encode_request(history(message), adapter)
    assert body["messages"][1] == {"role": "assistant", "content": "Hi", "reasoning_details": [SIGNED, SEALED]}
    assert not wire.losses


def test_details_do_not_go_to_another_vendor() -> None:
    """Its models cannot verify them and would refuse them; each one is a loss."""
    message = reply("anthropic/claude-haiku-4.5-20251001", SIGNED, SEALED)
    body, wire = encode_request(history(message), GEMINI)
    assert body["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert losses(wire) == [
        ("thinking", "google/gemini-2.5-flash cannot read thinking of openrouter"),
        ("thinking", "google/gemini-2.5-flash cannot read thinking of openrouter"),
    ]


def test_thinking_from_elsewhere_is_left_out() -> None:
    """Signatures of the same vendor's own API are different."""
    body, wire = encode_request(
        history(
            reply_of("anthropic:claude-haiku-4-5", [ThinkingBlock(text="Hm", signature="s"), TextBlock(text="Hi")])
        ),
        CLAUDE,
    )
    assert body["messages"][1] == {"role": "assistant", "content": "Hi"}
    assert [kind for kind, _ in losses(wire)] == ["thinking"]


def test_streamed_details_return_whole() -> None:
    """The fragments of a signed text are one detail again."""
    fragments = [{"text": "H"}, {"text": "m"}, {"signature": "s1"}]
    about = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    chunks = [
        handwritten_chunk({"reasoning": fragment.get("text"), "reasoning_details": [{**about, **fragment}]})
        for fragment in fragments
    ]
    message = stream_message([*chunks, handwritten_chunk({"content": "Hi"}, "stop"), DONE], CLAUDE)
    changed = message.model_copy(
        update={"metadata": message.metadata.model_copy(update={"model": "openrouter:anthropic/claude-haiku-4.5"})}
    )
    assert encode_request(history(changed), CLAUDE)[0]["messages"][1]["reasoning_details"] == [SIGNED]


def test_recorded_histories_are_rewritten_unchanged() -> None:
    """A decoded request is encoded unchanged for its own model."""
    call = {"id": "toolu_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    body = {
        "model": "anthropic/claude-haiku-4.5",
        "messages": [
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": None, "reasoning_details": [SIGNED], "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "toolu_1", "content": "done"},
        ],
    }
    assert round_trip(body, CLAUDE) == body


@pytest.mark.parametrize(
    ("options", "written"),
    [
        ({"effort": "high"}, {"effort": "high"}),
        ({"thinking": True}, {"enabled": True}),
        ({"thinking": False}, {"enabled": False}),
        ({"thinking": True, "thinking_budget": 2000}, {"enabled": True, "max_tokens": 2000}),
    ],
)
def test_one_field_holds_all_reasoning_options(options: dict[str, Any], written: dict[str, Any]) -> None:
    """Effort, budget and the switch are in one object."""
    body, wire = encode_request([Message.user("Hi")], CLAUDE, **options)
    assert body["reasoning"] == written
    assert not wire.losses
    assert json.loads(wire.body)["reasoning"] == round_trip(body, CLAUDE)["reasoning"]
