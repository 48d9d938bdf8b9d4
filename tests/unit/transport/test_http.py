"""Whole replies over HTTP: requests, replies, and the error for each kind of failure."""

import asyncio
import gzip
import itertools
import socket
import threading
from functools import cache, partial
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import (
    FrameTooLargeError,
    MalformedReplyError,
    NetworkError,
    NotFoundError,
    ProviderError,
    RequestError,
    RequestTimeoutError,
    ServerError,
    UnclassifiedError,
    UnexpectedPageError,
)
from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import (
    HANG_UP,
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReplyStep,
    json_reply,
    sse_reply,
)
from dragoman.transport import (
    AttemptRecord,
    HttpTransport,
    RetryPolicy,
    Timing,
    close_idle_connections,
    close_idle_connections_async,
)
from tests.unit.transport.drivers import (
    ADAPTER,
    BODY,
    ENGINES,
    KEY,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    Driver,
    VirtualClock,
    call_once,
    call_once_async,
)

NO_RETRY = RetryPolicy(max_retries=0)
pytestmark = pytest.mark.parametrize("driver", ENGINES, ids=lambda driver: driver.name)


def test_the_adapters_bytes_arrive_unchanged(driver: Driver) -> None:
    """The body goes out untouched, to base URL plus path, with the key in the endpoint's header."""
    with FaultyServer(json_reply({"ok": True})) as server:
        result = driver.call(base_url=server.url + "/v1/")
    (received,) = server.requests
    assert (received.method, received.path, received.body) == ("POST", "/v1/chat", BODY)
    assert received.headers["x-api-key"] == KEY
    assert received.headers["content-type"] == "application/json"
    assert (result.status, result.body, result.error) == (200, b'{"ok": true}', None)
    assert result.attempts == (AttemptRecord(1, 200, None),)


def test_the_requests_own_headers_win(driver: Driver) -> None:
    """Those of the adapter or the caller replace the transport's, the key too, which is then not looked up."""
    request = WireRequest("POST", "/chat", BODY, {"X-Api-Key": "mine", "accept": "text/plain", "X-Extra": "1"})
    with FaultyServer(json_reply({})) as server:
        result = driver.call(request, api_key=None, base_url=server.url, environ={})
    assert result.error is None
    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["accept"], headers["x-extra"]) == ("mine", "text/plain", "1")


def test_an_authorization_header_replaces_the_key(driver: Driver) -> None:
    """The key is then neither looked up nor sent."""
    request = WireRequest("POST", "/chat", BODY, {"Authorization": "Bearer mine"})
    with FaultyServer(json_reply({})) as server:
        result = driver.call(request, api_key=None, base_url=server.url, environ={"PLAIN_KEY": KEY})
    assert result.error is None
    assert server.requests[0].headers["authorization"] == "Bearer mine"
    assert "x-api-key" not in server.requests[0].headers


def test_a_failing_status_is_the_adapters_error(driver: Driver) -> None:
    """Status, body and headers reach the adapter, whose error is raised with the attempts."""
    with FaultyServer(json_reply({"error": "no such model"}, status=404, request_id="req_1")) as server:
        result = driver.call(base_url=server.url)
    assert type(result.error) is NotFoundError
    assert "no such model" in str(result.error)
    assert result.error.request_id == "req_1"
    assert result.attempts == (AttemptRecord(1, 404, "invalid_request"),)


def test_a_transient_failure_is_retried(driver: Driver) -> None:
    """Two failures and a success are one reply with three attempts and their waits."""
    time = VirtualClock()
    script = [json_reply({}, status=503), HttpReply(before=RESET), json_reply({"ok": 1})]
    with FaultyServer(script) as server:
        result = driver.call(base_url=server.url, timing=time.timing)
    assert result.body == b'{"ok": 1}'
    assert result.attempts == (
        AttemptRecord(1, 503, "rate_limit", 1.0),
        AttemptRecord(2, None, "network", 2.0),
        AttemptRecord(3, 200, None),
    )
    assert [request.body for request in server.requests] == [BODY] * 3


