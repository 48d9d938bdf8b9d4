"""What all importers have in common: the files of six libraries give the same conversation."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.blocks import RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.message import StopReason
from dragoman.canonical.rules import check
from dragoman.formats import from_cassette, from_langchain, from_litellm, from_pydantic_ai, to_native
from tests.unit.formats.dump_files import dump, dumps


def _cassette(data: bytes) -> list[Message]:
    (conversation,) = from_cassette(data)
    return conversation.messages


def _litellm(data: bytes) -> list[Message]:
    return from_litellm(data, model="anthropic/claude-sonnet-4-6")


_OTHERS = {"every", "result"}
"""Parts of the names of files with other conversations."""

WEATHER: list[tuple[str, Callable[[bytes], list[Message]]]] = [
    *((path.name, from_pydantic_ai) for path in dumps("pydantic_ai_*.json") if not _OTHERS & set(path.stem.split("_"))),
    *((path.name, from_langchain) for path in dumps("langchain_*.json") if not _OTHERS & set(path.stem.split("_"))),
    *((path.name, _litellm) for path in dumps("litellm_*_messages.json")),
    *((path.name, _cassette) for path in dumps("vcr_*")),
]  # fmt: skip
"""The files of one conversation: a question, two calls, their results, the answer."""

weather = pytest.mark.parametrize(("name", "read"), WEATHER, ids=[name for name, _ in WEATHER])


@weather
def test_one_conversation_is_the_same_from_every_library(name: str, read: Callable[[bytes], list[Message]]) -> None:
    """Roles, calls with their input, results with their calls, and the answer."""
    history = [message for message in read(dump(name)) if message.role != "system"]
    assert [str(message.role) for message in history] == ["user", "assistant", "tool", "tool", "assistant"]
    assert history[0].text == "The weather in Bern and Ulm?"
    calls = history[1].tool_uses
    assert [(call.name, call.input) for call in calls] == [("weather", {"city": "Bern"}), ("weather", {"city": "Ulm"})]
    assert [message.tool_results[0].tool_use_id for message in history[2:4]] == [call.id for call in calls]
    assert history[4].text.replace(" ", "") == "RaininBern,suninUlm."


@weather
def test_imported_histories_obey_the_invariants(name: str, read: Callable[[bytes], list[Message]]) -> None:
    """Except for data that no library stores: how a call was routed, and, in lists, its tokens."""
    unknown = ("metadata.routing", "metadata.usage")
    assert [each for each in check(read(dump(name))) if not any(field in each for field in unknown)] == []


COUNTED = [(name, read) for name, read in WEATHER if not name.startswith("litellm")]


@pytest.mark.parametrize(("name", "read"), COUNTED, ids=[name for name, _ in COUNTED])
def test_replies_have_model_tokens_and_reason(name: str, read: Callable[[bytes], list[Message]]) -> None:
    """Buckets are disjoint here, whatever a library counts as input."""
    replies = [message for message in read(dump(name)) if message.role == "assistant"]
    assert [message.stop_reason for message in replies] == [StopReason.TOOL_USE, StopReason.END_TURN]
    usage = replies[0].usage
    assert usage is not None
    provider, _, model = (replies[0].metadata.model or "").partition(":")
    counts = (usage.input_tokens, usage.cached_input_tokens, usage.cache_creation_input_tokens, usage.output_tokens)
    assert (model, counts) in {
        ("claude-sonnet-4-6", (40, 20, 10, 50)),
        ("gpt-4.1-2025-04-14", (40, 20, 0, 40)),
        ("gpt-6.1-sol", (60, 0, 0, 40)),
    }
    assert provider in ("anthropic", "openai", "openai-chat")
    assert usage.cost_usd is None
    if model == "gpt-6.1-sol":
        assert usage.reasoning_tokens == 16


SIGNED = [(name, read) for name, read in WEATHER if "anthropic" in name]


@pytest.mark.parametrize(("name", "read"), SIGNED, ids=[name for name, _ in SIGNED])
def test_signed_thinking_returns_to_its_issuer(name: str, read: Callable[[bytes], list[Message]]) -> None:
    """As Anthropic requires, byte for byte and in its place."""
    history = read(dump(name))
    assert [block for message in history for block in message.content if isinstance(block, RedactedThinkingBlock)]
    native = to_native("anthropic", history, model="claude-sonnet-4-6").data
    listed: Any = native["messages"] if isinstance(native, dict) else native
    reply = next(message for message in listed if message["role"] == "assistant")
    assert [part["type"] for part in reply["content"]] == [
        "thinking", "redacted_thinking", "text", "tool_use", "tool_use",
    ]  # fmt: skip
    assert reply["content"][0] == {"type": "thinking", "thinking": "Two cities.", "signature": "c2lnbmF0dXJl"}
    assert reply["content"][1] == {"type": "redacted_thinking", "data": "c2VhbGVk"}


SEALED = [(name, read) for name, read in WEATHER if "responses" in name]


@pytest.mark.parametrize(("name", "read"), SEALED, ids=[name for name, _ in SEALED])
def test_encrypted_reasoning_returns_to_its_issuer(name: str, read: Callable[[bytes], list[Message]]) -> None:
    """Without it, the next request would be refused or ignore the reasoning."""
    history = read(dump(name))
    (thought,) = (block for message in history for block in message.content if isinstance(block, ThinkingBlock))
    assert (thought.text, thought.signature) == ("Two cities.", "Z0FBQUE=")
    native = json.dumps(to_native("openai", history, model="gpt-6.1-sol").data)
    assert '"encrypted_content": "Z0FBQUE="' in native
