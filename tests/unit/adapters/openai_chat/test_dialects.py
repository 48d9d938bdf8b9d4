"""Dialects: the differences of other endpoints are fields of data, used for decoding and encoding alike."""

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.facts.capabilities import EMULATED
from dragoman.canonical.blocks import ImageBlock, MediaSource, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, ThinkingDelta
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    adapter,
    adapter_with,
    encode_request,
    handwritten_call,
    handwritten_chunk,
    handwritten_reply,
    losses,
    read,
    reply_of,
    round_trip,
    stream,
    stream_message,
)

CALL_ID = "tu_00000000000000000000000001"
READS = {"thinking_policy": {"accepts_unsigned": True}}
THOUGHT = ThinkingBlock(text="Hm")
CALL = ToolUseBlock(id=CALL_ID, name="f")


def thinking_adapter(**fields: Any) -> ChatAdapter:
    """An adapter whose model reads unsigned thinking."""
    return adapter_with(adapter("any", **fields), supports_prefill="native", **READS)


@pytest.mark.parametrize(
    ("fields", "options", "written"),
    [
        ({"max_tokens": "max_tokens"}, {"max_output_tokens": 5}, {"max_tokens": 5}),
        ({"seed": "random_seed"}, {"seed": 5}, {"random_seed": 5}),
        ({"seed": None, "stop": None}, {"seed": 5, "stop_sequences": ("a",)}, {}),
        ({"top_k": "top_k"}, {"top_k": 5}, {"top_k": 5}),
        ({"stream_usage": False}, {"stream": True}, {"stream": True}),
        ({"effort": "reasoning.effort"}, {"effort": "high"}, {"reasoning": {"effort": "high"}}),
        ({"effort": None}, {"effort": "high"}, {}),
        (
            {"effort": "reasoning.effort", "thinking_budget": "reasoning.max_tokens"},
            {"effort": "low", "thinking_budget": 9},
            {"reasoning": {"effort": "low", "max_tokens": 9}},
        ),
        ({"thinking_off": {"thinking": {"type": "disabled"}}}, {"thinking": False}, {"thinking": {"type": "disabled"}}),
        (
            {"thinking_on": {"thinking": {"type": "enabled"}}, "thinking_budget": "thinking.budget"},
            {"thinking": True, "thinking_budget": 9},
            {"thinking": {"type": "enabled", "budget": 9}},
        ),
    ],
)
def test_parameters_follow_the_dialect(
    fields: dict[str, Any], options: dict[str, Any], written: dict[str, Any]
) -> None:
    """Each parameter has the endpoint's name and place, and is read back from there."""
    chat = adapter_with(adapter("any", **fields), supports_structured_output="native")
    for _ in range(2):  # writing changes nothing of the dialect
        body, _wire = encode_request([Message.user("Hi")], chat, **options)
        assert body == {"model": "any", "messages": [{"role": "user", "content": "Hi"}], **written}
    assert round_trip(body, chat) == body


def test_an_endpoint_with_json_mode_only_is_prompted_with_the_schema() -> None:
    """The dialect decides, whatever the models declare: the system prompt has the schema."""
    chat = adapter_with(adapter("any", schema_format="json_object"), supports_structured_output="native")
    abilities = chat.capabilities
    assert (abilities.supports_structured_output, abilities.structured_output_by) == (EMULATED, "prompt")
    body, wire = encode_request([Message.user("Hi")], chat, output_schema={"type": "object"})
    assert body["response_format"] == {"type": "json_object"}
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert '{"type":"object"}' in body["messages"][0]["content"]
    assert losses(wire) == [("option", "output_schema")]
    assert round_trip(body, chat) == body


def test_tool_choice_words_follow_the_dialect() -> None:
    """A word may differ, or be missing; then it is a loss."""
    tools = [ToolDefinition(name="f", description="f")]
    mistral = adapter("any", tool_choices={"auto": "auto", "required": "any"}, parallel_tool_calls=False)
    body, wire = encode_request([Message.user("Hi")], mistral, tools, tool_choice="required", parallel_tool_calls=True)
    assert body["tool_choice"] == "any"
    assert losses(wire) == [("option", "parallel_tool_calls")]
    assert round_trip(body, mistral) == body
    body, wire = encode_request([Message.user("Hi")], mistral, tools, tool_choice="none")
    assert "tool_choice" not in body
    assert losses(wire) == [("option", "tool_choice")]


