"""The hook that receives each attempt as it went over the wire."""

import asyncio
import json
import logging
from typing import Any

import pytest

from dragoman import AsyncClient, Client
from dragoman.adapter.errors import NetworkError, ServerError
from dragoman.adapter.wire import WireRequest
from dragoman.errors import ConfigurationError
from dragoman.testing.faults.server import RESET, FaultyServer, HttpReply, json_reply, sse_reply
from dragoman.transport import RetryPolicy
from dragoman.transport.exchanges import HttpExchange
from tests.unit.transport.drivers import BODY, ENGINES, KEY, PLAIN_REQUEST, STREAM_REQUEST, Driver, VirtualClock
from tests.unit.transport.test_secrets import REPLIES

ENGINE = pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)


@ENGINE
@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
def test_an_attempt_is_shown_as_it_went_over_the_wire(driver: Driver, request_: WireRequest) -> None:
    """Address, headers and bodies of both directions; the key is hidden."""
    seen: list[HttpExchange] = []
    reply = sse_reply(b"data: 1\n\n", b"data: 2\n\n") if request_.stream else json_reply({"ok": True})
    with FaultyServer(reply) as server:
        result = driver.call(request_, base_url=server.url, on_exchange=seen.append)
    (exchange,) = seen
    assert (exchange.method, exchange.url) == ("POST", f"{server.url}/chat")
    assert (exchange.status, exchange.attempt, exchange.error) == (200, 1, None)
    assert (exchange.request_body, exchange.response_body) == (BODY, result.body)
    assert exchange.request_headers["x-api-key"] == "***"
    assert exchange.response_headers["content-type"].startswith(("text/event-stream", "application/json"))
    assert exchange.seconds >= 0


@ENGINE
def test_each_attempt_is_shown(driver: Driver) -> None:
    """A failed attempt has its status, its body and its error; numbers count up."""
    seen: list[HttpExchange] = []
    with FaultyServer([json_reply({"error": "busy"}, 500), json_reply({"ok": True})]) as server:
        clock = VirtualClock()
        driver.call(base_url=server.url, on_exchange=seen.append, timing=clock.timing, retry=RetryPolicy(max_retries=1))
    first, second = seen
    assert (first.attempt, first.status, json.loads(first.response_body)) == (1, 500, {"error": "busy"})
    assert isinstance(first.error, ServerError)
    assert (second.attempt, second.status, second.error) == (2, 200, None)


@ENGINE
def test_a_broken_stream_is_shown_as_far_as_it_came(driver: Driver) -> None:
    """What had arrived, and why it ended."""
    seen: list[HttpExchange] = []
    with FaultyServer(sse_reply(b"data: 1\n\n", RESET)) as server:
        result = driver.call(STREAM_REQUEST, base_url=server.url, on_exchange=seen.append)
    (exchange,) = seen
    assert exchange.response_body == result.body
    assert isinstance(exchange.error, NetworkError)


@ENGINE
@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_no_exchange_holds_the_key(driver: Driver, reply: HttpReply) -> None:
    """Whatever the server repeats."""
    seen: list[HttpExchange] = []
    with FaultyServer(reply) as server:
        driver.call(base_url=server.url, on_exchange=seen.append, timeout=0.3, retry=RetryPolicy(max_retries=0))
    assert seen
    for exchange in seen:
        fields = [getattr(exchange, name) for name in exchange.__slots__]
        assert KEY not in repr((exchange, fields, str(exchange.error)))


@ENGINE
def test_a_hook_that_fails_fails_nothing(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    """The reply arrives, and one warning names the mistake."""

    def fail(exchange: HttpExchange) -> None:
        raise ValueError("no")

    with FaultyServer(json_reply({"ok": True})) as server, caplog.at_level(logging.WARNING, "dragoman.transport"):
        result = driver.call(base_url=server.url, on_exchange=fail)
    assert result.body == b'{"ok": true}'
    assert [record.message for record in caplog.records] == ["on_exchange failed: ValueError"]


MESSAGE = {
    "id": "m", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip
MODEL = "anthropic:claude-opus-5-5"


def test_a_client_shows_everything_that_it_sends() -> None:
    """One hook for all providers, sync and async; a derived client may have another one, or none."""
    seen: list[HttpExchange] = []
    other: list[HttpExchange] = []
    with FaultyServer(json_reply(MESSAGE)) as server:
        providers: Any = {"anthropic": {"base_url": server.url, "api_key": KEY}}
        with Client(providers=providers, on_exchange=seen.append) as client:
            assert client.ask(MODEL, "Hello").text == "Hi"
            client.with_(on_exchange=other.append).ask(MODEL, "Hello")
            client.with_(on_exchange=None).ask(MODEL, "Hello")

        async def ask() -> None:
            async with AsyncClient(providers=providers, on_exchange=seen.append) as client:
                await client.ask(MODEL, "Hello")

        asyncio.run(ask())
    assert [exchange.provider for exchange in seen] == ["anthropic", "anthropic"]
    assert len(other) == 1
    assert b"Hello" in seen[0].request_body
    assert seen[0].model == "claude-opus-5-5"


def test_a_hook_is_a_function() -> None:
    """Anything else is refused when the client is made."""
    with pytest.raises(ConfigurationError, match="on_exchange must be a function"):
        Client(on_exchange=5)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="must be a function"):
        Client(providers={"anthropic": {"on_exchange": 5}})
