"""Every engine in the same situations: proxies, TLS, HTTP/2, large bodies, clients of the caller's own."""

import asyncio
import gc
import gzip
import socket
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import vcr

from dragoman.adapter.errors import ConfigurationError, NetworkError, RequestTimeoutError
from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import (
    HANG_UP,
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReceivedRequest,
    json_reply,
    sse_reply,
)
from dragoman.transport import AsyncHttpTransport, RetryPolicy, retrying_transport
from dragoman.transport.engines.network import open_connections
from dragoman.transport.engines.proxies import proxy_server
from tests.unit.transport.drivers import (
    ADAPTER,
    AIOHTTP,
    BODY,
    DRIVERS,
    ENGINES,
    HTTPX2,
    KEY,
    PLAIN_REQUEST,
    STREAM_REQUEST,
    AsyncDriver,
    Driver,
    SyncDriver,
    call_once_async,
    requires,
)
from tests.unit.transport.loopback_servers import Authority, Http2Server, Proxy, TlsFront, authority

__all__ = ["authority"]  # the fixture

NO_RETRY = RetryPolicy(max_retries=0)
ALL_ENGINES = (*ENGINES, *HTTPX2)
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
every_driver = pytest.mark.parametrize("driver", ALL_ENGINES, ids=lambda driver: driver.name)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# ---- Proxies


@every_driver
@pytest.mark.parametrize("credential", ["", "me:a%20secret"], ids=["open", "with a password"])
def test_requests_go_through_a_proxy(driver: Driver, credential: str) -> None:
    """The proxy receives the whole address and its own credential; the provider receives the request without that."""
    with FaultyServer(json_reply({"ok": 1})) as server, Proxy() as proxy:
        address = proxy.url.replace("//", f"//{credential}@") if credential else proxy.url
        result = driver.call(base_url=server.url, proxy=address)
    assert (result.status, result.error) == (200, None)
    (head,) = proxy.heads
    assert head.startswith(f"POST {server.url}/chat HTTP/1.1\r\n".encode())
    assert (b"proxy-authorization: Basic bWU6YSBzZWNyZXQ=" in _lower_names(head)) is bool(credential)
    assert server.requests[0].body == BODY


@every_driver
def test_https_goes_through_a_tunnel(driver: Driver, authority: Authority) -> None:
    """The proxy receives a host, a port and its credential, and nothing of the request."""
    with (
        FaultyServer(json_reply({"ok": 1})) as server,
        TlsFront(server.port, authority.server()) as front,
        Proxy("me:secret") as proxy,
    ):
        result = driver.call(base_url=front.url, proxy=proxy.url, verify=authority.client())
    assert (result.status, result.error) == (200, None)
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{front.port} HTTP/1.1\r\n".encode())
    assert KEY.encode() not in head
    assert "proxy-authorization" not in server.requests[0].headers


