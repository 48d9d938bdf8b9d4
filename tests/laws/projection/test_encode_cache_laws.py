"""Laws of requests that are built step by step: caches of earlier ones change the effort only."""

import json
from collections import Counter
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import AdapterOptions, DragomanError, Message, RequestContext, Role, WireRequest, get_adapter
from dragoman.adapter.losses import Loss
from dragoman.adapter.requests import encode_cache
from dragoman.testing.strategies import histories
from tests.sampling import examples

MODELS = (
    "anthropic:claude-opus-5-5",
    "openai:gpt-6.1-sol",
    "openai-chat:gpt-6-luna",
    "ollama:qwen3:4b",
    "local:smollm2-135m",
    "google:gemini-3-flash-preview",
    "google-vertex:gemini-2.5-flash",
    "cohere:command-a-plus-05-2026",
    "bedrock:us.anthropic.claude-sonnet-4-6",
    "deepseek:deepseek-v4-flash",
    "perplexity:sonar",
    "mistral:mistral-large-latest",
    "openrouter:anthropic/claude-haiku-4.5",
)


def build_request(model: str, history: list[Message], context: RequestContext) -> WireRequest | str:
    """The request, or why there is none."""
    try:
        return get_adapter(model).to_wire(history, [], AdapterOptions(context=context))
    except DragomanError as error:
        return str(error)


def body_and_losses(wire: WireRequest | str) -> tuple[Any, Counter[Loss]]:
    return (wire, Counter()) if isinstance(wire, str) else (wire.body, Counter(wire.losses))


@pytest.mark.parametrize("model", MODELS)
@examples(30)
@given(data=st.data())
def test_a_growing_history_is_sent_like_a_new_one(model: str, data: st.DataObject) -> None:
    """Each request of a session has the bytes and the losses of one without earlier ones."""
    history = data.draw(histories(max_scenes=8))
    session = RequestContext(model=model, session_id="s")
    for end in range(1, len(history) + 1):
        afresh = RequestContext(model=model, session_id="s")
        assert body_and_losses(build_request(model, history[:end], session)) == body_and_losses(
            build_request(model, history[:end], afresh)
        )


@pytest.mark.parametrize("model", MODELS)
@examples(30)
@given(history=histories(max_scenes=8))
def test_a_long_history_is_encoded_in_stretches_like_at_once(model: str, history: list[Message]) -> None:
    """Its items are never in memory all at once. A stretch is as short as it can be here."""
    at_once = build_request(model, history, RequestContext(model=model, session_id="s"))
    with mock.patch.object(encode_cache, "_CHUNK_ITEMS", 1):
        in_stretches = build_request(model, history, RequestContext(model=model, session_id="s"))
    assert body_and_losses(in_stretches) == body_and_losses(at_once)


@pytest.mark.parametrize("model", MODELS)
def test_sent_messages_are_not_encoded_again(model: str) -> None:
    """The messages before the last question of a long conversation are cached."""
    history = [
        message for number in range(20) for message in (Message.user(f"Why {number}?"), Message.assistant("So."))
    ]
    context = RequestContext(model=model, session_id="s")
    first = build_request(model, [Message.system("Be brief."), *history, Message.user("And?")], context)
    (kept,) = context.encode_cache.prefixes.values()
    again = build_request(model, [Message.system("Be long."), *history, Message.user("And so?")], context)
    assert isinstance(first, WireRequest)
    assert isinstance(again, WireRequest)
    assert len(kept.messages) == 40
    assert json.loads(again.body) == json.loads(
        first.body.replace(b"Be brief.", b"Be long.").replace(b"And?", b"And so?")
    )


@pytest.mark.parametrize("model", MODELS)
def test_empty_turns_are_not_cached_twice(model: str) -> None:
    """Their placeholder appears once."""
    history = [
        Message.assistant(""),
        Message.user(""),
        Message.assistant([]),
        Message.user("Hi"),
        Message.assistant(""),
    ]
    session = RequestContext(model=model, session_id="s")
    for end in range(1, len(history) + 1):
        afresh = RequestContext(model=model, session_id="s")
        assert body_and_losses(build_request(model, history[:end], session)) == body_and_losses(
            build_request(model, history[:end], afresh)
        )


def test_another_history_is_not_mistaken_for_the_one_before() -> None:
    """Equal messages are not the same ones, and an edited history is encoded again."""
    context = RequestContext(model=MODELS[0], session_id="s")
    history = [Message.user("One?"), Message.assistant("1."), Message.user("Two?"), Message.assistant("2.")]
    build_request(MODELS[0], [*history, Message.user("Three?")], context)
    edited = [history[0], Message.assistant("One."), *history[2:], Message.user("Three?")]
    wire = build_request(MODELS[0], edited, context)
    assert isinstance(wire, WireRequest)
    assert b"One." in wire.body
    assert b"1." not in wire.body
    assert [message.role for message in edited].count(Role.USER) == 3
