"""Every engine on the same roads: proxies, TLS, HTTP/2, large bodies, clients of the caller's own."""

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

from dragoman.adapter.errors import NetworkError, RequestTimeoutError
from dragoman.adapter.wire import WireRequest
from dragoman.transport import AsyncHttpTransport, RetryPolicy
from tests.servers import HANG_UP, RESET, STALL, FaultyServer, Pause, Received, Reply, json_reply, sse_reply
from tests.unit.transport.actors import (
    ADAPTER,
    AIOHTTP,
    BODY,
    ENGINES,
    HTTPX2,
    KEY,
    STREAM,
    WAYS,
    WHOLE,
    AsyncWay,
    SyncWay,
    Way,
    needs,
    take_async,
)
from tests.unit.transport.waypoints import Authority, Http2Server, Proxy, TlsFront, authority

__all__ = ["authority"]  # the fixture

NO_RETRY = RetryPolicy(max_retries=0)
EVERY = (*ENGINES, *HTTPX2)
PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
every_way = pytest.mark.parametrize("way", EVERY, ids=lambda way: way.name)


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


# ---- Proxies


@every_way
@pytest.mark.parametrize("credential", ["", "me:a%20secret"], ids=["open", "with a password"])
def test_a_proxy_is_gone_through(way: Way, credential: str) -> None:
    """The proxy hears the whole address and its own credential; the provider hears the request without that."""
    with FaultyServer(json_reply({"ok": 1})) as server, Proxy() as proxy:
        address = proxy.url.replace("//", f"//{credential}@") if credential else proxy.url
        got = way.call(base_url=server.url, proxy=address)
    assert (got.status, got.error) == (200, None)
    (head,) = proxy.heads
    assert head.startswith(f"POST {server.url}/chat HTTP/1.1\r\n".encode())
    assert (b"proxy-authorization: Basic bWU6YSBzZWNyZXQ=" in _lower_names(head)) is bool(credential)
    assert server.received[0].body == BODY


@every_way
def test_https_goes_through_a_tunnel(way: Way, authority: Authority) -> None:
    """The proxy hears a host and a port, and its credential, and nothing of the request."""
    with (
        FaultyServer(json_reply({"ok": 1})) as server,
        TlsFront(server.port, authority.server()) as front,
        Proxy("me:secret") as proxy,
    ):
        got = way.call(base_url=front.url, proxy=proxy.url, verify=authority.client())
    assert (got.status, got.error) == (200, None)
    (head,) = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{front.port} HTTP/1.1\r\n".encode())
    assert KEY.encode() not in head
    assert "proxy-authorization" not in server.received[0].headers