def test_real_waits_without_a_given_clock(driver: Driver) -> None:
    """A transient failure is retried with the transport's own clock and sleep, too."""
    with FaultyServer([json_reply({}, status=429, retry_after_ms="1"), json_reply({})]) as server:
        result = driver.call(base_url=server.url)
    assert result.error is None
    assert [attempt.waited for attempt in result.attempts] == [0.001, 0.0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_never_followed(driver: Driver, status: int) -> None:
    """Neither key nor conversation reaches the address of a redirect."""
    with FaultyServer(json_reply({"stolen": True})) as other:
        redirect = HttpReply(status=status, headers={"location": other.url + "/chat"})
        with FaultyServer(redirect) as server:
            for request in (PLAIN_REQUEST, STREAM_REQUEST):
                result = driver.call(request, base_url=server.url)
                assert type(result.error) is UnclassifiedError
                assert "redirect" in str(result.error)
                assert result.status == status
    assert other.requests == []
    assert len(server.requests) == 2


@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (HttpReply(before=HANG_UP), NetworkError),
        (HttpReply(before=RESET), NetworkError),
        (HttpReply(raw=b"not http at all\r\n\r\n"), NetworkError),
        (HttpReply(raw=b"HTTP/1.1 200 OK\r\ncontent-le"), NetworkError),
        (HttpReply(body=b'{"half"', length=100), NetworkError),
        (sse_reply(b'{"ha', HANG_UP), NetworkError),
        (sse_reply(b'{"ha', RESET), NetworkError),
        (HttpReply(raw=b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nboom"), NetworkError),
        (HttpReply(headers={"content-encoding": "br"}, body=b"x"), MalformedReplyError),
        (HttpReply(headers={"content-encoding": "gzip"}, body=b"no gzip"), MalformedReplyError),
        (HttpReply(headers={"content-encoding": "gzip"}, body=gzip.compress(b"x" * 99)[:-9]), NetworkError),
    ],
    ids=[
        "hangs up", "resets", "garbage", "half a head", "short body", "chunks end", "chunks reset", "bad chunk",
        "brotli", "no gzip", "half a gzip",
    ],
)  # fmt: skip
def test_a_broken_reply_is_a_typed_error(driver: Driver, request_: WireRequest, reply: HttpReply, kind: type) -> None:
    """A ProviderError, whatever breaks, without a chained exception of a library."""
    with FaultyServer(reply) as server:
        result = driver.call(request_, base_url=server.url, retry=NO_RETRY)
    assert isinstance(result.error, ProviderError)
    assert isinstance(result.error, kind)
    assert result.error.provider == "plain"
    assert len(result.attempts) == 1
    assert result.attempts[0].error_class == result.error.error_class
    assert not isinstance(result.error.__cause__ or result.error.__context__, httpx.HTTPError | OSError)


def test_a_refused_connection_is_a_network_error(driver: Driver) -> None:
    """It names host and port."""
    with socket.socket() as silent:  # bound, so that no other program listens there meanwhile
        silent.bind(("127.0.0.1", 0))
        port = silent.getsockname()[1]
        result = driver.call(base_url=f"http://127.0.0.1:{port}", retry=NO_RETRY)
    assert type(result.error) is NetworkError
    assert f"127.0.0.1:{port}" in str(result.error)


@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "reply",
    [HttpReply(before=STALL), sse_reply(b"data: 1\n\n", STALL), HttpReply(body=b"{", length=9, before=Pause(30))],
    ids=["before the head", "midway", "slow head"],
)
def test_silence_is_a_timeout(driver: Driver, request_: WireRequest, reply: HttpReply) -> None:
    """A provider that sends nothing for longer than the caller waits is a RequestTimeoutError, streamed or not."""
    with FaultyServer(reply) as server:
        result = driver.call(request_, base_url=server.url, timeout=0.08)
    assert type(result.error) is RequestTimeoutError
    assert len(result.attempts) == 1


