"""A provider of the client's wire: the bytes go through, and the reply is read beside."""

import json
from typing import Any

import httpx
import pytest

from dragoman import Budget
from dragoman.policy import PluginResult, Step, hook
from dragoman.testing.faults.server import sse_reply
from dragoman_gateway.bodies.model_name import replace_model
from dragoman_gateway.errors import ClientError
from dragoman_gateway.json import loads
from tests.gateway.upstream import (
    KEY,
    PATHS,
    PROVIDERS,
    gateway_before,
    question,
    stream_bytes,
    streamed_reply,
    whole_reply,
)

ODD = b'{ "model" :  "house",\n "unknown_field": {"model": "kept", "n": 1.10},\t'
"""The start of a request as no encoder would write it."""


def odd_request(wire: str) -> bytes:
    rest = httpx.Request("POST", "http://none", json=question(wire, "x", user="")).content
    return ODD + rest.removeprefix(b'{"model":"x",')


@pytest.mark.parametrize("wire", PATHS)
def test_a_request_and_its_reply_go_through_as_bytes(wire: str) -> None:
    model = f"{PROVIDERS[wire]}:some-model"
    with gateway_before(whole_reply(wire), models={"house": model}) as (url, server):
        sent = odd_request(wire)
        reply = httpx.post(url + PATHS[wire], content=sent, headers={"content-type": "application/json"})
        (received,) = server.requests
    assert received.body == sent.replace(b'"house"', b'"some-model"', 1)
    assert reply.content == whole_reply(wire).body
    assert KEY in str(received.headers)


@pytest.mark.parametrize("client", [{}, {"budgets": [Budget(tokens=10**9)]}], ids=["alone", "governed"])
@pytest.mark.parametrize("spelled", ["max_tokens", "max_\\u0074okens"])
@pytest.mark.parametrize(("model", "exact", "name"), [
    ("gpt-5.4", False, "max_completion_tokens"), ("o3", False, "max_completion_tokens"),
    ("gpt-5.4", True, None), ("gpt-4.1", False, None), ("qwen3", False, None),
])  # fmt: skip
def test_a_limit_has_the_name_that_the_model_wants(
    model: str, exact: bool, name: str | None, spelled: str, client: dict[str, Any]
) -> None:
    """All else stays as it is, byte for byte."""
    sent = odd_request("chat").removesuffix(b"}") + f', "metadata": {{"max_tokens": "x"}}, "{spelled}" : 9 }}'.encode()
    models = {"house": f"openai-chat:{model}"}
    with gateway_before(whole_reply("chat"), models=models, client=client, exact_bytes=exact) as (url, server):
        httpx.post(url + PATHS["chat"], content=sent, headers={"content-type": "application/json"})
        (received,) = server.requests
    expected = sent.replace(b'"house"', f'"{model}"'.encode(), 1)
    if name is not None:
        expected = expected.replace(f'"{spelled}" : 9'.encode(), f'"{name}" : 9'.encode())
    assert received.body == expected


def test_a_limit_by_both_names_is_the_provider_s_to_judge() -> None:
    body = question("chat", "house", max_tokens=9, max_completion_tokens=8)
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:gpt-5.4"}) as (url, server):
        httpx.post(url + PATHS["chat"], json=body)
    assert json.loads(server.requests[0].body) == {**body, "model": "gpt-5.4"}


@pytest.mark.parametrize("wire", PATHS)
def test_a_stream_goes_through_as_bytes(wire: str) -> None:
    with gateway_before(streamed_reply(wire), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, _):
        reply = httpx.post(url + PATHS[wire], json=question(wire, "house", stream=True))
    assert reply.content == stream_bytes(wire)
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert "x-dragoman-losses" not in reply.headers


def test_a_client_s_key_stays_here_and_only_listed_headers_pass() -> None:
    mine = {
        "x-api-key": "sk-client",
        "authorization": "Bearer sk-client",
        "anthropic-beta": "claude-code-20250219, made-up-2026-01-01",
        "cookie": "a=b",
        "x-stainless-os": "Linux",
    }
    with gateway_before(whole_reply("messages"), models={"house": "anthropic:m"}) as (url, server):
        httpx.post(f"{url}/v1/messages?beta=true", json=question("messages", "house"), headers=mine)
        (received,) = server.requests
    assert b"sk-client" not in received.head
    assert b"cookie" not in received.head.lower()
    assert received.headers["anthropic-beta"] == "claude-code-20250219, made-up-2026-01-01"
    assert received.headers["anthropic-version"] == "2023-06-01"