@pytest.mark.parametrize(
    ("rule", "with_call", "kept"),
    [
        ("never", True, False),
        ("with_tools", True, True),
        ("with_tools", False, False),
        ("always", False, True),
    ],
)
def test_reasoning_is_sent_back_by_rule(rule: str, with_call: bool, kept: bool) -> None:
    """Some endpoints require it with calls, some always, some never; leaving it out is a loss."""
    chat = thinking_adapter(reasoning_fields=("reasoning_content",), reasoning_replay=rule)
    reply = reply_of("other:any", [THOUGHT, TextBlock(text="x"), *([CALL] if with_call else [])])
    body, wire = encode_request([Message.user("Hi"), reply], chat)
    assert (body["messages"][1].get("reasoning_content") == "Hm") is kept
    assert ("thinking" in dict(losses(wire))) is not kept


def test_missing_reasoning_is_sent_empty_if_required() -> None:
    """A call of another model has no reasoning, but the field must exist."""
    chat = thinking_adapter(reasoning_replay="with_tools", reasoning_required=True)
    body, _ = encode_request([reply_of("anthropic:claude-opus-5", [CALL]), Message.tool(CALL_ID, "1")], chat)
    assert body["messages"][0]["reasoning_content"] == ""


def test_reasoning_returns_under_its_own_name() -> None:
    """The endpoint's own name takes precedence over the names of others."""
    chat = thinking_adapter(reasoning_replay="always")
    reply = read(handwritten_reply({"reasoning": "Hm", "content": "Hi"}), chat)
    assert encode_request([reply], chat)[0]["messages"][0] == {"role": "assistant", "content": "Hi", "reasoning": "Hm"}


def test_reasoning_without_text_has_empty_content() -> None:
    """Content is null only next to calls and refusals: servers refuse a message without content."""
    chat = thinking_adapter(reasoning_replay="always")
    assert encode_request([reply_of("other:any", [THOUGHT])], chat)[0]["messages"] == [
        {"role": "assistant", "content": "", "reasoning_content": "Hm"}
    ]


def test_reasoning_in_parts_is_read() -> None:
    """Mistral's thinking is a part of the content, whole, streamed and sent back."""
    chat = thinking_adapter(thinking_parts=True, reasoning_replay="always")
    content = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}, {"type": "text", "text": "Hi"}]
    whole = read(handwritten_reply({"content": content}), chat)
    chunks = [
        handwritten_chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": letter}]}]})
        for letter in "Hm"
    ]
    events = stream([*chunks, handwritten_chunk({"content": "Hi"}, "stop"), DONE], chat)
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["H", "m"]
    piecemeal = stream_message([*chunks, handwritten_chunk({"content": "Hi"}, "stop"), DONE], chat)
    assert piecemeal == whole
    for message in (whole, piecemeal):
        assert encode_request([message], chat)[0]["messages"] == [{"role": "assistant", "content": content}]
    foreign = reply_of("local:x", [THOUGHT, TextBlock(text="Hi")])
    assert encode_request([foreign], chat)[0]["messages"] == [{"role": "assistant", "content": content}]


def test_texts_are_joined_for_roles_without_parts() -> None:
    """Several texts are joined if the endpoint accepts only a string."""
    chat = adapter("any", part_roles=("user",))
    two = [TextBlock(text="a"), TextBlock(text="b")]
    body, _ = encode_request([Message.system(two), Message.user(two), Message.assistant(two)], chat)
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert [message["content"] for message in body["messages"]] == ["a\nb", parts, "a\nb"]


def test_neighbours_with_calls_are_one_message_with_all_calls() -> None:
    """No call is lost where roles alternate."""
    calls = [ToolUseBlock(id=f"{CALL_ID[:-1]}{number}", name="f") for number in (1, 2)]
    history = [Message.user("Hi"), *(reply_of("other:any", [call]) for call in calls)]
    history += [Message.tool(call.id, "ok") for call in calls]
    body, _ = encode_request(history, adapter("any", alternating=True))
    assert [len(message.get("tool_calls", ())) for message in body["messages"]] == [0, 2, 0, 0]


def test_answers_have_names_and_media_by_dialect() -> None:
    """Some endpoints require the tool's name with its answer, and accept images in it."""
    chat = adapter_with(adapter("any", tool_name=True), supports_tool_result_media="native", supports_images="native")
    image = ImageBlock(source=MediaSource(kind="url", data="https://a.test/b.png"))
    body, _ = encode_request([reply_of("other:any", [CALL]), Message.tool(CALL_ID, [TextBlock(text="x"), image])], chat)
    answer = body["messages"][1]
    assert answer["name"] == "f"
    assert answer["content"] == [
        {"type": "text", "text": "x"},
        {"type": "image_url", "image_url": {"url": "https://a.test/b.png"}},
    ]