def drip(times: int, seconds: float) -> list[ReplyStep]:
    return [step for _ in range(times) for step in (b"x", Pause(seconds))]


def test_a_slow_reply_is_cut_at_the_time_limit(driver: Driver) -> None:
    """Bytes that keep coming do not extend the limit of a whole reply. A second passes at each look at the clock."""
    timing = Timing(clock=partial(next, itertools.count()))
    with FaultyServer(sse_reply(*drip(1000, 0.005))) as server:
        result = driver.call(base_url=server.url, timeout=60.0, timing=timing)
    assert type(result.error) is RequestTimeoutError
    assert "not complete in time" in str(result.error)


def test_a_stream_may_take_longer_than_the_time_limit(driver: Driver) -> None:
    """For a stream the limit is the longest silence: half of it passes after each chunk."""
    body, clock = b"", VirtualClock()
    with FaultyServer(sse_reply(*drip(6, 0.05))) as server:
        transport: Any = driver.transport(base_url=server.url, timeout=60.0, timing=clock.timing)
        if isinstance(transport, HttpTransport):
            with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                for chunk in reply.chunks:
                    body += chunk
                    clock.seconds += 30
        else:

            async def main() -> bytes:
                loop, body = asyncio.get_running_loop(), b""
                passed = loop.time
                loop.time = lambda: passed() + clock.seconds  # type: ignore[method-assign]
                async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                    async for chunk in reply.chunks:
                        body += chunk
                        clock.seconds += 30
                return body

            body = asyncio.run(main())
    assert body == b"xxxxxx"


@pytest.mark.parametrize("timeout", [0, -1, float("nan")])
def test_a_time_limit_is_positive(driver: Driver, timeout: float) -> None:
    """Others are the caller's mistake."""
    assert type(driver.call(base_url="http://127.0.0.1:9", timeout=timeout).error) is RequestError


def test_a_reply_over_the_cap_is_refused(driver: Driver) -> None:
    """A whole reply may not exceed the body cap, counted after decompression."""
    with FaultyServer(HttpReply(body=b"x" * 1001)) as server:
        assert len(driver.call(base_url=server.url, body_cap=1001).body) == 1001
        assert type(driver.call(base_url=server.url, body_cap=1000).error) is FrameTooLargeError


@cache
def _bomb() -> bytes:
    return gzip.compress(bytes(200_000_000), compresslevel=1)


def test_a_decompression_bomb_stops_at_the_cap(driver: Driver) -> None:
    """A gzip body that inflates a thousandfold."""
    with FaultyServer(HttpReply(headers={"content-encoding": "gzip"}, body=_bomb())) as server:
        result = driver.call(base_url=server.url)
    assert type(result.error) is FrameTooLargeError


@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
def test_gzip_replies_are_decompressed(driver: Driver, request_: WireRequest) -> None:
    packed = gzip.compress(BODY * 50)
    pieces = [packed[at : at + 7] for at in range(0, len(packed), 7)]
    with FaultyServer(HttpReply(headers={"content-encoding": "gzip"}, steps=pieces)) as server:
        result = driver.call(request_, base_url=server.url)
    assert (result.body, result.error) == (BODY * 50, None)


@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
@pytest.mark.parametrize(
    "reply",
    [
        HttpReply(status=500, body=b"oops" * 300_000),
        HttpReply(status=500, body=b"oops", length=900),
        HttpReply(status=500, steps=[b"oops", RESET]),
        HttpReply(status=500, headers={"content-encoding": "br"}, body=b"oops"),
    ],
    ids=["huge", "short", "reset", "strange encoding"],
)
def test_a_failing_status_outranks_its_body(driver: Driver, request_: WireRequest, reply: HttpReply) -> None:
    """However broken or large the body is, the status decides, and the start of the body is in the error."""
    with FaultyServer(reply) as server:
        result = driver.call(request_, base_url=server.url, retry=NO_RETRY)
    assert type(result.error) is ServerError
    assert result.status == 500
    assert "oops" in str(result.error)
    assert len(str(result.error)) < 1000


