"""Streams that are built from those of another wire."""

import json
from typing import Any

import pytest

from tests.gateway.cases.talk import Talk, tool
from tests.gateway.scripted import (
    CHAT_USAGE,
    EVENTS,
    JSON,
    Answer,
    answer_with,
    chat_call,
    chat_events,
    reply,
    sse,
)
from tests.laws.wires import handwritten_chat
from tests.tables import each_row

CLIENT_WIRES = ("anthropic", "openai-chat", "openai")
WEATHER: Any = (("weather", {"city": "Bern"}),)
OTHERS = [
    (wire, model)
    for wire, own in (("anthropic", "messages"), ("openai-chat", "chat"), ("openai", "responses"))
    for model in ("messages-model", "chat-model", "responses-model", "google-model")
    if not model.startswith(own)
]
"""Each client wire with the models of other wires."""


def chat(*deltas: Any, **more: Any) -> Answer:
    return Answer(chat_events(*deltas, **more))


def test_a_block_opens_before_its_first_delta(talk: Talk) -> None:
    """Text, then a call whose first fragment has the id and the name, and whose later ones have only arguments."""
    talk.upstream.answer_in_turn(
        chat({"role": "assistant", "content": ""}, {"content": "Let me see."},
             chat_call(0, "", call_id="call_1", name="weather"), chat_call(0, '{"city":'), chat_call(0, ' "Bern"}'),
             finish="tool_calls")
    )  # fmt: skip
    seen = talk.ask("anthropic", "chat-model", tools=[tool("anthropic")]).seen
    assert seen.text == "Let me see."
    assert [(name, value) for _, name, value in seen.calls] == [("weather", {"city": "Bern"})]


def test_a_message_starts_once(talk: Talk) -> None:
    """Although the provider sends the role alone, then content, with the role once more."""
    talk.upstream.answer_in_turn(chat({"role": "assistant"}, {"role": "assistant", "content": "A"}, {"content": "B"}))
    answered = talk.ask("anthropic", "chat-model")
    assert [event["type"] for event in answered.events].count("message_start") == 1
    assert answered.seen.text == "AB"


def test_reasoning_is_a_block_of_its_own_and_no_delta_is_lost_at_the_change(talk: Talk) -> None:
    """The first text after the reasoning arrives, too."""
    talk.upstream.answer_in_turn(
        chat({"reasoning_content": "r1"}, {"reasoning_content": "r2"}, {"content": "A"}, {"content": "B"},
             {"content": "C"})
    )  # fmt: skip
    for wire in CLIENT_WIRES:
        seen = talk.ask(wire, "deepseek-model").seen
        assert (seen.thinking, seen.text) == ("r1r2", "ABC"), wire


def test_there_is_no_empty_text_beside_a_call(talk: Talk) -> None:
    """The reply can be sent back to a provider that refuses texts without words."""
    talk.upstream.answer_in_turn(
        chat({"role": "assistant", "content": ""}, chat_call(0, "{}", call_id="call_1", name="weather"),
             finish="tool_calls")
    )  # fmt: skip
    answered = talk.ask("anthropic", "chat-model", tools=[tool("anthropic")])
    blocks = [event["content_block"]["type"] for event in answered.events if event["type"] == "content_block_start"]
    assert blocks == ["tool_use"]
    assert answered.seen.stop == "tool_use"


@each_row(("finish",), [("stop",), ("tool_calls",), ("function_call",)])
def test_a_turn_with_a_call_ends_with_tool_use(finish: str) -> None:
    from dragoman import RequestContext, get_adapter

    adapter = get_adapter("openai-chat:gpt-4.1")
    context = RequestContext.for_model("openai-chat:gpt-4.1", prices=None)
    pieces = chat_events(chat_call(0, "{}", call_id="call_1", name="weather"), finish=finish)
    events = adapter.iter_stream([piece for piece in pieces if isinstance(piece, bytes)], context)
    written = b"".join(get_adapter("anthropic:client").iter_encoded(events, context))
    assert b'"stop_reason":"tool_use"' in written


def test_interleaved_parallel_calls_stay_apart(talk: Talk) -> None:
    """Fragments of two calls alternate; the client gets two whole calls, one after the other."""
    talk.upstream.answer_in_turn(
        chat(chat_call(0, "", call_id="call_a", name="weather"), chat_call(1, "", call_id="call_b", name="weather"),
             chat_call(0, '{"city":'), chat_call(1, '{"city":'), chat_call(0, '"Bern"}'), chat_call(1, '"Oslo"}'),
             {"content": "Both."}, finish="tool_calls")
    )  # fmt: skip
    for wire in ("anthropic", "openai"):
        seen = talk.ask(wire, "chat-model", tools=[tool(wire)]).seen
        assert [value for _, _, value in seen.calls] == [{"city": "Bern"}, {"city": "Oslo"}], wire
        assert len({call_id for call_id, _, _ in seen.calls}) == 2
        assert seen.text == "Both."


