"""State of a provider for clients of Chat Completions: kept by call, for the key that got it, on every replica."""

import json
from typing import Any

import httpx

from dragoman.testing.faults.server import HttpReply, json_reply
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import gateway_before

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
SIGNATURE = "EqQBCkgIARABGAIiQL8signature"


def thinking_call(call: str = "toolu_01A") -> HttpReply:
    """Return a reply that thinks, and then calls a tool."""
    content = [
        {"type": "thinking", "thinking": "I should look.", "signature": SIGNATURE},
        {"type": "tool_use", "id": call, "name": "look", "input": {}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 5}
    reply = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content}
    return json_reply({**reply, "stop_reason": "tool_use", "stop_sequence": None, "usage": usage})


def first_turn(setup: Keyed, key: int = 0) -> list[dict[str, Any]]:
    """Return the history of a first turn, with the result of its call, as a client keeps it."""
    question = {"role": "user", "content": "Look"}
    body = {"model": "house", "messages": [question], "tools": TOOLS}
    message = setup.http(key).post("/v1/chat/completions", json=body).json()["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert len(call["id"]) <= 40
    kept = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [question, kept, {"role": "tool", "tool_call_id": call["id"], "content": "a tree"}]


def second_turn(setup: Keyed, history: list[dict[str, Any]], key: int = 0) -> httpx.Response:
    body = {"model": "house", "messages": history, "tools": TOOLS}
    return setup.http(key).post("/v1/chat/completions", json=body)


def test_a_signature_comes_back_on_another_replica_for_its_key_alone(start: Start) -> None:
    """A client that sends back only the id of a call gets the provider's signed thinking restored, on another replica
    too; another key's history with the same id does not."""
    here = start(lambda _: thinking_call(), "messages")
    there = start(lambda _: thinking_call("toolu_01B"), "messages")
    history = first_turn(here)
    assert second_turn(there, history).status_code == 200
    (restored, *_) = json.loads(there.sent())["messages"][1]["content"]
    assert (restored["type"], restored["signature"]) == ("thinking", SIGNATURE)
    assert second_turn(there, history, key=1).status_code == 200
    assert SIGNATURE not in there.sent()


def test_without_a_shared_database_the_state_is_a_loss() -> None:
    """Without a database that replicas share nothing is kept, and the reply says what was lost."""
    with gateway_before(lambda _: thinking_call(), models={"house": "anthropic:m"}) as (url, server):
        body = {"model": "house", "messages": [{"role": "user", "content": "Look"}], "tools": TOOLS}
        reply = httpx.post(f"{url}/v1/chat/completions", json=body)
    assert "state=" in reply.headers["x-dragoman-losses"]
    assert len(server.requests) == 1
