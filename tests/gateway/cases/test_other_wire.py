"""What the gateway changes for a provider of another wire: each ruling, its loss, and its setting."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.gateway.cases.talk import CITY, Talk, tool
from tests.gateway.cases.test_requests import late
from tests.gateway.scripted import Upstream, answer_with, gateway_before, reply

PATCH = '*** Begin Patch\n*** Add File: ü.txt\n+"quoted" \\ 天\n*** End Patch'
GRAMMAR = {"syntax": "lark", "definition": "start: x"}
CUSTOM = {"type": "custom", "custom": {"name": "apply_patch", "description": "Patches",
                                       "format": {"type": "grammar", "grammar": GRAMMAR}}}  # fmt: skip
STRICT: dict[str, Any] = {
    "openai-chat": {"type": "function", "function": {"name": "weather", "strict": True, "parameters": CITY}},
    "openai": {"type": "function", "name": "weather", "strict": True, "parameters": CITY},
    "anthropic": {"name": "weather", "strict": True, "input_schema": CITY},
}


@pytest.mark.parametrize("model", ["messages-model", "responses-model", "google-model"])
def test_a_custom_tool_of_a_chat_client_comes_back_as_such(talk: Talk, model: str) -> None:
    """Its text comes back byte for byte, whole and streamed, and its result finds the call."""
    talk.upstream.script = answer_with(reply(calls=(("apply_patch", {"input": PATCH}),)))
    whole, streamed = talk.both("openai-chat", model, tools=[CUSTOM])
    (call,) = whole.body["choices"][0]["message"]["tool_calls"]
    assert (call["type"], call["custom"]) == ("custom", {"name": "apply_patch", "input": PATCH})
    pieces = [
        each
        for event in streamed.events
        for choice in event["choices"]
        for each in choice["delta"].get("tool_calls") or ()
    ]
    assert pieces[0]["id"]
    assert {piece["index"] for piece in pieces} == {0}
    assert (pieces[0]["type"], pieces[0]["custom"]["name"]) == ("custom", "apply_patch")
    assert "".join(piece["custom"]["input"] for piece in pieces) == PATCH
    history = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "Done"},
    ]
    answered = talk.ask("openai-chat", model, tools=[CUSTOM], messages=history)
    assert answered.status == 200
    assert "orphan" not in answered.losses
    assert "Done" in json.dumps(talk.upstream.body)


def test_a_custom_tool_can_be_chosen(talk: Talk) -> None:
    """Under the type that the provider knows it by. A choice among some tools is a loss where all are offered."""
    chosen = {"type": "custom", "custom": {"name": "apply_patch"}}
    talk.ask("openai-chat", "responses-model", tools=[CUSTOM, tool("openai-chat")], tool_choice=chosen)
    assert talk.upstream.body["tool_choice"] == {"type": "custom", "name": "apply_patch"}
    talk.ask("openai-chat", "responses-model", tools=[CUSTOM, tool("openai-chat")],
             tool_choice={"type": "function", "function": {"name": "weather"}})  # fmt: skip
    assert talk.upstream.body["tool_choice"] == {"type": "function", "name": "weather"}
    theirs = {"type": "custom", "name": "apply_patch"}
    own = {"type": "custom", "name": "apply_patch", "description": "Patches"}
    talk.ask("openai", "messages-model", tools=[own, tool("openai")], tool_choice=theirs)
    assert talk.upstream.body["tool_choice"] == {"type": "tool", "name": "apply_patch"}
    talk.ask("openai", "openai-chat:gpt-5.4", tools=[own, tool("openai")], tool_choice=theirs)
    sent = talk.upstream.body["tools"][0]["type"], talk.upstream.body["tool_choice"]["type"]
    assert sent == ("custom", "custom")
    some = {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [chosen]}}
    answered = talk.ask("openai-chat", "messages-model", tools=[CUSTOM, tool("openai-chat")], tool_choice=some)
    assert "option=1" in answered.losses


def test_a_strict_tool_that_is_not_strict_elsewhere_is_a_loss(talk: Talk) -> None:
    for wire, strict in STRICT.items():
        own, other = {
            "openai-chat": ("chat-model", "messages-model"),
            "openai": ("responses-model", "chat-model"),
            "anthropic": ("messages-model", "responses-model"),
        }[wire]
        assert "tools=1" in talk.ask(wire, other, tools=[strict]).losses, wire
        assert talk.ask(wire, other, tools=[tool(wire)]).losses == "", wire
        assert talk.ask(wire, own, tools=[strict]).losses == "", wire
        assert talk.upstream.body["tools"] == [strict], wire


def test_history_at_a_provider_of_the_client_s_wire_is_no_other_s(talk: Talk) -> None:
    """Another model would answer without it."""
    kept = {"openai": {"conversation": "conv_1"}, "anthropic": {"thread": "thread_1"}}
    for wire, field in kept.items():
        refused = talk.ask(wire, "chat-model", stream=False, **field)
        assert refused.status == 400, wire
        assert "send the whole conversation" in refused.body["error"]["message"]
        details = refused.body["error"].get("details", "none")
        assert details == ("none" if wire == "openai" else {"error_code": "thread_unsupported_request",
                                                            "unsupported": ["thread"]}), wire  # fmt: skip
    assert talk.upstream.requests == []
    assert talk.ask("openai", "responses-model", conversation="conv_1").status == 200
    assert talk.upstream.body["conversation"] == "conv_1"
    assert talk.ask("openai", "chat-model", conversation=None).status == 200


def test_what_a_reply_cannot_bring_back_is_not_asked_for(talk: Talk) -> None:
    """Several answers of a stream, and log probabilities: the client would pay for them and not get them."""
    talk.upstream.script = answer_with(reply("It rains."))
    streamed, whole = (talk.ask("openai-chat", "google-model", n=2, stream=stream) for stream in (True, False))
    assert "option=1" in streamed.losses
    assert "option" not in whole.losses
    assert ["candidateCount" in json.dumps(request.body) for request in talk.upstream.requests] == [False, True]
    assert "option=1" in talk.ask("openai-chat", "google-model", logprobs=True, top_logprobs=2).losses
    assert "ogprobs" not in json.dumps(talk.upstream.body)
    assert "option" not in talk.ask("openai-chat", "chat-model", logprobs=True, n=2).losses
    assert talk.upstream.body["n"] == 2


def test_more_output_than_a_model_writes_becomes_its_most(talk: Talk) -> None:
    """An agent asks for what its own models write. On its own wire nothing is changed."""
    answered = talk.ask("anthropic", "chat-model", max_tokens=64_000)
    assert talk.upstream.body["max_completion_tokens"] == 32_768
    assert answered.losses == "1; option=1"
    assert talk.ask("anthropic", "chat-model", max_tokens=32_768).losses == ""
    talk.ask("anthropic", "messages-model", max_tokens=640_000)
    assert talk.upstream.body["max_tokens"] == 640_000


def test_the_limit_of_an_unknown_model_is_not_guessed(talk: Talk) -> None:
    talk.ask("anthropic", "openai-chat:not-in-any-table", max_tokens=64_000)
    assert talk.upstream.body["max_completion_tokens"] == 64_000


def test_a_late_system_message_that_becomes_the_user_s_is_marked(talk: Talk) -> None:
    answered = talk.ask("anthropic", "google-model", messages=late(), system="Be brief.")
    (turn,) = talk.upstream.body["contents"]
    assert turn["role"] == "user"
    assert turn["parts"][1]["text"] == "[A message of the system, not of the user]\nRemember the rules."
    assert "role=1" in answered.losses
    assert talk.upstream.body["systemInstruction"]["parts"] == [{"text": "Be brief."}]


TOKEN = "x-anthropic-billing-header: cc_version=2.1.197.abc; cc_entrypoint=sdk-cli;"


def _plain(talk: Talk) -> bool:
    talk.ask("anthropic", "google-model", messages=late())
    return bool(talk.upstream.body["contents"][0]["parts"][1]["text"] == "Remember the rules.")


def _refused(talk: Talk) -> bool:
    answered = talk.ask("anthropic", "google-model", messages=late())
    accepted = talk.ask("anthropic", "chat-model", messages=late())
    return (answered.status, accepted.status) == (400, 200) and "no system message" in answered.raw.decode()


def _keeps_token(talk: Talk) -> bool:
    answered = talk.ask("anthropic", "chat-model", system=[{"type": "text", "text": TOKEN}])
    return TOKEN in json.dumps(talk.upstream.body) and answered.losses == ""


def _passes_output(talk: Talk) -> bool:
    talk.ask("anthropic", "chat-model", max_tokens=64_000)
    return bool(talk.upstream.body["max_completion_tokens"] == 64_000)


def _starts_with_nothing(talk: Talk) -> bool:
    start = talk.ask("anthropic", "chat-model").events[0]
    return bool(start["message"]["usage"]["input_tokens"] == 0)


@pytest.mark.parametrize(
    ("settings", "holds"),
    [
        ({"late_system": "plain"}, _plain),
        ({"late_system": "refuse"}, _refused),
        ({"keep_client_tokens": True}, _keeps_token),
        ({"cap_output": False}, _passes_output),
        ({"estimate_start": False}, _starts_with_nothing),
    ],
)
def test_each_ruling_has_a_setting(settings: dict[str, Any], holds: Callable[[Talk], bool]) -> None:
    upstream = Upstream()
    with gateway_before(upstream, other_wire=settings) as address, Talk(address, upstream) as talk:
        assert holds(talk)
