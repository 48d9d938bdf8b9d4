"""Thinking: signatures and sealed reasoning on their way through a client, and back to who issued them."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import openai
import pytest

from dragoman import AsyncClient
from dragoman.testing.conformance.wire import sse as event
from dragoman.testing.faults.server import FaultyServer, json_reply, sse_reply
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.cases.talk import Talk, again, tool
from tests.gateway.cases.test_streams import WEATHER
from tests.gateway.scripted import JSON, Answer, answer_with, chat_call, chat_events, reply, sse
from tests.gateway.serving import serving

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


DETAILS = [
    {"type": "reasoning.text", "text": "Because.", "signature": "sig", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.encrypted", "data": "sealed", "id": "rs_1", "format": "openai-responses-v1", "index": 1},
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("provider", "reasoning", "shown"), [
    ("openrouter", {"reasoning": "Because.", "reasoning_details": DETAILS}, "reasoning"),
    ("groq", {"reasoning": "Because."}, "reasoning"),
    ("vllm", {"reasoning": "Because."}, "reasoning"),
    ("deepseek", {"reasoning_content": "Because."}, "reasoning_content"),
])  # fmt: skip
def test_reasoning_of_a_chat_provider_keeps_its_name(
    provider: str, reasoning: dict[str, Any], shown: str, stream: bool, tmp_path: Path
) -> None:
    """Reasoning of a chat provider keeps its name, for a client of Chat Completions, whole and streamed; and in the
    client's next request, for the provider.
    """
    called = chat_call(0, "{}", call_id="call_1", name="weather")
    body: dict[str, Any] = {"model": "house", "stream": stream, "tools": [tool("openai-chat")]}
    body["messages"] = [{"role": "user", "content": "Hi"}]
    answer = sse_reply(b"".join(map(bytes, chat_events(reasoning, called, finish="tool_calls"))))
    if not stream:
        call = {name: value for name, value in called["tool_calls"][0].items() if name != "index"}
        message = {"role": "assistant", "content": None, "tool_calls": [call], **reasoning}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        answer = json_reply(
            {"id": "c", "object": "chat.completion", "created": 1, "model": "served", "choices": [choice]}
        )
    with ExitStack() as opened:
        server = opened.enter_context(FaultyServer(answer))
        client = AsyncClient(providers={provider: {"api_key": "none", "base_url": f"{server.url}/v1"}})
        gateway = GatewaySettings(models={"house": f"{provider}:served"}, database=f"sqlite:///{tmp_path / 'g.db'}")
        url = opened.enter_context(serving(create_app(gateway, client=client)))
        first = _ask_chat(url, body)
        shown_texts = {name: text for name in ("reasoning", "reasoning_content") if (text := first.get(name))}
        assert shown_texts == {shown: "Because."}
        result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "Sun."}
        _ask_chat(url, {**body, "messages": [*body["messages"], first, result]})
        sent = json.loads(server.requests[1].body)["messages"][1]
    kept = {name: sent[name] for name in ("reasoning", "reasoning_content", "reasoning_details") if name in sent}
    assert kept == ({"reasoning_details": DETAILS} if provider == "openrouter" else reasoning)


def _ask_chat(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return the message of a reply, as the official client reads it."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        if not body["stream"]:
            whole: dict[str, Any] = client.chat.completions.create(**body).choices[0].message.model_dump()
            return {name: value for name, value in whole.items() if value is not None}
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(**body) if chunk.choices]
    message: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": []}
    for delta in deltas:
        for name in ("reasoning", "reasoning_content"):
            if text := getattr(delta, name, None):
                message[name] = message.get(name, "") + text
        for call in delta.tool_calls or ():
            if call.id:
                function = {"name": "weather", "arguments": "{}"}
                message["tool_calls"].append({"id": call.id, "type": "function", "function": function})
    return message


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
    usage = {"prompt_tokens": 20, "completion_tokens": 109, "total_tokens": 129,
             "completion_tokens_details": {"reasoning_tokens": 100}}  # fmt: skip
    talk.upstream.answer_in_turn(Answer(chat_events({"content": "Yes."}, usage=usage)))
    seen = talk.ask("anthropic", "chat-model").seen
    assert seen.usage is not None
    assert (seen.usage.output, seen.usage.reasoning) == (109, 100)
