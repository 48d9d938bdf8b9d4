"""Counts: each token in one bucket, whole and streamed alike, whoever asked for them."""

import json
from typing import Any

from tests.gateway.cases.talk import Talk
from tests.gateway.cases.test_thinking import messages_stream
from tests.gateway.scripted import CHAT_USAGE, JSON, Answer, answer_with, chat_events, reply

ASKED: Any = {"stream_options": {"include_usage": True}}


def test_tokens_that_were_written_to_a_cache_count_once(talk: Talk) -> None:
    """3 tokens beside 12,304 that were written to the cache, on each wire in its own convention."""
    body = messages_stream({"type": "text", "text": "Yes."}, stop="end_turn").replace(
        b'"input_tokens":20', b'"input_tokens":3,"cache_creation_input_tokens":12304,"cache_read_input_tokens":0'
    ).replace(b'"input_tokens": 20', b'"input_tokens": 3, "cache_creation_input_tokens": 12304')  # fmt: skip
    talk.upstream.answer_in_turn(Answer([body]))
    chat = talk.ask("openai-chat", "messages-model", **ASKED).events[-1]["usage"]
    assert (chat["prompt_tokens"], chat["prompt_tokens_details"]["cached_tokens"]) == (12307, 0)
    assert chat["prompt_tokens_details"]["cache_write_tokens"] == 12304
    responses = talk.ask("openai", "messages-model").events[-1]["response"]["usage"]
    assert (responses["input_tokens"], responses["total_tokens"]) == (12307, 12307 + 9)


def test_tokens_from_a_cache_are_outside_of_the_input_for_messages(talk: Talk) -> None:
    """2,455 of 2,459 came from the cache, streamed and whole."""
    talk.upstream.script = answer_with(reply("Yes.", input_tokens=4, cached_tokens=2455))
    for model in ("chat-model", "google-model", "responses-model"):
        whole, streamed = talk.both("anthropic", model)
        counts = [whole.body["usage"], streamed.events[-2]["usage"]]
        assert [(each["input_tokens"], each["cache_read_input_tokens"]) for each in counts] == [(4, 2455)] * 2, model


def test_the_counts_of_the_start_and_of_the_end_are_one_sum(talk: Talk) -> None:
    """A Messages provider names the input at the start, and the output at the end."""
    talk.upstream.script = answer_with(reply("Yes.", input_tokens=1000, output_tokens=50))
    usage = talk.ask("openai-chat", "messages-model", **ASKED).events[-1]["usage"]
    assert usage["total_tokens"] == 1050


def test_the_provider_is_always_asked_for_its_counts(talk: Talk) -> None:
    """On another wire, also if the client did not ask: without them a stream could not be billed."""
    for wire, model in (("anthropic", "chat-model"), ("openai", "chat-model"), ("openai-chat", "deepseek-model")):
        talk.ask(wire, model)
        assert talk.upstream.body["stream_options"] == {"include_usage": True}, wire


def test_counts_that_nobody_asked_for_are_read_and_not_shown(talk: Talk) -> None:
    """Some servers send a last chunk of counts by themselves."""
    talk.upstream.answer_in_turn(Answer(chat_events({"content": "Yes."}, usage=CHAT_USAGE)))
    events = talk.ask("openai-chat", "mistral-model").events
    assert all(event["choices"] for event in events)
    usage = talk.ask("anthropic", "mistral-model").events[-2]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (20, 9)


def test_counts_that_contradict_each_other_do_not_become_negative(talk: Talk) -> None:
    """More tokens from the cache than in the prompt: the numbers of another convention."""
    usage = {"prompt_tokens": 56322, "completion_tokens": 9, "total_tokens": 56331,
             "prompt_tokens_details": {"cached_tokens": 72960}}  # fmt: skip
    choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    body = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    talk.upstream.answer_in_turn(Answer([json.dumps(body).encode()], media_type=JSON))
    answered = talk.ask("anthropic", "chat-model", stream=False)
    assert answered.status == 200
    counts = answered.body["usage"]
    assert all(value >= 0 for value in counts.values() if isinstance(value, int))