def test_a_new_id_at_the_same_number_is_a_new_call(talk: Talk) -> None:
    """Some providers number every call 0."""
    calls = [chat_call(0, f'{{"city": "{city}"}}', call_id=f"call_{city}", name="weather") for city in ("Bern", "Oslo")]
    talk.upstream.answer_in_turn(chat(*calls, finish="tool_calls"))
    seen = talk.ask("anthropic", "mistral-model", tools=[tool("anthropic")]).seen
    assert [value for _, _, value in seen.calls] == [{"city": "Bern"}, {"city": "Oslo"}]


@pytest.mark.parametrize("body", [{"choices": None}, {"choices": []}, {}])
def test_a_reply_without_choices_is_a_gateway_error(talk: Talk, body: dict[str, Any]) -> None:
    """A reply without choices is a gateway error in the envelope of the client, with the provider's name and without a
    word of the program's insides.
    """
    talk.upstream.answer_in_turn(Answer([json.dumps(body).encode()], media_type=JSON))
    answered = talk.ask("anthropic", "chat-model", stream=False)
    assert answered.status >= 500
    assert answered.body["type"] == "error"
    assert "openai-chat" in answered.body["error"]["message"]
    assert not any(word in answered.raw for word in (b"Traceback", b"NoneType", b"KeyError", b".py"))


def test_a_stream_says_what_the_whole_reply_says(talk: Talk) -> None:
    """Text, reasoning, calls, stop reason and counts, for each wire before each other wire."""
    talk.upstream.script = answer_with(
        reply("Let ", "me see.", thinking=("Where? ", "Bern."), calls=WEATHER, cached_tokens=5)
    )
    for wire, model in OTHERS:
        whole, streamed = (answered.seen for answered in talk.both(
            wire, model, tools=[tool(wire)],
            **({"stream_options": {"include_usage": True}} if wire == "openai-chat" else {}),
        ))  # fmt: skip
        for name in ("text", "thinking", "stop", "usage"):
            assert getattr(whole, name) == getattr(streamed, name), (wire, model, name)
        assert [call[1:] for call in whole.calls] == [call[1:] for call in streamed.calls] == [WEATHER[0]], (
            wire,
            model,
        )


def test_characters_survive_any_cut(talk: Talk) -> None:
    """The stream is cut into single bytes, also inside characters, with each line end and without a space."""
    text = "Grüße 天気 😀\u2028\u0085!"
    body = b"".join(piece for piece in chat_events({"content": text}) if isinstance(piece, bytes))
    for form in (body, body.replace(b"\n", b"\r\n"), body.replace(b"data: ", b"data:"), b": hello\n\n" + body):
        talk.upstream.answer_in_turn(Answer([bytes([byte]) for byte in form]))
        assert talk.ask("anthropic", "chat-model").seen.text == text


def test_a_call_that_the_limit_cut_is_not_passed_off_as_whole(talk: Talk) -> None:
    """The stop reason is the limit, and no JSON is invented."""
    talk.upstream.answer_in_turn(
        chat(chat_call(0, '{"city": "Be', call_id="call_1", name="weather"), finish="length", usage=CHAT_USAGE)
    )
    answered = talk.ask("anthropic", "chat-model", tools=[tool("anthropic")])
    deltas = [event["delta"] for event in answered.events if event["type"] == "content_block_delta"]
    assert "".join(delta["partial_json"] for delta in deltas) == '{"city": "Be'
    (end,) = [event for event in answered.events if event["type"] == "message_delta"]
    assert end["delta"]["stop_reason"] == "max_tokens"