@every_way
def test_a_proxy_of_the_environment_is_gone_through(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY and ALL_PROXY lead through a proxy, NO_PROXY past it."""
    with FaultyServer(json_reply({"ok": 1})) as server, Proxy() as proxy:
        for name, value, heard in (
            ("http_proxy", proxy.url, 1),
            ("all_proxy", proxy.url, 2),
            ("no_proxy", "127.0.0.1", 2),
        ):
            monkeypatch.setenv(name, value)
            if name == "all_proxy":
                monkeypatch.delenv("http_proxy")
            assert way.call(base_url=server.url).status == 200
            assert len(proxy.heads) == heard


@every_way
def test_a_proxy_that_refuses_is_a_network_error(way: Way) -> None:
    """A wrong password, and a proxy that is not there, name neither the password nor the address."""
    with Proxy("me:secret") as proxy:
        wrong = proxy.url.replace("secret", "mistaken")
        got = [way.call(base_url="https://127.0.0.1:9", proxy=wrong, retry=NO_RETRY)]
    got.append(way.call(base_url="http://127.0.0.1:9", proxy=wrong, retry=NO_RETRY))
    for each in got:
        assert type(each.error) is NetworkError
        assert "mistaken" not in str(each.error)


def _lower_names(head: bytes) -> bytes:
    lines = (line.partition(b":") for line in head.split(b"\r\n"))
    return b"\r\n".join(name.lower() + colon + value for name, colon, value in lines)


# ---- TLS and HTTP/2


@every_way
def test_an_own_authority_is_trusted(way: Way, authority: Authority) -> None:
    """`verify` holds the authority; streams end and connections close over TLS as they do without."""
    with (
        FaultyServer([sse_reply(b"data: 1\n\n"), json_reply({"ok": 1})]) as server,
        TlsFront(server.port, authority.server()) as front,
    ):
        assert way.call(STREAM, base_url=front.url, verify=authority.client()).body == b"data: 1\n\n"
        assert way.call(base_url=front.url, verify=authority.client()).status == 200


@every_way
def test_a_strangers_certificate_is_refused(way: Way, authority: Authority) -> None:
    """Nothing is sent to a server that cannot say who it is, and the error says that and no address."""
    with FaultyServer(Reply()) as server, TlsFront(server.port, authority.server()) as front:
        got = way.call(base_url=front.url, retry=NO_RETRY)
    assert type(got.error) is NetworkError
    assert "CERTIFICATE_VERIFY_FAILED" in str(got.error)
    assert str(front.port) not in str(got.error)
    assert server.received == []


@pytest.mark.parametrize("way", [*WAYS, *HTTPX2], ids=lambda way: way.name)
@needs("h2")
def test_http2_shares_one_connection(way: Way, authority: Authority) -> None:
    """Calls at once go over one connection where HTTP/2 was asked for."""
    with Http2Server(authority.server()) as server:
        settings: dict[str, Any] = {"base_url": server.url, "verify": authority.client(), "http2": True}
        if isinstance(way, SyncWay):
            assert way.call(**settings).body == BODY
            return

        async def main() -> list[bytes]:
            async with way.transport(**settings) as transport:
                await take_async(transport, WHOLE)
                return [got.body for got in await asyncio.gather(*[take_async(transport, WHOLE) for _ in range(20)])]

        assert asyncio.run(main()) == [BODY] * 20
        assert server.connections == 1


@every_way
def test_a_name_that_nobody_knows_is_a_network_error(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the name was not found, and not which one it was."""

    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    got = way.call(base_url="https://nowhere.invalid", retry=NO_RETRY)
    assert type(got.error) is NetworkError
    assert "Name or service not known" in str(got.error)
    assert "nowhere" not in str(got.error)


# ---- Bodies and heads


@every_way
def test_large_bodies_pass_both_ways(way: Way) -> None:
    """Three megabytes out and in arrive whole."""
    body = bytes(range(256)) * 12_000
    with FaultyServer(lambda request: Reply(body=request.body)) as server:
        got = way.call(WireRequest("POST", "/chat", body), base_url=server.url)
    assert got.error is None
    assert got.body == body


@every_way
def test_headers_come_as_they_are(way: Way) -> None:
    """Long ones, several of a name, UTF-8 and Latin-1."""
    head = b"X-Long: %b\r\nX-Two: a\r\nx-two: b\r\nX-Name: \xc3\xa9\r\nContent-Length: 2\r\n" % (b"l" * 20_000)
    with FaultyServer(Reply(raw=b"HTTP/1.1 200 OK\r\n" + head + b"\r\n{}")) as server:
        headers = _headers_of(way, server.url)
    assert headers["x-long"] == "l" * 20_000
    assert headers["x-two"] == "a, b"
    assert headers["x-name"] == "é"
    with FaultyServer(Reply(raw=b"HTTP/1.1 200 OK\r\nX-Name: \xe9\r\nContent-Length: 2\r\n\r\n{}")) as server:
        assert _headers_of(way, server.url)["x-name"] == "é"


def _headers_of(way: Way, url: str) -> Any:
    transport: Any = way.transport(base_url=url)
    if isinstance(way, SyncWay):
        with transport:
            return transport.send(ADAPTER, WHOLE).headers

    async def main() -> Any:
        async with transport:
            return (await transport.send(ADAPTER, WHOLE)).headers

    return asyncio.run(main())


@every_way
@pytest.mark.parametrize("end", [HANG_UP, RESET], ids=["hangs up", "resets"])
def test_what_arrived_before_a_break_is_handed_out(way: Way, end: Any) -> None:
    """A reader who is slow gets all that came before the connection broke, and then the error."""
    events = [b"data: %d\n\n" % number for number in range(3)]
    with FaultyServer(sse_reply(events[0], Pause(0.02), events[1], Pause(0.02), events[2], Pause(0.02), end)) as server:
        got, error = _read_slowly(way, server.url)
    # A reset may take with it what the reader's system had not handed over yet.
    assert got == b"".join(events) if end is HANG_UP else got.startswith(events[0])
    assert type(error) is NetworkError


def _read_slowly(way: Way, url: str) -> tuple[bytes, Exception | None]:
    transport: Any = way.transport(base_url=url)
    got, error = b"", None
    if isinstance(way, SyncWay):
        with transport:
            try:
                with transport.stream(ADAPTER, STREAM) as reply:
                    for chunk in reply.chunks:
                        got += chunk
                        time.sleep(0.03)
            except NetworkError as raised:
                error = raised
        return got, error

    async def main() -> tuple[bytes, Exception | None]:
        got, error = b"", None
        async with transport:
            try:
                async with transport.stream(ADAPTER, STREAM) as reply:
                    async for chunk in reply.chunks:
                        got += chunk
                        await asyncio.sleep(0.03)
            except NetworkError as raised:
                error = raised
        return got, error

    return asyncio.run(main())


@every_way
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # httpx leaves what it could not write to the loop
def test_a_request_that_nobody_reads_is_a_timeout(way: Way) -> None:
    """A provider that takes no more of a long request does not hold the caller for longer than he waits."""
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        request = WireRequest("POST", "/chat", bytes(30_000_000))
        got = way.call(request, base_url=f"http://127.0.0.1:{deaf.getsockname()[1]}", timeout=0.2, retry=NO_RETRY)
    gc.collect()
    assert type(got.error) is RequestTimeoutError


@pytest.mark.parametrize("way", [WAYS[1], AIOHTTP], ids=lambda way: way.name)
def test_a_call_that_gets_no_connection_is_a_timeout(way: AsyncWay) -> None:
    """With all connections in use the error names the setting that gives more of them."""

    async def main() -> None:
        async with way.transport(base_url=server.url, max_connections=1, retry=NO_RETRY) as transport:
            kept = asyncio.create_task(take_async(transport, WireRequest("POST", "/silence", b"{}")))
            await asyncio.sleep(0.05)
            got = await take_async(transport, WHOLE, timeout=0.1)
            kept.cancel()
            await asyncio.gather(kept, return_exceptions=True)
        assert type(got.error) is RequestTimeoutError
        assert "max_connections" in str(got.error)

    def script(received: Received) -> Reply:
        return Reply(before=STALL) if received.path == "/silence" else json_reply({})

    with FaultyServer(script) as server:
        asyncio.run(main())


# ---- Clients of the caller's own


def _session(settings: dict[str, Any]) -> Any:
    return import_module("aiohttp").ClientSession(raise_for_status=True, **settings)


def _of(library: str) -> Callable[[dict[str, Any]], Any]:
    return lambda settings: import_module(library).AsyncClient(**settings)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(_of("httpx"), id="httpx"),
        pytest.param(_of("httpx2"), marks=needs("httpx2"), id="httpx2"),
        pytest.param(_session, marks=needs("aiohttp"), id="aiohttp"),
    ],
)
def test_the_callers_own_client_is_used_and_kept(make: Callable[[dict[str, Any]], Any]) -> None:
    """Its headers go along, its ways with failures and compression do not matter, and it stays open."""

    async def main() -> None:
        client = make({"headers": {"x-proxy": "p"}})
        async with AsyncHttpTransport(api_key=KEY, base_url=server.url, client=client, retry=NO_RETRY) as transport:
            assert (await take_async(transport, WHOLE)).body == b'{"ok": 1}'
            assert (await take_async(transport, WHOLE)).status == 404
            assert (await take_async(transport, STREAM)).body == b"data: 1\n\n"
        assert not (client.closed if hasattr(client, "closed") else client.is_closed)
        await (client.close() if hasattr(client, "closed") else client.aclose())

    packed = Reply(headers={"content-encoding": "gzip"}, body=gzip.compress(b'{"ok": 1}'))
    with FaultyServer([packed, json_reply({}, status=404), sse_reply(b"data: 1\n\n")]) as server:
        asyncio.run(main())
    assert [received.headers["x-proxy"] for received in server.received] == ["p"] * 3