@pytest.mark.parametrize(
    ("marker", "finish", "whole"), [(True, "stop", False), (False, "stop", True), (False, None, False)]
)
def test_streams_may_end_without_a_marker(marker: bool, finish: str | None, whole: bool) -> None:
    """If the endpoint sends no [DONE], the finish reason ends the stream; if it does, only [DONE] ends it."""
    chat = adapter("any", done_marker=marker)
    last = stream([handwritten_chunk({"content": "Hi"}, finish)], chat)[-1]
    assert isinstance(last, ErrorEvent) is not whole
    assert isinstance(stream([handwritten_chunk({"content": "Hi"}, finish), DONE], chat)[-1], ErrorEvent) is False


USAGES: list[tuple[dict[str, Any], dict[str, Any], tuple[int, int, int, int]]] = [
    ({}, {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}, (9, 0, 0, 3)),
    (
        {},
        {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        },
        (3, 4, 2, 3),
    ),
    ({}, {"prompt_tokens": 9, "completion_tokens": 3, "prompt_cache_hit_tokens": 4}, (5, 4, 0, 3)),
    ({"cached_tokens": ("cached",)}, {"prompt_tokens": 9, "cached": 4}, (5, 4, 0, 0)),
    ({}, {"prompt_tokens": 9, "prompt_tokens_details": None, "completion_tokens_details": None}, (9, 0, 0, 0)),
    (
        {},
        {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 19,
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        (9, 0, 0, 10),
    ),
    (
        {"reasoning_beside": False},
        {
            "prompt_tokens": 9,
            "completion_tokens": 3,
            "total_tokens": 19,
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
        (9, 0, 0, 3),
    ),
    ({}, {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 20}, (9, 0, 0, 11)),
    (
        {},
        {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 32, "prompt_tokens_details": {"audio_tokens": 20}},
        (29, 0, 0, 3),
    ),
    ({}, {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 40}}, (0, 9, 0, 0)),
]


@pytest.mark.parametrize(("fields", "usage", "buckets"), USAGES)
def test_usage_buckets_are_disjoint(
    fields: dict[str, Any], usage: dict[str, Any], buckets: tuple[int, int, int, int]
) -> None:
    """Uncached, read, written and output tokens add up to the billed total, however a provider counts them."""
    counted = read(handwritten_reply({"content": "Hi"}, usage=usage), adapter("any", **fields)).usage
    assert counted is not None
    found = (
        counted.input_tokens, counted.cached_input_tokens, counted.cache_creation_input_tokens, counted.output_tokens,
    )  # fmt: skip
    assert found == buckets
    assert counted.raw == usage


def test_usage_follows_the_dialect() -> None:
    """Counts under another name, the provider's own figure in its own unit, its tools, the tier that served."""
    chat = adapter("any", cost="ticks", cost_unit=Decimal("1e-10"), server_tools="tools")
    usage = {"prompt_tokens": 9, "ticks": 1707000, "tools": {"web_search_requests": 2, "none": 0}}
    counted = read(handwritten_reply({}, service_tier="flex", x_groq={"usage": usage}), chat).usage
    assert counted is not None
    assert counted.reported_cost_usd == Decimal("0.0001707")
    assert counted.server_tools == {"web_search_requests": 2}
    assert counted.service_tier == "flex"


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_no_counts_are_no_usage(usage: Any) -> None:
    """Unknown is None, never 0."""
    assert read(handwritten_reply({"content": "Hi"}, usage=usage)).usage is None


def test_fields_of_a_message_stay_with_it() -> None:
    """A turn that the projection adds after a message has none of that message's own fields."""
    chat = adapter_with(adapter("any"), supports_prefill="absent")
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "name": "bot", "content": [{"type": "text", "text": "x"}]},
    ]
    body = {"model": "any", "messages": history}
    assert round_trip(body, chat)["messages"] == [*history, {"role": "user", "content": "Continue."}]


def test_a_dialect_is_data() -> None:
    """It can come from a table; a misspelt field is refused."""
    assert Dialect.model_validate({"max_tokens": "max_tokens", "done_marker": False}).done_marker is False
    with pytest.raises(ValidationError):
        Dialect.model_validate({"max_token": "max_tokens"})


def test_a_call_without_an_id_gets_one() -> None:
    """Endpoints that leave ids out are sent our ids, the same in call and answer."""
    chat = adapter("any")
    reply = stream_message([handwritten_chunk(handwritten_call("{}", None, id="", name="f"), "stop"), DONE], chat)
    answer = Message.tool(reply.tool_uses[0].id, "1")
    call, result = encode_request([reply, answer], chat)[0]["messages"]
    assert call["tool_calls"][0]["id"] == result["tool_call_id"] != ""
