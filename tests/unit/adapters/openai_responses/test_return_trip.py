"""The return trip: a reply that is sent again gives the same items, if they may be sent."""

import pytest

from dragoman import Message
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Channel, MessageMetadata
from tests.unit.adapters.openai_responses.wire import (
    Item,
    body_of,
    call_item,
    context,
    input_of,
    read,
    response,
    text_item,
)

handwritten_reasoning = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
handwritten_steps = {
    **handwritten_reasoning,
    "summary": [{"type": "summary_text", "text": text} for text in ("One", "", "Three\n\nfour")],
}
handwritten_open = {
    "type": "reasoning",
    "summary": [],
    "content": [{"type": "reasoning_text", "text": "a"}, {"type": "reasoning_text", "text": "b"}],
    "encrypted_content": "",
    "status": "completed",
}
handwritten_both = {**handwritten_steps, "content": [{"type": "reasoning_text", "text": "raw"}]}
handwritten_search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search"}}
handwritten_parts = [
    {"type": "output_text", "text": "One", "annotations": [{"type": "url_citation", "url": "https://a.test"}]},
    {"type": "refusal", "refusal": "Two"},
    {"type": "output_music", "score": [1]},
]

OUTPUTS: list[list[Item]] = [
    [text_item("Hi")],
    [text_item("Hi", phase="final_answer", unheard_of=1)],
    [text_item("a", phase="commentary"), text_item("b", id="msg_2", phase="final_answer")],
    [text_item("a"), text_item("b", id="msg_2")],
    [text_item("", content=handwritten_parts)],
    [text_item("", content=[])],
    [handwritten_reasoning, text_item("Hi")],
    [handwritten_steps, text_item("Hi")],
    [handwritten_open, text_item("Hi")],
    [handwritten_both, text_item("Hi")],
    [handwritten_reasoning, handwritten_search, handwritten_reasoning, text_item("Hi")],
    [text_item("So"), handwritten_search, text_item("Hi", id="msg_2")],
    [{"type": "from_the_future", "id": "x_1"}],
]


@pytest.mark.parametrize("output", OUTPUTS)
def test_items_are_rewritten_unchanged(output: list[Item]) -> None:
    """Ids, statuses, phases, the grouping of parts and unknown fields come back as they were."""
    assert input_of([Message.user("Hi"), read(response(output))])[1:] == output


@pytest.mark.parametrize(
    "arguments",
    ['{"city":"Paris"}', '{"city": "Paris"}', '{"city":"Par', "", '{"n":1.0,"m":1e3}', '{"a":"\\u00e9"}'],
)
def test_arguments_are_rewritten_unchanged(arguments: str) -> None:
    """Also if their spelling differs from ours, or they are not JSON."""
    given = context()
    message = read(response([call_item(arguments)]), given)
    answer = Message.tool(message.tool_uses[0].id, "Sunny.")
    assert input_of([Message.user("Hi"), message, answer], given)[1:] == [
        call_item(arguments),
        {"type": "function_call_output", "call_id": "call_1", "output": "Sunny."},
    ]


def test_a_changed_message_is_written_from_its_content() -> None:
    """The canonical fields are the only source of the content: notes on the former content are dropped."""
    message = read(response([text_item("Hi", phase="final_answer")]))
    changed = message.model_copy(update={"content": (TextBlock(text="Ho"),)})
    (item,) = input_of([Message.user("Hi"), changed])[1:]
    assert item["content"] == "Ho"
    silent = message.model_copy(update={"channel": Channel.COMMENTARY})
    (item,) = input_of([Message.user("Hi"), silent])[1:]
    assert item["phase"] == "commentary"


bare = {"id": "rs_1", "type": "reasoning", "summary": []}

LOST: list[tuple[list[Item], dict[str, object], list[Item]]] = [
    ([bare, text_item("Hi")], {"store": True}, [bare, text_item("Hi")]),
    ([bare, text_item("Hi")], {"store": False}, [text_item("Hi")]),
    ([text_item("Hi"), handwritten_reasoning], {}, [text_item("Hi")]),
    ([handwritten_reasoning], {}, []),
]


@pytest.mark.parametrize(("output", "fields", "sent"), LOST)
def test_reasoning_is_sent_back_only_if_readable(
    output: list[Item], fields: dict[str, object], sent: list[Item]
) -> None:
    """It needs its content or the provider's stored copy, and a following item. Otherwise items lose their ids."""
    message = read(response(output, **fields))
    body, losses = body_of([Message.user("Hi"), message])
    if sent != output:
        sent = [{key: value for key, value in item.items() if key != "id"} for item in sent]
        assert losses == (LossKind.THINKING,)
    assert body["input"][1:] == sent


def test_a_model_that_does_not_reason_gets_no_reasoning() -> None:
    """The call after it is sent without its id."""
    given = context()
    message = read(response([handwritten_reasoning, call_item()]), given)
    body, losses = body_of([Message.user("Hi"), message, Message.tool(message.tool_uses[0].id, "x")], model="gpt-4o")
    assert LossKind.THINKING in losses
    assert body["input"][1] == {key: value for key, value in call_item().items() if key != "id"}


def test_thinking_without_provenance_is_left_out() -> None:
    """A message of the model without its stored notes has neither an id nor content to send."""
    own = MessageMetadata(model="openai:gpt-5.4", provider="openai")
    thought = Message.assistant((ThinkingBlock(text="hm"), TextBlock(text="Hi")), metadata=own)
    body, losses = body_of([Message.user("Hi"), thought])
    assert [item.get("type") for item in body["input"]] == [None, "message"]
    assert losses == (LossKind.THINKING,)
    signed = Message.assistant((ThinkingBlock(text="hm", signature="gA"), TextBlock(text="Hi")), metadata=own)
    body, losses = body_of([Message.user("Hi"), signed])
    assert body["input"][1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gA",
    }
    assert losses == ()


def test_own_redacted_thinking_returns_as_encrypted_content() -> None:
    """A history from another format may hold the token in a block of that kind."""
    own = MessageMetadata(model="openai:gpt-5.4", provider="openai")
    message = Message.assistant((RedactedThinkingBlock(data="gA"), TextBlock(text="Hi")), metadata=own)
    assert input_of([Message.user("Hi"), message])[1] == {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": "gA",
    }


def test_one_call_id_in_two_turns_is_two_calls() -> None:
    """A repeated id means another call: the second one gets a new id."""
    given = context()
    turns = [read(response([call_item()]), given) for _ in range(2)]
    messages = [Message.user("Hi")]
    for turn in turns:
        messages += [turn, Message.tool(turn.tool_uses[0].id, "x")]
    sent = input_of(messages, given)
    calls = [item["call_id"] for item in sent if item.get("type") == "function_call"]
    assert calls[0] == "call_1"
    assert len(set(calls)) == 2
    assert [item["call_id"] for item in sent if item.get("type") == "function_call_output"] == calls
    assert isinstance(turns[0].content[0], ToolUseBlock)