def test_a_summary_without_deltas_arrives(talk: Talk) -> None:
    """The reasoning stands only in the finished item."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Because."}]}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
               "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]}  # fmt: skip
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item, message]}
    talk.upstream.answer_in_turn(Answer(sse(
        {"type": "response.created", "response": {**response, "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 1, "item": message},
        {"type": "response.completed", "response": response}, named=True,
    )))  # fmt: skip
    seen = talk.ask("anthropic", "responses-model").seen
    assert (seen.thinking, seen.text) == ("Because.", "Yes.")


def test_items_that_interleave_keep_their_arguments(talk: Talk) -> None:
    """Argument deltas of two items alternate, as some servers send them."""
    items = [{"type": "function_call", "id": f"fc_{n}", "call_id": f"call_{n}", "name": "weather", "arguments": "",
              "status": "in_progress"} for n in (0, 1)]  # fmt: skip
    done = [{**item, "arguments": f'{{"city": "{city}"}}', "status": "completed"}
            for item, city in zip(items, ("Bern", "Oslo"), strict=True)]  # fmt: skip
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": done}
    events: list[Any] = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
    events += [{"type": "response.output_item.added", "output_index": n, "item": items[n]} for n in (0, 1)]
    for start, end in ((0, 8), (8, 99)):
        events += [
            {"type": "response.function_call_arguments.delta", "output_index": n, "item_id": f"fc_{n}",
             "delta": done[n]["arguments"][start:end]} for n in (0, 1)
        ]  # fmt: skip
    events += [{"type": "response.output_item.done", "output_index": n, "item": done[n]} for n in (1, 0)]
    events.append({"type": "response.completed", "response": response})
    talk.upstream.answer_in_turn(Answer(sse(*events, named=True)))
    seen = talk.ask("anthropic", "responses-model", tools=[tool("anthropic")]).seen
    assert [value for _, _, value in seen.calls] == [{"city": "Bern"}, {"city": "Oslo"}]


def test_a_reply_of_one_call_has_no_message_item(talk: Talk) -> None:
    """And parallel calls have places of their own."""
    talk.upstream.script = answer_with(reply(calls=(*WEATHER, ("weather", {"city": "Oslo"}))))
    answered = talk.ask("openai", "messages-model", tools=[tool("openai")])
    assert len(answered.seen.calls) == 2
    added = [event for event in answered.events if event["type"] == "response.output_item.added"]
    assert [(event["output_index"], event["item"]["type"]) for event in added] == [
        (0, "function_call"), (1, "function_call"),
    ]  # fmt: skip


def test_a_response_has_one_id_and_rising_numbers(talk: Talk) -> None:
    """From the first event to the last, and the last one holds the items that were streamed."""
    talk.upstream.script = answer_with(reply("Let me see.", thinking=("Hm.",), calls=WEATHER))
    for model in ("messages-model", "chat-model", "google-model"):
        answered = talk.ask("openai", model, tools=[tool("openai")])
        assert answered.seen.text == "Let me see."
        kinds = [item["type"] for item in answered.events[-1]["response"]["output"] if item.get("summary") != []]
        assert kinds == ["reasoning", "message", "function_call"], model


def test_a_reply_that_the_reasoning_used_up_is_cut_and_no_error(talk: Talk) -> None:
    """No text arrived; the counts did."""
    response = {"id": "resp_1", "object": "response", "status": "incomplete", "model": "m", "output": [],
                "incomplete_details": {"reason": "max_output_tokens"},
                "usage": {"input_tokens": 20, "output_tokens": 100, "total_tokens": 120,
                          "output_tokens_details": {"reasoning_tokens": 100}}}  # fmt: skip
    stream = sse({"type": "response.created", "response": {**response, "status": "in_progress"}},
                 {"type": "response.incomplete", "response": response}, named=True)  # fmt: skip
    talk.upstream.script = lambda request: (
        Answer(stream) if request.is_streamed else Answer([json.dumps(response).encode()], media_type=JSON)
    )
    options = {"stream_options": {"include_usage": True}}
    for answered in (talk.ask("openai-chat", "responses-model", stream=False),
                     talk.ask("openai-chat", "responses-model", **options)):  # fmt: skip
        seen = answered.seen
        assert (seen.text, seen.stop) == ("", "length")
        assert seen.usage is not None
        assert (seen.usage.output, seen.usage.reasoning) == (100, 100)


def test_counts_reach_only_clients_that_asked(talk: Talk) -> None:
    """They stand in a last chunk without choices; without the question there is none."""
    talk.upstream.script = answer_with(reply("Yes."))
    asked = talk.ask("openai-chat", "messages-model", stream_options={"include_usage": True}).events
    assert (asked[-1]["choices"], asked[-1]["usage"]["prompt_tokens"]) == ([], 20)
    assert [event for event in asked[:-1] if event.get("usage")] == []
    unasked = talk.ask("openai-chat", "messages-model").events
    assert [event for event in unasked if event.get("usage") or not event["choices"]] == []


def test_counts_beside_choices_are_read_and_the_last_ones_count(talk: Talk) -> None:
    """Some providers send cumulative counts in every chunk."""
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    chunks = [
        {**head, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}],
         "usage": {"prompt_tokens": 20, "completion_tokens": count, "total_tokens": 20 + count}}
        for text, count, finish in (("A", 1, None), ("B", 2, None), ("", 2, "stop"))
    ]  # fmt: skip
    talk.upstream.answer_in_turn(Answer(sse(*chunks, "[DONE]")))
    seen = talk.ask("anthropic", "mistral-model").seen
    assert seen.usage is not None
    assert (seen.text, seen.usage.prompt, seen.usage.output) == ("AB", 20, 2)


def test_the_counts_of_a_message_are_estimated_at_its_start_and_exact_at_its_end(talk: Talk) -> None:
    """Every field of the usage is there from the beginning: clients read it at once."""
    talk.upstream.answer_in_turn(chat({"content": "Yes."}, usage=CHAT_USAGE))
    events = talk.ask("anthropic", "chat-model").events
    start, end = events[0]["message"]["usage"], events[-2]["usage"]
    names = {"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}
    assert names <= start.keys()
    assert names <= end.keys()
    assert start["input_tokens"] > 0
    assert (end["input_tokens"], end["output_tokens"]) == (20, 9)


def test_an_event_stream_is_announced_as_one(talk: Talk) -> None:
    talk.upstream.answer_in_turn(Answer([handwritten_chat.WIRE.stream(reply("Yes."))]))
    answered = talk.ask("anthropic", "chat-model")
    assert answered.headers["content-type"].startswith(EVENTS)
    assert "content-length" not in answered.headers
