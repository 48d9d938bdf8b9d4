"""LiteLLM's lists and replies: thinking next to the content, and the model of each reply."""

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import ThinkingBlock
from dragoman.canonical.message import StopReason
from dragoman.formats import FormatError, from_litellm
from tests.unit.formats.dump_files import dump


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("anthropic/claude-sonnet-4-6", ("anthropic:claude-sonnet-4-6", "anthropic")),
        ("gemini/gemini-3-flash", ("google:gemini-3-flash", "google")),
        ("openrouter/anthropic/claude-haiku-4.5", ("openrouter:anthropic/claude-haiku-4.5", "openrouter")),
        ("gpt-4.1", ("gpt-4.1", None)),
        (None, (None, None)),
    ],
)
def test_the_model_of_a_list_is_unknown(model: str | None, expected: tuple[str | None, str | None]) -> None:
    """A list does not name it."""
    reply = from_litellm(dump("litellm_anthropic_messages.json"), model=model)[2]
    assert (reply.metadata.model, reply.metadata.provider) == expected


def test_a_reply_is_read_alone_and_after_its_messages() -> None:
    """A reply is read alone and after its messages with its tokens, its reason and its model."""
    reply = json.loads(dump("litellm_anthropic_response.json"))
    (alone,) = from_litellm(reply)
    assert alone.text == "Rain in Bern, sun in Ulm."
    assert alone.stop_reason is StopReason.END_TURN
    assert alone.usage is not None
    assert (alone.usage.input_tokens, alone.usage.output_tokens) == (130, 9)
    before = json.loads(dump("litellm_anthropic_messages.json"))[:-1]
    whole = from_litellm({"model": "anthropic/claude-sonnet-4-6", "messages": before, "response": reply})
    assert len(whole) == len(before) + 1
    assert whole[-1].metadata.model == "anthropic:claude-sonnet-4-6"


def test_reasoning_without_blocks_is_thinking() -> None:
    (reply,) = from_litellm([{"role": "assistant", "content": "a", "reasoning_content": "Hm."}])
    assert reply.content[0] == ThinkingBlock(text="Hm.")


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([{"role": "user", "content": "a"}, {"role": "assistant", "thinking_blocks": 5}], "$[1].thinking_blocks"),
        ([{"role": "assistant", "tool_calls": [{"function": 5}]}], "$[0]"),
        ({"messages": [{"role": "user", "content": "a"}, {"role": 5}]}, "$.messages[1]"),
        ({"choices": []}, "$.choices"),
        ({"model": "gpt-4.1"}, "$.choices"),
        ({"messages": [], "response": {"choices": [{"message": 5}]}}, "$.response.choices[0].message"),
    ],
)
def test_errors_have_the_path_of_the_fault(document: Any, path: str) -> None:
    """Of the message, and of the field if it is LiteLLM's own."""
    with pytest.raises(FormatError) as caught:
        from_litellm(document)
    assert caught.value.path == path
