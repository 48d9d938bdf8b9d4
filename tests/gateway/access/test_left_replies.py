"""What was relayed is paid, and an unknown price is never nothing: a key's own holder against its budget."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from decimal import Decimal
from threading import Event
from typing import Any

import httpx
import pytest

from dragoman.messages import CostStatus, TokenUsage, Usage
from dragoman.pricing import price_table
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.benchmarks.wires import WIRES
from tests.gateway.app.test_deferred_store import wait_until
from tests.gateway.keyed import Keyed, Start
from tests.gateway.upstream import PATHS, question, stream_bytes, waiting_reply

DELTAS = ["four" * 100] * 39
"""3,900 tokens, of four characters each."""
TOKENS = 4_000
"""The most that a request allows."""
PRICE = Decimal("0.00001")
MONEY = Decimal("0.10")


class PerToken:
    """Each token costs a hundred-thousandth of a dollar."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        counts = {name: getattr(usage, name) for name in ("input_tokens", "output_tokens")}
        return Usage(**counts, cost_usd=sum(counts.values()) * PRICE, cost_status=CostStatus.PRICED)


@contextmanager
def streams(start: Start, behind: str, **settings: Any) -> Iterator[Keyed]:
    """Start a gateway before a server whose streams stop before their end until the test is over."""
    go = Event()
    text = stream_bytes(behind, *DELTAS)
    end = text.rindex(b"four") + 100

    def answer(request: ReceivedRequest) -> HttpReply:
        return waiting_reply(go, text[end:], before=text[:end])

    try:
        yield start(answer, behind, client={"prices": PerToken()}, **settings)
    finally:
        go.set()


def read_and_leave(setup: Keyed, wire: str, secret: str, tokens: int) -> int | None:
    """Read about as many tokens of a stream, and leave. Return how many were read; None if it was refused."""
    limit = "max_output_tokens" if wire == "responses" else "max_tokens"
    body = question(wire, "house", stream=True, **{limit: TOKENS})
    received = bytearray()
    with (
        suppress(httpx.RemoteProtocolError),  # the budget ended in the stream
        httpx.Client(base_url=setup.url, timeout=60) as client,
        client.stream("POST", PATHS[wire], json=body, headers={"x-api-key": secret}) as reply,
    ):
        if reply.status_code != 200:
            return None
        for data in reply.iter_raw():
            received += data
            if received.count(b"four") >= tokens:
                break
    return received.count(b"four")


@pytest.mark.parametrize("reserve_output", [None, 500])
@pytest.mark.parametrize(("wire", "behind"), [("messages", "messages"), ("chat", "chat"), ("chat", "messages"),
                                              ("responses", "messages"), ("responses", "responses")])  # fmt: skip
def test_a_key_reads_no_more_than_its_budget_in_streams_that_it_leaves(
    start: Start, wire: str, behind: str, reserve_output: int | None
) -> None:
    """By one reservation at most, which was made before it ran out."""
    with streams(start, behind, keys={"reserve_output": reserve_output}) as setup:
        key_id, secret = setup.create_key(str(MONEY))
        read = 0
        for _ in range(30):
            got = read_and_leave(setup, wire, secret, 3_800)
            if got is None:
                break
            read += got
            booked = setup.spent(f"key:{key_id}").usd
            assert booked >= read * PRICE
        else:
            raise AssertionError(f"the key read {read} tokens")
    assert read >= 2 * 3_800
    assert read * PRICE <= MONEY + TOKENS * PRICE


@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_a_stream_that_its_client_leaves_early_costs_little(start: Start, wire: str) -> None:
    """What is booked is what arrived, and not what was reserved."""
    with streams(start, "messages") as setup:
        key_id, secret = setup.create_key(str(MONEY))
        assert read_and_leave(setup, wire, secret, 1) is not None
        assert 0 < setup.spent(f"key:{key_id}").usd < TOKENS * PRICE


@pytest.mark.parametrize("wire", PATHS)
def test_a_whole_request_that_its_client_leaves_costs_its_input(start: Start, wire: str) -> None:
    arrived, go = Event(), Event()

    def answer(request: ReceivedRequest) -> HttpReply:
        arrived.set()
        go.wait(60)
        return json_reply(WIRES["messages"].text_reply("too late"))

    setup = start(answer, "messages", client={"prices": PerToken()})
    key_id, secret = setup.create_key(str(MONEY))
    limit = "max_output_tokens" if wire == "responses" else "max_tokens"
    body = json.dumps(question(wire, "house", **{limit: 100})).encode()
    head = (
        f"POST {PATHS[wire]} HTTP/1.1\r\nhost: gateway\r\nx-api-key: {secret}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    url = httpx.URL(setup.url)
    with socket.create_connection((url.host, url.port or 80)) as connection:
        connection.sendall(head.encode() + body)
        assert arrived.wait(60)
    spent = setup.spent(f"key:{key_id}")
    go.set()
    assert 5 * PRICE <= spent.usd <= 50 * PRICE


@pytest.mark.parametrize(
    "served", [{"service_tier": "priority"}, {"speed": "fast"}, {"model": "a-deployment-7"}], ids=str
)
@pytest.mark.parametrize("streamed", [False, True])
def test_replies_of_unknown_price_spend_a_budget(start: Start, served: dict[str, Any], *, streamed: bool) -> None:
    """Each costs half a cent at the price of the model that was asked. One alert says so."""
    counts = {"input_tokens": 0, "output_tokens": 1_000, **served}
    named = {"model": counts.pop("model")} if "model" in counts else {}
    whole = {**WIRES["messages"].text_reply("Yes."), "usage": counts, **named}

    def answer(request: ReceivedRequest) -> HttpReply:
        if not streamed:
            return json_reply(whole)
        events = [
            {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes."}},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts},
            {"type": "message_stop"},
        ]
        steps = [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events]
        return HttpReply(headers={"content-type": "text/event-stream"}, steps=steps)

    models = {"house": "anthropic:claude-haiku-4-5"}
    with FaultyServer(json_reply({})) as hook:
        alerts = {"url": hook.url, "at": [1.0], "seconds": 60}
        setup = start(answer, "messages", models=models, client={"prices": price_table()}, alerts=alerts)
        key_id, secret = setup.create_key("0.05")
        body = question("messages", "house", max_tokens=1_000, stream=streamed)
        statuses = []
        for _ in range(20):
            statuses.append(setup.bare.post(PATHS["messages"], json=body, headers={"x-api-key": secret}).status_code)
            spent = setup.spent(f"key:{key_id}")
        wait_until(lambda: any(b"price.alert" in each.body for each in hook.requests))
        sent = [alert for each in hook.requests if (alert := json.loads(each.body))["object"] == "price.alert"]
    assert 402 in statuses
    assert statuses.count(200) <= 10
    assert spent.usd == statuses.count(200) * Decimal("0.005")
    assert [(alert["scope"], alert["model"]) for alert in sent] == [(f"key:{key_id}", "anthropic:claude-haiku-4-5")]
