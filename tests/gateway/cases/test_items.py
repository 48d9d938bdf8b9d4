"""Items and chunks: their places, and what the end of a stream repeats."""

from tests.gateway.cases.talk import Talk, tool
from tests.gateway.cases.test_streams import WEATHER
from tests.gateway.scripted import answer_with, reply

TWO = (*WEATHER, ("weather", {"city": "Oslo"}))


def test_calls_of_a_responses_provider_are_numbered_from_0(talk: Talk) -> None:
    """Its items before the calls have places too, and are not calls."""
    talk.upstream.script = answer_with(reply("See.", thinking=("Hm.",), calls=TWO))
    answered = talk.ask("openai-chat", "responses-model", tools=[tool("openai-chat")])
    calls = [
        call
        for event in answered.events
        for choice in event["choices"]
        for call in choice["delta"].get("tool_calls") or ()
    ]
    assert sorted({call["index"] for call in calls}) == [0, 1]
    assert [call["index"] for call in calls if call.get("id")] == [0, 1]


def test_text_and_a_call_have_a_place_each(talk: Talk) -> None:
    talk.upstream.script = answer_with(reply("See.", calls=WEATHER))
    for model in ("chat-model", "messages-model", "google-model"):
        events = talk.ask("openai", model, tools=[tool("openai")]).events
        added = [(each["output_index"], each["item"]["type"]) for each in events if each["type"].endswith("item.added")]
        shown = [kind for kind in added if kind[1] != "reasoning"]
        assert [kind for _, kind in shown] == ["message", "function_call"], model
        assert [place for place, _ in added] == list(range(len(added))), model


def test_the_end_of_a_response_has_all_items_of_its_stream(talk: Talk) -> None:
    """Reasoning as well, each as its own end said it."""
    talk.upstream.script = answer_with(reply("See.", thinking=("Hm.",), calls=WEATHER))
    for model in ("deepseek-model", "messages-model", "google-model"):
        events = talk.ask("openai", model, tools=[tool("openai")]).events
        done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
        assert events[-1]["response"]["output"] == done, model
        assert {"reasoning", "message", "function_call"} <= {item["type"] for item in done}, model


def test_counts_are_the_last_chunk_with_no_choices(talk: Talk) -> None:
    for model in ("messages-model", "responses-model", "google-model", "chat-model"):
        events = talk.ask("openai-chat", model, stream_options={"include_usage": True}).events
        counted = [each for each in events if each.get("usage")]
        assert counted == [events[-1]], model
        assert events[-1]["choices"] == [], model