def test_a_stream_that_breaks_after_its_start_is_not_retried(driver: Driver) -> None:
    """Once a byte was returned there is one attempt, recorded as the failure that it became."""
    with FaultyServer(sse_reply(b"data: 1\n\n", RESET)) as server:
        result = driver.call(STREAM_REQUEST, base_url=server.url, timing=VirtualClock().timing)
    assert result.body == b"data: 1\n\n"
    assert type(result.error) is NetworkError
    assert result.attempts == (AttemptRecord(1, 200, "network"),)
    assert len(server.requests) == 1


def test_a_stream_that_breaks_before_its_first_byte_is_retried(driver: Driver) -> None:
    """A head alone is not returned."""
    with FaultyServer([sse_reply(RESET), sse_reply(HANG_UP), sse_reply(b"data: 1\n\n")]) as server:
        result = driver.call(STREAM_REQUEST, base_url=server.url, timing=VirtualClock().timing)
    assert (result.body, result.error) == (b"data: 1\n\n", None)
    assert [attempt.error_class for attempt in result.attempts] == ["network", "network", None]


def test_an_empty_stream_is_a_stream(driver: Driver) -> None:
    """The decoder decides what no bytes mean."""
    with FaultyServer(sse_reply()) as server:
        result = driver.call(STREAM_REQUEST, base_url=server.url)
    assert (result.body, result.status, result.error) == (b"", 200, None)


def test_one_transport_serves_many_threads_or_loops(driver: Driver) -> None:
    """Calls from eight threads, each with an event loop of its own if it is async, all succeed."""
    result: list[bytes] = []
    with FaultyServer(lambda request: HttpReply(body=request.body)) as server:
        shared: Any = driver.transport(base_url=server.url)

        def calls(name: int) -> None:
            request = WireRequest("POST", "/chat", b"%d" % name)
            if isinstance(shared, HttpTransport):
                result.extend(call_once(shared, request).body for _ in range(5))
                return

            async def main() -> None:
                result.extend([(await call_once_async(shared, request)).body for _ in range(5)])
                await shared.close()

            asyncio.run(main())

        threads = [threading.Thread(target=calls, args=(name,)) for name in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if isinstance(shared, HttpTransport):
            shared.close()
    assert sorted(result) == sorted(b"%d" % name for name in range(8) for _ in range(5))


def test_idle_connections_can_be_closed(driver: Driver) -> None:
    """A later call opens a new one."""
    with FaultyServer(json_reply({})) as server:
        transport: Any = driver.transport(base_url=server.url)
        if isinstance(transport, HttpTransport):
            for _ in range(2):
                assert transport.send(ADAPTER, PLAIN_REQUEST).status == 200
                close_idle_connections()
                assert server.wait_until_closed() == 0
        else:

            async def main() -> None:
                for _ in range(2):
                    assert (await transport.send(ADAPTER, PLAIN_REQUEST)).status == 200
                    await close_idle_connections_async()
                    assert await asyncio.to_thread(server.wait_until_closed) == 0

            asyncio.run(main())
        assert server.wait_until_closed() == 0


PAGE = (
    b"<!doctype html><html><head><style>p {color: red}</style></head><body><p>Sign in</p> to the network</body></html>"
)


@pytest.mark.parametrize("request_", [PLAIN_REQUEST, STREAM_REQUEST], ids=["whole", "stream"])
def test_a_page_is_no_reply(driver: Driver, request_: WireRequest) -> None:
    """A page with status 200 is an error that names the address, the content type and the first words."""
    headers = {"content-type": "text/html; charset=utf-8"}
    with FaultyServer(HttpReply(headers=headers, body=PAGE)) as server:
        result = driver.call(request_, base_url=server.url)
    assert isinstance(result.error, UnexpectedPageError)
    assert f"{server.url}/chat answered with a page (text/html; charset=utf-8)" in str(result.error)
    assert "The page begins: Sign in to the network" in str(result.error)
    assert len(server.requests) == 1
