"""Thinking: signatures and sealed reasoning on their way through a client, and back to who issued them."""

import json
from typing import Any

import pytest

from dragoman.testing.conformance.wire import sse as event
from tests.gateway.cases.talk import Talk, again, tool
from tests.gateway.cases.test_streams import WEATHER
from tests.gateway.scripted import JSON, Answer, answer_with, chat_call, chat_events, reply, sse

SIGNATURE = "c2ln"
"""What the scripted Messages provider signs with."""


def messages_stream(*blocks: dict[str, Any], stop: str = "tool_use") -> bytes:
    """A stream of Messages with these blocks, each with its content as one delta."""
    fields = {"text": ("text_delta", "text"), "thinking": ("thinking_delta", "thinking")}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None,
        "stop_sequence": None, "usage": {"input_tokens": 20, "output_tokens": 1}}}]  # fmt: skip
    for index, block in enumerate(blocks):
        kind = block["type"]
        empty = {"tool_use": {**block, "input": {}}, "thinking": {**block, "thinking": "", "signature": ""},
                 "text": {"type": "text", "text": ""}}[kind]  # fmt: skip
        deltas: list[dict[str, Any]] = []
        if kind == "tool_use":
            deltas.append({"type": "input_json_delta", "partial_json": json.dumps(block["input"])})
        elif block[fields[kind][1]]:
            deltas.append({"type": fields[kind][0], fields[kind][1]: block[fields[kind][1]]})
        if signature := block.get("signature"):
            deltas.append({"type": "signature_delta", "signature": signature})
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None},
                   "usage": {"output_tokens": 9}})  # fmt: skip
    events.append({"type": "message_stop"})
    return b"".join(event(each, each["type"]) for each in events)


def sent_blocks(talk: Talk) -> list[Any]:
    """The blocks of the assistant in the last request to a Messages provider."""
    found = [message["content"] for message in talk.upstream.body["messages"] if message["role"] == "assistant"]
    return [block for content in found for block in content]


def test_signed_thinking_comes_back_to_its_issuer_in_its_order(talk: Talk) -> None:
    """Through a client of another wire: think, text, think, call, exactly as it was issued."""
    issued = [
        {"type": "thinking", "thinking": "First.", "signature": "c2lnMQ=="},
        {"type": "text", "text": "Let me see."},
        {"type": "thinking", "thinking": "Then.", "signature": "c2lnMg=="},
        {"type": "tool_use", "id": "toolu_issued", "name": "weather", "input": {"city": "Bern"}},
    ]
    talk.upstream.answer_in_turn(Answer([messages_stream(*issued)]))
    seen = talk.ask("openai", "messages-model", tools=[tool("openai")]).seen
    assert talk.ask("openai", "messages-model", tools=[tool("openai")], **again("openai", seen)).status == 200
    assert sent_blocks(talk) == issued


def test_a_signature_without_text_is_content(talk: Talk) -> None:
    """The provider shows nothing of its reasoning, and wants it back."""
    issued = [
        {"type": "thinking", "thinking": "", "signature": "b25seQ=="},
        {"type": "tool_use", "id": "toolu_issued", "name": "weather", "input": {}},
    ]
    talk.upstream.answer_in_turn(Answer([messages_stream(*issued)]))
    seen = talk.ask("openai", "messages-model", tools=[tool("openai")]).seen
    talk.ask("openai", "messages-model", tools=[tool("openai")], **again("openai", seen))
    assert sent_blocks(talk) == issued


def test_another_model_gets_no_signature_of_the_first(talk: Talk) -> None:
    """Turns alternate between two models: each gets its own state, and the other's thinking is a loss by name."""
    talk.upstream.script = answer_with(reply("Let me see.", thinking=("Secret.",), calls=WEATHER))
    seen = talk.ask("anthropic", "responses-model", tools=[tool("anthropic")]).seen
    signature = next(block["signature"] for block in seen.echo[0]["content"] if block["type"] == "thinking")
    assert signature
    second = talk.ask("anthropic", "google-model", tools=[tool("anthropic")], **again("anthropic", seen))
    assert second.status == 200
    assert signature not in json.dumps(talk.upstream.body)
    assert "thinking=" in second.losses
    talk.ask("anthropic", "responses-model", tools=[tool("anthropic")], **again("anthropic", seen))
    assert any(item.get("encrypted_content") for item in talk.upstream.body["input"] if item.get("type") == "reasoning")


def test_openai_stores_nothing_of_a_client_of_another_wire(talk: Talk) -> None:
    """Its reasoning comes to the client, unless the client asks OpenAI to store the reply."""
    talk.upstream.script = answer_with(reply("Yes."))
    for wire in ("anthropic", "openai-chat"):
        for stream in (False, True):
            answered = talk.ask(wire, "responses-model", stream=stream)
            assert answered.status == 200
            assert talk.upstream.body["store"] is False
            assert talk.upstream.body["include"] == ["reasoning.encrypted_content"]
    talk.ask("openai-chat", "responses-model", store=True)
    assert talk.upstream.body.keys().isdisjoint({"store", "include"})
    talk.ask("openai", "responses-model")
    assert talk.upstream.body.keys().isdisjoint({"store", "include"})


