"""The key is in the request's header and in nothing that people see: messages, reprs, logs, tracebacks, pickles."""

import asyncio
import io
import logging
import pickle
import traceback
from collections.abc import Iterator

import pytest

from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import HANG_UP, RESET, STALL, FaultyServer, HttpReply, sse_reply
from dragoman.transport import AsyncHttpTransport, HttpTransport, RetryPolicy
from tests.unit.transport.drivers import (
    ADAPTER,
    BODY,
    DRIVERS,
    ENGINES,
    KEY,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    Driver,
    VirtualClock,
)

REPLIES = {
    "success": HttpReply(body=b"{}"),
    "echo of the key": HttpReply(status=401, body=f'{{"error": "bad key {KEY} given, {KEY}"}}'.encode()),
    "echo in a server error": HttpReply(status=500, body=f"x-api-key: {KEY}".encode()),
    "redirect": HttpReply(status=302, headers={"location": "http://127.0.0.1:9/"}),
    "reset": HttpReply(before=RESET),
    "hang up": HttpReply(before=HANG_UP),
    "garbage with the key": HttpReply(raw=f"HTTP/9 {KEY}\r\n\r\n".encode()),
    "timeout": HttpReply(before=STALL),
    "stream reset": sse_reply(b"data: 1\n\n", RESET),
    "bad encoding": HttpReply(headers={"content-encoding": "br"}, body=b"x"),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Everything that any logger writes, at the finest level."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
@pytest.mark.parametrize("name", REPLIES)
def test_only_the_provider_sees_a_key(name: str, request_: WireRequest, driver: Driver, log: io.StringIO) -> None:
    """Whatever happens to a request, no text about it holds the key, with local variables in tracebacks."""
    with FaultyServer(REPLIES[name]) as server:
        result = driver.call(
            request_,
            base_url=server.url,
            timeout=0.2 if name == "timeout" else 60.0,
            retry=RetryPolicy(max_retries=1),
            timing=VirtualClock().timing,
        )
    # A machine that stops for as long as the time limit gives up before it sends.
    assert server.requests or name == "timeout"
    assert {received.headers["x-api-key"] for received in server.requests} <= {KEY}
    # httpcore itself logs received data at DEBUG, and so the malformed line of this case.
    texts = [log.getvalue().replace(f"HTTP/9 {KEY}", ""), repr(result.attempts)]
    if result.error is not None:
        formatted = traceback.TracebackException.from_exception(result.error, capture_locals=True)
        texts += [str(result.error), repr(result.error), "".join(formatted.format())]
        texts.append(repr(pickle.loads(pickle.dumps(result.error)).__dict__))
        texts.append(str(vars(result.error)))
    for text in texts:
        assert KEY not in text


def test_a_transport_shows_no_key() -> None:
    """A transport shows no key, neither in its repr nor in those of its attributes."""
    for transport in (HttpTransport(api_key=KEY), AsyncHttpTransport(api_key=KEY)):
        assert KEY not in repr(transport) + repr(vars(transport))
        assert KEY not in repr([vars(value) for value in vars(transport).values() if hasattr(value, "__dict__")])
        with pytest.raises(TypeError):
            pickle.dumps(transport)


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
def test_a_refused_header_does_not_show_its_value(driver: Driver) -> None:
    """A key with a line end, given as a header, is refused by name."""
    request = WireRequest("POST", "/chat", BODY, {"authorization": f"Bearer {KEY}\n"})
    result = driver.call(request, base_url="http://127.0.0.1:9")
    assert "authorization" in str(result.error)
    assert KEY not in str(result.error)


@pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)
def test_a_placeholder_key_is_not_masked(driver: Driver) -> None:
    """A word given to a local server as its key stays in the server's messages."""
    with FaultyServer(HttpReply(status=400, body=b'{"error": "no such model"}')) as server:
        result = driver.call(base_url=server.url, api_key="error")
    assert '{"error": "no such model"}' in str(result.error)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.name)
def test_an_origin_gets_its_own_key_only(driver: Driver) -> None:
    """Five hundred requests between two origins, redirects among them: neither ever sees the other's key."""
    keys_seen: dict[str, set[str]] = {"a": set(), "b": set()}
    with FaultyServer(HttpReply()) as a, FaultyServer(HttpReply()) as b:
        for server, other in ((a, b), (b, a)):
            server._script = [
                HttpReply(status=status, headers={"location": target})
                for status in (301, 302, 303, 307, 308)
                for target in (
                    other.url, other.url + "/chat", f"//127.0.0.1:{other.port}/chat", f"http://user@127.0.0.1:{other.port}/",
                    other.url.replace("127.0.0.1", "localhost"),
                )
            ]  # fmt: skip
        for number in range(250):
            for server, key in ((a, "key-of-a"), (b, "key-of-b")):
                driver.call(STREAM_REQUEST if number % 2 else PLAIN_REQUEST, api_key=key, base_url=server.url)
        keys_seen["a"] |= {received.headers["x-api-key"] for received in a.requests}
        keys_seen["b"] |= {received.headers["x-api-key"] for received in b.requests}
        assert (len(a.requests), len(b.requests)) == (250, 250)
    assert keys_seen == {"a": {"key-of-a"}, "b": {"key-of-b"}}


def test_retries_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """One line at INFO for each wait, with the failure and the wait."""
    caplog.set_level(logging.INFO, "dragoman.transport")
    with FaultyServer([HttpReply(status=503), HttpReply(before=RESET), HttpReply()]) as server:

        async def main() -> None:
            async with AsyncHttpTransport(api_key=KEY, base_url=server.url, timing=VirtualClock().timing) as transport:
                await transport.send(ADAPTER, PLAIN_REQUEST)

        asyncio.run(main())
    assert [record.message for record in caplog.records if record.name == "dragoman.transport"] == [
        "plain: attempt 1 failed (rate_limit, status 503), the next one in 1.0 s",
        "plain: attempt 2 failed (network, status None), the next one in 2.0 s",
    ]