@pytest.mark.parametrize("way", [WAYS[1], AIOHTTP], ids=lambda way: way.name)
def test_a_transport_that_nobody_closes_says_nothing(way: AsyncWay, caplog: pytest.LogCaptureFixture) -> None:
    """Connections that are left to the garbage collector go without a line in the log of the event loop."""

    async def main() -> None:
        transport = way.transport(base_url=server.url)
        assert (await take_async(transport, WHOLE)).status == 200
        del transport
        gc.collect()
        await asyncio.sleep(0.01)

    with FaultyServer(json_reply({})) as server, warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # Python's own, of the socket
        asyncio.run(main())
        gc.collect()
    assert caplog.records == []


@needs("aiohttp")
def test_recordings_of_aiohttp_are_played(tmp_path: Path) -> None:
    """What vcrpy has recorded below the engine comes out of it again, with no server there."""

    async def main() -> list[bytes]:
        async with AsyncHttpTransport(api_key=KEY, base_url=server.url, engine="aiohttp") as transport:
            return [(await take_async(transport, request)).body for request in (WHOLE, STREAM)]

    with FaultyServer([json_reply({"ok": 1}), sse_reply(b"data: 1\n\n", b"data: 2\n\n")]) as server:
        for _ in range(2):
            with vcr.use_cassette(str(tmp_path / "cassette.yaml"), record_mode="once"):
                assert asyncio.run(main()) == [b'{"ok": 1}', b"data: 1\n\ndata: 2\n\n"]
    assert len(server.received) == 2