@every_driver
def test_the_proxies_of_the_environment_are_used(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY and ALL_PROXY lead through a proxy, NO_PROXY past it."""
    with FaultyServer(json_reply({"ok": 1})) as server, Proxy() as proxy:
        for name, value, request_count in (
            ("http_proxy", proxy.url, 1),
            ("all_proxy", proxy.url, 2),
            ("no_proxy", "127.0.0.1", 2),
        ):
            monkeypatch.setenv(name, value)
            if name == "all_proxy":
                monkeypatch.delenv("http_proxy")
            assert driver.call(base_url=server.url).status == 200
            assert len(proxy.heads) == request_count


@every_driver
def test_a_failing_proxy_is_a_network_error(driver: Driver) -> None:
    """The error names the proxy, which may be at fault, without its password."""
    with Proxy("me:secret") as proxy:
        wrong = proxy.url.replace("secret", "mistaken")
        result = [driver.call(base_url="https://127.0.0.1:9", proxy=wrong, retry=NO_RETRY)]
    result.append(driver.call(base_url="http://127.0.0.1:9", proxy=wrong, retry=NO_RETRY))
    for each in result:
        assert type(each.error) is NetworkError
        assert f"the connection to 127.0.0.1:9 through the proxy {proxy_server(proxy.url)} failed" in str(each.error)
        assert "mistaken" not in str(each.error)


@every_driver
@pytest.mark.parametrize("value", ["foo:bar:secret", "http://[secret", "http://me:secret@host:99999", "http://"])
def test_a_variable_that_holds_no_proxy_is_named(driver: Driver, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of the configuration, and not one of the request or the provider. Other addresses are reached."""
    monkeypatch.setenv("HTTP_PROXY", value)
    error = driver.call(base_url="http://127.0.0.1:9", retry=NO_RETRY).error
    assert type(error) is ConfigurationError
    assert "the proxy in HTTP_PROXY must be an address such as http://host:3128" in str(error)
    assert "secret" not in str(error)
    assert type(driver.call(base_url="https://127.0.0.1:9", retry=NO_RETRY).error) is NetworkError


def test_a_proxy_is_named_by_host_and_port() -> None:
    named = {
        "http://me:secret@Host:3128": "host:3128",
        "http://[::1]:80": "[::1]:80",
        "socks5://host": "host",
        None: "",
    }
    assert {address: proxy_server(address) for address in named} == named


def _lower_names(head: bytes) -> bytes:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return b"\r\n".join(name.lower() + colon + value for name, colon, value in lines)


# ---- TLS and HTTP/2


@every_driver
def test_an_own_authority_is_trusted(driver: Driver, authority: Authority) -> None:
    """`verify` holds the authority; streams end and connections close over TLS as they do without."""
    with (
        FaultyServer([sse_reply(b"data: 1\n\n"), json_reply({"ok": 1})]) as server,
        TlsFront(server.port, authority.server()) as front,
    ):
        assert driver.call(STREAM_REQUEST, base_url=front.url, verify=authority.client()).body == b"data: 1\n\n"
        assert driver.call(base_url=front.url, verify=authority.client()).status == 200


@every_driver
def test_an_untrusted_certificate_is_refused(driver: Driver, authority: Authority) -> None:
    """Nothing is sent to such a server, and the error names the reason, the host and the port."""
    with FaultyServer(HttpReply()) as server, TlsFront(server.port, authority.server()) as front:
        result = driver.call(base_url=front.url, retry=NO_RETRY)
    assert type(result.error) is NetworkError
    assert "CERTIFICATE_VERIFY_FAILED" in str(result.error)
    assert f"127.0.0.1:{front.port}" in str(result.error)
    assert server.requests == []


@pytest.mark.parametrize("driver", [*DRIVERS, *HTTPX2], ids=lambda driver: driver.name)
@requires("h2")
def test_http2_shares_one_connection(driver: Driver, authority: Authority) -> None:
    """Concurrent calls use one connection if HTTP/2 is on."""
    with Http2Server(authority.server()) as server:
        settings: dict[str, Any] = {"base_url": server.url, "verify": authority.client(), "http2": True}
        if isinstance(driver, SyncDriver):
            assert driver.call(**settings).body == BODY
            return

        async def main() -> list[bytes]:
            async with driver.transport(**settings) as transport:
                await call_once_async(transport, PLAIN_REQUEST)
                return [
                    result.body
                    for result in await asyncio.gather(*[call_once_async(transport, PLAIN_REQUEST) for _ in range(20)])
                ]

        assert asyncio.run(main()) == [BODY] * 20
        assert server.connections == 1


@every_driver
def test_an_unknown_host_is_a_network_error(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which name was not found."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    result = driver.call(base_url="https://nowhere.invalid", retry=NO_RETRY)
    assert type(result.error) is NetworkError
    assert "Name or service not known" in str(result.error)
    assert "nowhere.invalid:443" in str(result.error)


# ---- Bodies and heads


@every_driver
def test_large_bodies_pass_both_ways(driver: Driver) -> None:
    """Three megabytes out and in arrive whole."""
    body = bytes(range(256)) * 12_000
    with FaultyServer(lambda request: HttpReply(body=request.body)) as server:
        result = driver.call(WireRequest("POST", "/chat", body), base_url=server.url)
    assert result.error is None
    assert result.body == body


@every_driver
def test_headers_arrive_unchanged(driver: Driver) -> None:
    head = b"X-Long: %b\r\nX-Two: a\r\nx-two: b\r\nX-Name: \xc3\xa9\r\nContent-Length: 2\r\n" % (b"l" * 20_000)
    with FaultyServer(HttpReply(raw=b"HTTP/1.1 200 OK\r\n" + head + b"\r\n{}")) as server:
        headers = _headers_of(driver, server.url)
    assert headers["x-long"] == "l" * 20_000
    assert headers["x-two"] == "a, b"
    assert headers["x-name"] == "é"
    with FaultyServer(HttpReply(raw=b"HTTP/1.1 200 OK\r\nX-Name: \xe9\r\nContent-Length: 2\r\n\r\n{}")) as server:
        assert _headers_of(driver, server.url)["x-name"] == "é"


def _headers_of(driver: Driver, url: str) -> Any:
    transport: Any = driver.transport(base_url=url)
    if isinstance(driver, SyncDriver):
        with transport:
            return transport.send(ADAPTER, PLAIN_REQUEST).headers

    async def main() -> Any:
        async with transport:
            return (await transport.send(ADAPTER, PLAIN_REQUEST)).headers

    return asyncio.run(main())


@every_driver
@pytest.mark.parametrize("end", [HANG_UP, RESET], ids=["hangs up", "resets"])
def test_what_arrived_before_a_break_is_returned(driver: Driver, end: Any) -> None:
    """A slow reader gets all that came before the connection broke, and then the error."""
    events = [b"data: %d\n\n" % number for number in range(3)]
    with FaultyServer(sse_reply(events[0], Pause(0.02), events[1], Pause(0.02), events[2], Pause(0.02), end)) as server:
        result, error = _read_slowly(driver, server.url)
    # A reset may discard what the reader's system had not handed over yet.
    assert result == b"".join(events) if end is HANG_UP else result.startswith(events[0])
    assert type(error) is NetworkError


def _read_slowly(driver: Driver, url: str) -> tuple[bytes, Exception | None]:
    transport: Any = driver.transport(base_url=url)
    result, error = b"", None
    if isinstance(driver, SyncDriver):
        with transport:
            try:
                with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                    for chunk in reply.chunks:
                        result += chunk
                        time.sleep(0.03)
            except NetworkError as raised:
                error = raised
        return result, error

    async def main() -> tuple[bytes, Exception | None]:
        result, error = b"", None
        async with transport:
            try:
                async with transport.stream(ADAPTER, STREAM_REQUEST) as reply:
                    async for chunk in reply.chunks:
                        result += chunk
                        await asyncio.sleep(0.03)
            except NetworkError as raised:
                error = raised
        return result, error

    return asyncio.run(main())


@every_driver
@pytest.mark.usefixtures("quick_gc")
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # httpx leaves unsent data to the loop
def test_an_unread_request_is_a_timeout(driver: Driver) -> None:
    """A provider that stops reading a long request does not hold the caller beyond the time limit."""
    with socket.create_server(("127.0.0.1", 0)) as silent_server:
        silent_server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = WireRequest("POST", "/chat", bytes(30_000_000))
        result = driver.call(
            request, base_url=f"http://127.0.0.1:{silent_server.getsockname()[1]}", timeout=0.2, retry=NO_RETRY
        )
    gc.collect()
    assert type(result.error) is RequestTimeoutError


@pytest.mark.parametrize("driver", [DRIVERS[1], AIOHTTP], ids=lambda driver: driver.name)
def test_a_call_without_a_free_connection_is_a_timeout(driver: AsyncDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the setting that allows more connections."""
    # The deadline of the call, which knows no reason, would come first on a machine that stops for that long.
    monkeypatch.setattr(retrying_transport, "_GRACE_SECONDS", 60.0)

    async def main() -> None:
        async with driver.transport(base_url=server.url, max_connections=1, retry=NO_RETRY) as transport:
            blocking_call = asyncio.create_task(call_once_async(transport, WireRequest("POST", "/silence", b"{}")))
            await asyncio.sleep(0.05)
            result = await call_once_async(transport, PLAIN_REQUEST, timeout=0.1)
            blocking_call.cancel()
            await asyncio.gather(blocking_call, return_exceptions=True)
        assert type(result.error) is RequestTimeoutError
        assert "max_connections" in str(result.error)

    def script(received: ReceivedRequest) -> HttpReply:
        return HttpReply(before=STALL) if received.path == "/silence" else json_reply({})

    with FaultyServer(script) as server:
        asyncio.run(main())


# ---- Clients of the caller's own


def _aiohttp_session(settings: dict[str, Any]) -> Any:
    return import_module("aiohttp").ClientSession(raise_for_status=True, **settings)


def _client_factory(library: str) -> Callable[[dict[str, Any]], Any]:
    return lambda settings: import_module(library).AsyncClient(**settings)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_client_factory("httpx"), id="httpx"),
        pytest.param(_client_factory("httpx2"), marks=requires("httpx2"), id="httpx2"),
        pytest.param(_aiohttp_session, marks=requires("aiohttp"), id="aiohttp"),
    ],
)
def test_the_callers_own_client_is_used_and_stays_open(make: Callable[[dict[str, Any]], Any]) -> None:
    """Its headers are sent; its handling of failures and compression does not matter."""

    async def main() -> None:
        client = make({"headers": {"x-proxy": "p"}})
        async with AsyncHttpTransport(api_key=KEY, base_url=server.url, client=client, retry=NO_RETRY) as transport:
            assert (await call_once_async(transport, PLAIN_REQUEST)).body == b'{"ok": 1}'
            assert (await call_once_async(transport, PLAIN_REQUEST)).status == 404
            assert (await call_once_async(transport, STREAM_REQUEST)).body == b"data: 1\n\n"
        assert not (client.closed if hasattr(client, "closed") else client.is_closed)
        await (client.close() if hasattr(client, "closed") else client.aclose())

    compressed = HttpReply(headers={"content-encoding": "gzip"}, body=gzip.compress(b'{"ok": 1}'))
    with FaultyServer([compressed, json_reply({}, status=404), sse_reply(b"data: 1\n\n")]) as server:
        asyncio.run(main())
    assert [received.headers["x-proxy"] for received in server.requests] == ["p"] * 3


@pytest.mark.usefixtures("quick_gc")
@pytest.mark.parametrize("driver", [DRIVERS[1], AIOHTTP], ids=lambda driver: driver.name)
def test_an_unclosed_transport_logs_nothing(driver: AsyncDriver, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are left to the garbage collector cause no log line of the event loop."""

    async def main() -> None:
        transport = driver.transport(base_url=server.url)
        assert (await call_once_async(transport, PLAIN_REQUEST)).status == 200
        del transport
        gc.collect()
        await asyncio.sleep(0.01)

    with FaultyServer(json_reply({})) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Python's own, of the socket
        asyncio.run(main())
        gc.collect()
    assert caplog.records == []


@requires("aiohttp")
def test_recordings_of_aiohttp_are_played(tmp_path: Path) -> None:
    """vcrpy's recordings below the engine are replayed without a server."""

    async def main() -> list[bytes]:
        async with AsyncHttpTransport(api_key=KEY, base_url=server.url, engine="aiohttp") as transport:
            return [(await call_once_async(transport, request)).body for request in (PLAIN_REQUEST, STREAM_REQUEST)]

    with FaultyServer([json_reply({"ok": 1}), sse_reply(b"data: 1\n\n", b"data: 2\n\n")]) as server:
        for _ in range(2):
            with vcr.use_cassette(str(tmp_path / "cassette.yaml"), record_mode="once"):
                assert asyncio.run(main()) == [b'{"ok": 1}', b"data: 1\n\ndata: 2\n\n"]
    assert len(server.requests) == 2


@every_driver
def test_a_closed_connection_is_forgotten(driver: Driver) -> None:
    """A server that runs for months opens and closes millions of them."""
    with FaultyServer(json_reply({"ok": 1})) as server:
        driver.call(base_url=server.url)
        gc.collect()
        before = len(open_connections)
        for _ in range(3):
            driver.call(base_url=server.url)
        gc.collect()
    assert len(open_connections) <= before