@pytest.mark.parametrize("behind", ["responses-model", "google-model"])
def test_the_answer_is_the_last_block_of_a_messages_reply(talk: Talk, behind: str) -> None:
    """Agents and libraries read the last block. The next request has the state all the same."""
    talk.upstream.script = answer_with(reply("Yes.", thinking=("Hm.",)))
    for answered in talk.both("anthropic", behind):
        content = answered.seen.echo[0]["content"]
        assert content[0]["type"] == "thinking"
        assert (content[-1]["type"], content[-1]["text"]) == ("text", "Yes.")
    talk.upstream.script = answer_with(reply("I look.", thinking=("Hm.",), calls=WEATHER))
    for answered in talk.both("anthropic", behind, tools=[tool("anthropic")]):
        assert answered.seen.echo[0]["content"][-1]["type"] == "tool_use"


def test_reasoning_goes_back_in_the_field_that_it_came_from(talk: Talk) -> None:
    """A provider refuses its own call without its own reasoning."""
    talk.upstream.answer_in_turn(
        Answer(chat_events({"reasoning_content": "Because."}, chat_call(0, "{}", call_id="call_1", name="weather"),
                           finish="tool_calls"))
    )  # fmt: skip
    for wire in ("anthropic", "openai"):
        seen = talk.ask(wire, "deepseek-model", tools=[tool(wire)]).seen
        talk.ask(wire, "deepseek-model", tools=[tool(wire)], **again(wire, seen))
        (message,) = [each for each in talk.upstream.body["messages"] if each["role"] == "assistant"]
        assert message["reasoning_content"] == "Because.", wire


def test_unsigned_thinking_does_not_reach_a_provider_that_wants_signatures(talk: Talk) -> None:
    """A stream that was cut left it in the client's history; the session would be refused for ever."""
    thinking: list[dict[str, Any]] = [{"type": "thinking", "thinking": "Half a tho", "signature": ""}]
    messages = [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": [*thinking, {"type": "text", "text": "Yes."}]},
                {"role": "user", "content": "Go on."}]  # fmt: skip
    answered = talk.ask("anthropic", "messages-model", messages=messages)
    assert answered.status == 200
    assert [block["type"] for block in sent_blocks(talk)] == ["text"]


def test_a_signature_is_one_delta_and_the_last_of_its_block(talk: Talk) -> None:
    """The official SDK ignores it elsewhere, and would send an empty one back."""
    talk.upstream.script = answer_with(reply("Yes.", thinking=("Because.", " So.")))
    answered = talk.ask("anthropic", "responses-model")
    deltas = [each["delta"]["type"] for each in answered.events if each["type"] == "content_block_delta"]
    if "signature_delta" in deltas:
        assert deltas.count("signature_delta") <= 2
        assert deltas[deltas.index("signature_delta") - 1] == "thinking_delta"
    assert (answered.seen.thinking, answered.seen.text) == ("Because. So.", "Yes.")


def test_the_order_of_reasoning_text_and_calls_is_kept(talk: Talk) -> None:
    """Each change opens a block of its own."""
    kinds = ("reasoning", "message", "function_call", "reasoning", "message", "function_call")
    items: list[dict[str, Any]] = []
    for number, kind in enumerate(kinds):
        items.append({
            "reasoning": {"type": kind, "id": f"rs_{number}",
                          "summary": [{"type": "summary_text", "text": f"r{number}"}]},
            "message": {"type": kind, "id": f"msg_{number}", "role": "assistant", "status": "completed",
                        "content": [{"type": "output_text", "text": f"t{number}", "annotations": []}]},
            "function_call": {"type": kind, "id": f"fc_{number}", "call_id": f"call_{number}", "name": "weather",
                              "arguments": "{}", "status": "completed"},
        }[kind])  # fmt: skip
    response = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": items}
    events: list[Any] = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
    events += [
        {"type": "response.output_item.done", "output_index": index, "item": item} for index, item in enumerate(items)
    ]
    events.append({"type": "response.completed", "response": response})
    talk.upstream.script = lambda request: (
        Answer(sse(*events, named=True))
        if request.is_streamed
        else Answer([json.dumps(response).encode()], media_type=JSON)
    )
    for answered in talk.both("anthropic", "responses-model", tools=[tool("anthropic")]):
        blocks = [block["type"] for block in answered.seen.echo[0]["content"] if block["type"] != "redacted_thinking"]
        assert blocks == ["thinking", "text", "tool_use"] * 2


def test_state_that_was_changed_or_taken_from_elsewhere_reaches_no_provider(talk: Talk) -> None:
    """It is left out by name, and the conversation goes on."""
    talk.upstream.script = answer_with(reply("Yes.", thinking=("Because.",)))
    seen = talk.ask("anthropic", "responses-model").seen
    fields = again("anthropic", seen)
    (block,) = [each for each in fields["messages"][1]["content"] if each["type"] == "thinking"]
    for signature in (block["signature"][:-6], block["signature"].swapcase(), "A" * 200):
        block["signature"] = signature
        answered = talk.ask("anthropic", "responses-model", **fields)
        assert answered.status == 200
        assert signature not in json.dumps(talk.upstream.body)


def test_thinking_tokens_are_told_apart(talk: Talk) -> None:
    """From the text, for clients of Messages."""
    usage = {"prompt_tokens": 20, "completion_tokens": 109, "total_tokens": 129,
             "completion_tokens_details": {"reasoning_tokens": 100}}  # fmt: skip
    talk.upstream.answer_in_turn(Answer(chat_events({"content": "Yes."}, usage=usage)))
    seen = talk.ask("anthropic", "chat-model").seen
    assert seen.usage is not None
    assert (seen.usage.output, seen.usage.reasoning) == (109, 100)
