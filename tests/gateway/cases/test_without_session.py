"""Texts and calls for a provider of another wire need no session: what is sent and answered is as with one."""

import json
import re
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Budget
from dragoman.testing.faults.server import ServerScript, json_reply, sse_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.repeated.requests import growing, history_of, recorded_clients, written_agents
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, streamed_reply, whole_reply
from tests.tables import each_row

WITH_SESSION = {"budgets": [Budget(tokens=10**9)]}
"""A setting that only sessions obey."""
LATE_SYSTEM = {"messages": [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Be brief."}]}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {}}}}
OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {"temperature": 0.5, "max_tokens": 10**7, "seed": 3}, {"response_format": SCHEMA},
    {"messages": [{"role": "user", "name": "Ada", "content": "Hi"}]}, LATE_SYSTEM,
)  # fmt: skip
_VARYING = ("id", "created", "created_at", "request_id")
REFUSED = json_reply({"error": {"type": "invalid_request_error", "message": "no"}}, status=400)


def exchanges(script: ServerScript, wire: str, other: str, asked: list[dict[str, Any]], **settings: Any) -> list[Any]:
    """Return what the client got for each request, apart from ids and times, and what was sent and counted."""
    with gateway_before(script, models={"house": f"{PROVIDERS[other]}:some-model"}, **settings) as (url, server):
        replies = [httpx.post(url + PATHS[wire], json=each) for each in asked]
        sent = [(request.path, request.body) for request in server.requests]
        page = httpx.get(f"{url}/metrics").text
    counts = [line for line in page.splitlines() if line.startswith(("dragoman_tokens_total", "dragoman_losses_total"))]
    got = [(each.status_code, each.headers.get("x-dragoman-losses"), content_of(each)) for each in replies]
    return [got, sent, counts]


def content_of(reply: httpx.Response) -> dict[str, Any]:
    fields = {name: value for name, value in reply.json().items() if name not in _VARYING}
    if isinstance(fields.get("output"), list):
        fields["output"] = [{**item, "id": ""} for item in fields["output"]]
    return fields


@each_row(
    ("wire", "other"),
    [("chat", "messages"), ("chat", "responses"), ("messages", "chat"), ("responses", "messages")],
)
def test_replies_and_errors_are_those_of_a_session(wire: str, other: str) -> None:
    script = [whole_reply(other), REFUSED, json_reply({}, status=503), json_reply({"choices": []})]
    asked = [question(wire, "house")] * len(script)
    direct, session = (exchanges(script, wire, other, asked, client=client) for client in ({}, WITH_SESSION))
    assert direct == session
    assert [status for status, *_ in direct[0]][:2] == [200, 400]


@each_row("strict", [False, True])
def test_losses_are_those_of_a_session(strict: bool) -> None:
    asked = [{**question("chat", "house"), **each} for each in OPTIONS]
    script = [whole_reply("messages")] * len(asked)
    direct, session = (
        exchanges(script, "chat", "messages", asked, strict=strict, client=client) for client in ({}, WITH_SESSION)
    )
    assert direct == session
    assert any(losses for _, losses, _ in direct[0])


AGENTS = {wire: body for wire, body in written_agents() if wire in PATHS}
_NEW_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{24,32}")
_TIME = re.compile(r'"(created|created_at|completed_at)":[0-9.]+')


def requests_of(wire: str) -> list[dict[str, Any]]:
    """The requests of an agent at each place of its conversation, and such with faults."""
    body, name = AGENTS[wire], history_of(wire)
    history, tools = body[name], body["tools"]
    return [
        *growing(wire, body, 12),
        {**body, name: history[2:]},  # results without their calls
        {**body, name: history[:2] + history[3:]},  # calls without their results
        {**body, "tools": []},
        {**body, "tools": [*tools, *tools]},
        {**body, name: [*history, {"role": "assistant", "content": "It is"}]},
    ]


def streamed_exchanges(wire: str, other: str, asked: list[dict[str, Any]], **settings: Any) -> list[Any]:
    """As `exchanges`, of streams: a text and a call in turn."""
    texts, calls = (
        WIRES[other].text_stream(["In ", "Bern."]),
        WIRES[other].call_stream(['{"path":"1"}', '{"path":"2"}']),
    )
    script = [sse_reply(b"".join(texts)), sse_reply(b"".join(calls))] * len(asked)
    with gateway_before(script, models={"house": f"{PROVIDERS[other]}:some-model"}, **settings) as (url, server):
        replies = [httpx.post(url + PATHS[wire], json={**each, "stream": True}) for each in asked]
        sent = [(request.path, request.body) for request in server.requests]
    got = [(each.status_code, _TIME.sub("", _NEW_ID.sub("", each.text))) for each in replies]
    return [got, sent]


@each_row(("wire", "other"), [("chat", "messages"), ("messages", "chat"), ("responses", "chat")])
def test_an_agent_is_answered_as_in_a_session(wire: str, other: str, exhaustive: bool) -> None:
    """Whatever its conversation holds, and wherever it ends; whole replies and streams; texts and calls."""
    asked = [{**each, "model": "house"} for each in requests_of(wire)]
    script = [whole_reply(other)] * len(asked)
    direct, session = (exchanges(script, wire, other, asked, client=client) for client in ({}, WITH_SESSION))
    assert direct == session
    statuses = [status for status, *_ in direct[0]]
    assert statuses.count(400) == 1  # of two tools with one name
    assert statuses.count(200) == len(statuses) - 1
    if exhaustive:
        asked += [{**body, "model": "house"} for name, body in recorded_clients() if name == wire]
    direct, session = (streamed_exchanges(wire, other, asked, client=client) for client in ({}, WITH_SESSION))
    assert direct == session
    assert any("write" in text for _, text in direct[0])


STREAMS = {
    "/v1beta/models/house:streamGenerateContent?alt=sse": {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    "/api/chat": {"model": "house", "messages": [{"role": "user", "content": "Hi"}]},
    PATHS["chat"]: question("chat", "house", stream=True),
}
"""Requests for a stream: by the address, by default, and by a field."""


@each_row("path", STREAMS)
def test_a_client_who_wants_a_stream_has_one_from_the_provider(path: str) -> None:
    """A client who wants a stream has one from the provider, and no whole reply in one piece at its end."""
    client: dict[str, Any]
    for client in ({}, WITH_SESSION):
        running = gateway_before(streamed_reply("messages"), models={"house": "anthropic:some-model"}, client=client)
        with running as (url, server):
            assert httpx.post(url + path, json=STREAMS[path]).status_code == 200
            assert json.loads(server.requests[0].body)["stream"] is True


def test_no_session_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("a session was made")

    monkeypatch.setattr(AsyncClient, "session", refuse)
    picture = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    shown = {**question("chat", "house"), "messages": [{"role": "user", "content": [picture]}]}
    asked = [question("chat", "house"), {**AGENTS["chat"], "model": "house"}, shown]
    got, *_ = exchanges([whole_reply("messages")] * 2, "chat", "messages", asked)
    assert [status for status, *_ in got] == [200, 200, 500]


def test_the_next_place_is_asked_as_with_a_session() -> None:
    places = [{"model": "anthropic:m"}, {"model": "openai:m", "weight": 0}]
    script = [json_reply({}, status=503), whole_reply("responses")]
    found = []
    for client in ({}, WITH_SESSION):
        with gateway_before(script, models={"house": places}, client=client) as (url, server):
            reply = httpx.post(url + PATHS["chat"], json=question("chat", "house"))
            found.append((reply.status_code, reply.json()["choices"], [each.path for each in server.requests]))
    assert found[0] == found[1]
    assert len(found[0][2]) == 2
