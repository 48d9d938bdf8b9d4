"""A number that no provider reads is the client's 400, on every wire, whoever answers, with keys and without."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.keyed import Start
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply

GOOGLE = "/v1beta/models/house:generateContent"
TEXT = {"contents": [{"role": "user", "parts": [{"text": "Where is Bern?"}]}]}
FIELDS: dict[str, list[dict[str, Any]]] = {
    "messages": [
        {"max_tokens": 0},
        {"top_k": 0},
        {"thinking": {"type": "enabled", "budget_tokens": 0}},
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 0}]},
        {"context_management": {"edits": [{"type": "compact_20260112", "trigger": {"value": 0}}]}},
    ],
    "chat": [
        *({name: 0} for name in ("max_tokens", "max_completion_tokens", "n", "seed", "top_k", "temperature")),
        {"logprobs": True, "top_logprobs": 0},
        {"new_field": [[1, 0]]},
        {"new_field": {"new": {"newer": 0}}},
    ],
    "responses": [
        *({name: 0} for name in ("max_output_tokens", "max_tool_calls", "top_logprobs")),
        {"tools": [{"type": "image_generation", "partial_images": 0}]},
    ],
    "google": [
        *(
            {"generationConfig": {name: 0}}
            for name in ("maxOutputTokens", "max_output_tokens", "topK", "seed", "candidateCount", "logprobs")
        ),
        {"generationConfig": {"thinkingConfig": {"thinkingBudget": 0}}},
    ],
    "ollama": [
        *({"options": {name: 0}} for name in ("num_predict", "num_ctx", "seed", "top_k")),
        {"keep_alive": 0},
        {"top_logprobs": 0},
    ],
}
"""The fields with whole numbers: each 0 is replaced by one that is too large."""
LARGE = ("1" + "0" * 30, "1" + "0" * 400, "-1" + "0" * 30, "1e30", str(2**63), "1e400")
ADDRESSES = {**PATHS, "google": GOOGLE, "ollama": "/api/chat"}
BEHIND = {"messages": "anthropic:m", "chat": "openai-chat:m", "responses": "openai:m"}


def bodies(wire: str, number: str) -> list[bytes]:
    plain = TEXT if wire == "google" else question("chat" if wire == "ollama" else wire, "house")
    found = [json.dumps({**plain, **each}) for each in FIELDS[wire]]
    return [each.replace(": 0", f": {number}").replace(", 0", f", {number}").encode() for each in found]


def refusals(url: str, path: str, wire: str, headers: dict[str, str]) -> list[tuple[int, bytes]]:
    """Return the status for each request, with the request."""
    typed = {"content-type": "application/json", **headers}
    return [
        (httpx.post(url + path, content=body, headers=typed).status_code, body)
        for number in LARGE
        for body in bodies(wire, number)
    ]


@pytest.mark.parametrize("wire", FIELDS)
@pytest.mark.parametrize("behind", BEHIND)
def test_a_number_that_is_too_large_is_refused(start: Start, wire: str, behind: str) -> None:
    """By whoever answers: a provider of the client's wire, which gets its bytes, and one of another wire."""
    with ExitStack() as stack:
        reply = whole_reply(behind)
        open_url, open_server = stack.enter_context(gateway_before(lambda _: reply, models={"house": BEHIND[behind]}))
        keyed = start(lambda _: reply, models={"house": BEHIND[behind]})
        _, budgeted = keyed.create_key("9999999/month", limits=("999999999 tokens/minute",))
        for url, headers in (
            (open_url, {}),
            (keyed.url, {"authorization": f"Bearer {keyed.secrets[0]}"}),
            (keyed.url, {"authorization": f"Bearer {budgeted}"}),
        ):
            found = refusals(url, ADDRESSES[wire], wire, headers)
            assert [each for each in found if each[0] != 400] == []
    assert open_server.requests == keyed.server.requests == []


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/embeddings", {"model": "house", "input": "Bern", "dimensions": 0}),
        ("/v1/embeddings", {"model": "house", "input": "Bern", "new_field": 0}),
        ("/api/embed", {"model": "house", "input": "Bern", "dimensions": 0}),
        ("/v1beta/models/house:embedContent", {"content": {"parts": [{"text": "B"}]}, "outputDimensionality": 0}),
        ("/v1beta/models/house:countTokens", {**TEXT, "generationConfig": {"maxOutputTokens": 0}}),
        ("/v1beta/models/house:streamGenerateContent", {**TEXT, "generationConfig": {"maxOutputTokens": 0}}),
        ("/v1/messages/count_tokens", question("messages", "house", thinking={"budget_tokens": 0})),
        ("/v1/responses/input_tokens", question("responses", "house", max_output_tokens=0)),
        ("/v1/responses/compact", question("responses", "house", max_output_tokens=0)),
        ("/v1/responses", question("responses", "house", max_output_tokens=0, background=True)),
        ("/v1/chat/completions", question("chat", "house", max_tokens=0, stream=True)),
        ("/api/generate", {"model": "house", "prompt": "B", "options": {"num_predict": 0}}),
    ],
)
def test_at_every_other_address_too(path: str, fields: dict[str, Any]) -> None:
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}) as (url, server):
        for number in LARGE:
            body = json.dumps(fields).replace(": 0", f": {number}")
            reply = httpx.post(url + path, content=body, headers={"content-type": "application/json"})
            assert reply.status_code == 400, reply.text
    assert server.requests == []


@pytest.mark.parametrize("wire", ["messages", "chat", "responses"])
@pytest.mark.parametrize("number", [2**31, 2**53, 10**18, 2**63 - 1])
def test_a_number_that_a_machine_holds_is_no_error_of_the_gateway(start: Start, wire: str, number: int) -> None:
    """It is asked for, or it is more than the budget has."""
    setup = start(lambda _: whole_reply("chat"), keys={"reserve_output": None})
    name = {"messages": "max_tokens", "chat": "max_completion_tokens", "responses": "max_output_tokens"}[wire]
    body = question(wire, "house", **{name: number})
    usd = setup.create_key("9999999/month")[1]
    tokens = setup.create_key("9000000000000000000 tokens/month", limits=("999999999 tokens/minute",))[1]
    for secret in (setup.secrets[0], usd, tokens):
        reply = httpx.post(setup.url + PATHS[wire], json=body, headers={"authorization": f"Bearer {secret}"})
        assert reply.status_code in (200, 400, 402, 429), reply.text


def test_a_schema_may_hold_any_number(tmp_path: Path) -> None:
    """A tool for numbers of 64 bits without a sign says their maximum."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 2**64 - 1}}}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    with gateway_before(lambda _: whole_reply("chat"), models={"house": "openai-chat:m"}) as (url, server):
        reply = httpx.post(f"{url}/v1/chat/completions", json=question("chat", "house", tools=[tool]))
    assert reply.status_code == 200, reply.text
    assert str(2**64 - 1) in server.requests[0].body.decode()