@hook("cmf.llm_output", window=20)
def look(step: Step) -> PluginResult:
    """Judges replies, so no bytes of the provider may pass."""
    return PluginResult()


def test_with_an_output_hook_the_reply_is_written_again() -> None:
    settings = {"models": {"house": "anthropic:m"}, "client": {"policy": [look]}}
    with gateway_before(streamed_reply("messages"), **settings) as (url, server):
        reply = httpx.post(f"{url}/v1/messages", json=question("messages", "house", stream=True))
        (received,) = server.requests
    assert reply.content != stream_bytes("messages")
    assert b"message_stop" in reply.content
    assert b'"model":"m"' in received.body.replace(b" ", b"")


def test_the_reply_is_read_beside_so_a_budget_counts_it() -> None:
    client = {"budgets": [Budget(tokens=130, per="client")]}
    with gateway_before(whole_reply("messages"), models={"house": "anthropic:m"}, client=client) as (url, server):
        replies = [httpx.post(f"{url}/v1/messages", json=question("messages", "house")) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [200, 402, 402]
    assert replies[1].headers["x-should-retry"] == "false"
    assert replies[1].json()["error"]["type"] == "billing_error"
    assert len(server.requests) == 1


CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
TEXT = b'[{"index":0,"delta":{"role":"assistant","content":"In Bern."},"finish_reason":"stop"}],"usage":null}\n\n'
USAGE = b'[],"usage":{"prompt_tokens":20,"completion_tokens":9,"total_tokens":29}}\n\n'
COUNTED = [CHUNK + TEXT, CHUNK + USAGE, b"data: [DONE]\n\n"]


@pytest.mark.parametrize("asked", [None, {"include_usage": False, "other": 1}, {"include_usage": True}])
def test_where_something_counts_a_stream_s_counts_are_asked_for_and_hidden(asked: dict[str, Any] | None) -> None:
    budget = Budget(tokens=10**6, per="client")
    settings = {"models": {"house": "openai-chat:m"}, "client": {"budgets": [budget]}}
    body = question("chat", "house", stream=True, **({} if asked is None else {"stream_options": asked}))
    with gateway_before(sse_reply(*COUNTED), **settings) as (url, server):
        reply = httpx.post(f"{url}/v1/chat/completions", json=body)
        (received,) = server.requests
    hidden = asked is None or not asked["include_usage"]
    assert reply.content == b"".join(COUNTED[::2] if hidden else COUNTED)
    assert json.loads(received.body)["stream_options"] == {**(asked or {}), "include_usage": True}
    assert budget.spend_of(None).tokens == 29


def test_where_nothing_counts_the_bytes_stay_as_they_are() -> None:
    with gateway_before(sse_reply(*COUNTED), models={"house": "openai-chat:house"}) as (url, server):
        sent = httpx.post(f"{url}/v1/chat/completions", json=question("chat", "openai-chat:house", stream=True))
        (received,) = server.requests
    assert sent.content == b"".join(COUNTED)
    assert received.body == sent.request.content.replace(b"openai-chat:house", b"house")


NAMES = {
    b'{"model":"a","x":1}': b'{"model":"new","x":1}',
    b'{"x":{"model":"a"},"model" : "a"}': b'{"x":{"model":"a"},"model" : "new"}',
    b'{"x":"model","y":"\\"model\\":\\"a\\"","model":"a"}': b'{"x":"model","y":"\\"model\\":\\"a\\"","model":"new"}',
    b'{"mo\\u0064el":"a"}': b'{"mo\\u0064el":"new"}',
    '\n{"ü":"🙂","model":"a\\"b","model2":"model"}'.encode(): '\n{"ü":"🙂","model":"new","model2":"model"}'.encode(),
    b'{"model":"new"}': b'{"model":"new"}',
}


def test_only_the_name_of_the_model_is_replaced() -> None:
    found = {body: replace_model(body, loads(body), "new") for body in NAMES}
    assert found == NAMES


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"dear","model":"cheap"}',
        b'{"model":"dear","mo\\u0064el":"cheap"}',
        b'{"a":1,"a":2,"x":"model","model":"m"}',
    ],
)
def test_a_field_that_occurs_twice_is_refused(body: bytes) -> None:
    with pytest.raises(ClientError, match="occurs twice"):
        replace_model(body, loads(body), "new")
