"""Through the official clients: the same bytes as the direct way, our errors, our retries, their keys."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import anthropic
import httpx
import httpx2
import ollama
import openai
import pytest

from dragoman.adapter.errors import (
    ConfigurationError,
    NetworkError,
    NotFoundError,
    OverloadedError,
    RequestError,
    RequestTimeoutError,
    ServerError,
    UnclassifiedError,
)
from dragoman.adapter.wire import WireRequest
from dragoman.testing.faults.server import (
    RESET,
    STALL,
    FaultyServer,
    HttpReply,
    Pause,
    ReceivedRequest,
    json_reply,
    sse_reply,
)
from dragoman.transport import AsyncVendorTransport, AttemptRecord, HttpTransport, RetryPolicy, VendorTransport
from dragoman.transport.settings import vendor_of
from tests.unit.transport.drivers import ADAPTER, BODY, KEY, CallResult, VirtualClock, call_once, call_once_async

EVENTS = [b'data: {"text":"\xc3', b'\xa9\xe2\x80\xa8"}\n\n', b"event: x\r\ndata: 1\r\n\r\n", b"data: [DONE]\n\n"]
NO_RETRY = RetryPolicy(max_retries=0)


class Vendor(NamedTuple):
    """One official client: how it is made for a base URL, and its path."""

    name: str
    make: Callable[[str], Any]
    path: str

    @property
    def asynchronous(self) -> bool:
        return "async" in self.name

    def request(self, *, stream: bool = False) -> WireRequest:
        return WireRequest("POST", self.path, BODY, {"x-extra": "1"}, stream=stream)

    def call(self, base_url: str, request: WireRequest, *, timeout: float | None = None, **settings: Any) -> CallResult:
        return call_through(lambda: self.make(base_url), request, self.asynchronous, timeout=timeout, **settings)


def call_through(
    make: Callable[[], Any],
    request: WireRequest,
    asynchronous: bool,
    *,
    timeout: float | None = None,
    **settings: Any,
) -> CallResult:
    """One call through the client that ``make`` makes."""
    if not asynchronous:
        client = make()
        try:
            with VendorTransport(client, **settings) as transport:
                return call_once(transport, request, timeout=timeout)
        finally:
            client.close()

    async def main() -> CallResult:
        client = make()
        try:
            async with AsyncVendorTransport(client, **settings) as transport:
                return await call_once_async(transport, request, timeout=timeout)
        finally:
            await client.close()

    return asyncio.run(main())


BEARER = f"Bearer {KEY}"
TRUSTED = httpx.create_ssl_context()


def http() -> httpx2.Client:
    """What the vendors make for themselves, except for the certificates, which take long to load."""
    return httpx2.Client(verify=TRUSTED, follow_redirects=True)


def http_async() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(verify=TRUSTED, follow_redirects=True)


def openai_over_httpx(url: str) -> openai.OpenAI:
    """The older httpx is still accepted, though the signature no longer says so."""
    client: Any = httpx.Client(verify=TRUSTED, follow_redirects=True)
    return openai.OpenAI(api_key=KEY, base_url=url, http_client=client)


VENDORS = [
    Vendor("anthropic", lambda url: anthropic.Anthropic(api_key=KEY, base_url=url, http_client=http()), "/v1/messages"),
    Vendor(
        "anthropic async",
        lambda url: anthropic.AsyncAnthropic(api_key=KEY, base_url=url, http_client=http_async()),
        "/v1/messages",
    ),
    Vendor("openai", lambda url: openai.OpenAI(api_key=KEY, base_url=url, http_client=http()), "/chat/completions"),
    Vendor(
        "openai async",
        lambda url: openai.AsyncOpenAI(api_key=KEY, base_url=url, http_client=http_async()),
        "/responses",
    ),
    Vendor("openai over httpx", openai_over_httpx, "/responses"),
    Vendor("ollama", lambda url: ollama.Client(url, headers={"authorization": BEARER}, verify=TRUSTED), "/api/chat"),
    Vendor(
        "ollama async",
        lambda url: ollama.AsyncClient(url, headers={"authorization": BEARER}, verify=TRUSTED),
        "/api/chat",
    ),
]
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=[vendor.name for vendor in VENDORS])
whole_or_stream = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def respond(received: ReceivedRequest) -> HttpReply:
    """The requested kind of reply: a stream of events, or one JSON object."""
    return sse_reply(*EVENTS) if received.headers["accept-encoding"] == "identity" else json_reply({"text": "é\u2028"})


@every_vendor
@whole_or_stream
def test_the_bytes_are_those_of_the_direct_way(vendor: Vendor, stream: bool) -> None:
    """Request body and reply are byte for byte those without the client; the key is the client's."""
    request = vendor.request(stream=stream)
    with FaultyServer(respond) as server:
        with HttpTransport(api_key=KEY, base_url=server.url) as direct:
            expected = call_once(direct, request)
        result = vendor.call(server.url, request)
    assert result == expected
    assert result.error is None
    first, second = server.requests
    assert (second.method, second.path, second.body) == (first.method, first.path, BODY)
    assert second.headers["authorization"] == BEARER
    assert second.headers["x-extra"] == "1"


@every_vendor
@whole_or_stream
def test_only_our_transport_retries(vendor: Vendor, stream: bool) -> None:
    """Two failures and a success are three requests, and all of them are recorded."""
    time = VirtualClock()
    script = [json_reply({}, status=529), HttpReply(before=RESET), sse_reply(*EVENTS)]
    with FaultyServer(script) as server:
        result = vendor.call(server.url, vendor.request(stream=stream), timing=time.timing)
    assert result.body == b"".join(EVENTS)
    assert result.attempts == (
        AttemptRecord(1, 529, "rate_limit", 1.0),
        AttemptRecord(2, None, "network", 2.0),
        AttemptRecord(3, 200, None),
    )
    assert [received.body for received in server.requests] == [BODY] * 3


@every_vendor
@whole_or_stream
@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFoundError), (500, ServerError), (503, OverloadedError), (302, UnclassifiedError)],
)
def test_a_failing_status_is_the_adapters_error(vendor: Vendor, stream: bool, status: int, kind: type) -> None:
    """The body reaches the adapter, not the vendor's classes, and nothing is chained to the error."""
    with FaultyServer(json_reply({"error": "told so"}, status=status, request_id="r1", location="/")) as server:
        result = vendor.call(server.url, vendor.request(stream=stream), retry=NO_RETRY)
    assert type(result.error) is kind
    assert result.status == status
    assert "told so" in str(result.error) or status == 302
    assert getattr(result.error, "__context__", "no error") is None
    assert len(server.requests) == 1


@every_vendor
@whole_or_stream
def test_an_echoed_key_is_masked(vendor: Vendor, stream: bool) -> None:
    """A provider that repeats the key in its refusal does not bring it into our error."""
    with FaultyServer(json_reply({"error": f"bad key {KEY}"}, status=401)) as server:
        result = vendor.call(server.url, vendor.request(stream=stream))
    assert "bad key ***" in str(result.error)
    assert KEY not in repr(vars(result.error))


@every_vendor
@whole_or_stream
@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (HttpReply(before=RESET), NetworkError),
        (sse_reply(b"data: 1\n\n", RESET), NetworkError),
        (HttpReply(before=STALL), RequestTimeoutError),
        (sse_reply(b"data: 1\n\n", STALL), RequestTimeoutError),
    ],
    ids=["reset", "reset midway", "silence", "silence midway"],
)
def test_a_broken_connection_is_our_error(vendor: Vendor, stream: bool, reply: HttpReply, kind: type) -> None:
    """The client's connection errors and timeouts become ours, without the key."""
    with FaultyServer(reply) as server:
        timeout_seconds = 0.06 if kind is RequestTimeoutError else 10.0
        result = vendor.call(server.url, vendor.request(stream=stream), retry=NO_RETRY, timeout=timeout_seconds)
    assert type(result.error) is kind
    assert KEY not in f"{result.error} {result.error!r}"
    assert getattr(result.error, "__context__", "no error") is None


@every_vendor
def test_the_clients_own_time_limit_holds(vendor: Vendor) -> None:
    """A slow but steady reply succeeds without our own limit."""
    with FaultyServer(sse_reply(b"a", Pause(0.15), b"b")) as server:
        result = vendor.call(server.url, vendor.request(stream=True), connect_timeout=0.1)
    assert (result.body, result.error) == (b"ab", None)


def test_a_short_limit_of_the_client_is_kept() -> None:
    """A client that was made with it times out by it."""
    with FaultyServer(HttpReply(before=STALL)) as server:
        for vendor, make in (
            ("/v1/messages", lambda: anthropic.Anthropic(api_key=KEY, base_url=server.url, timeout=0.15)),
            ("/responses", lambda: openai.OpenAI(api_key=KEY, base_url=server.url, timeout=0.15)),
            ("/api/chat", lambda: ollama.Client(server.url, timeout=0.15)),
        ):
            result = call_through(make, WireRequest("POST", vendor, BODY), False, retry=NO_RETRY)
            assert type(result.error) is RequestTimeoutError


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
@whole_or_stream
def test_azure_puts_the_deployment_into_the_path(asynchronous: bool, stream: bool) -> None:
    """Clients for clouds build the address from the body, which they get as an object."""
    kind = openai.AsyncAzureOpenAI if asynchronous else openai.AzureOpenAI
    with FaultyServer(respond) as server:
        result = call_through(
            lambda: kind(api_key=KEY, azure_endpoint=server.url, api_version="2026-10-21"),
            WireRequest("POST", "/chat/completions", BODY, stream=stream),
            asynchronous,
        )
    assert result.error is None
    (received,) = server.requests
    assert received.path == "/openai/deployments/m/chat/completions?api-version=2026-10-21"
    assert received.headers["api-key"] == KEY
    assert json.loads(received.body) == json.loads(BODY)


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_vertex_takes_the_model_out_of_the_body(asynchronous: bool) -> None:
    """Anthropic's client for Vertex rewrites requests too."""
    kind = anthropic.AsyncAnthropicVertex if asynchronous else anthropic.AnthropicVertex
    with FaultyServer(respond) as server:
        result = call_through(
            lambda: kind(region="global", project_id="p", access_token=KEY, base_url=server.url),
            WireRequest("POST", "/v1/messages", BODY),
            asynchronous,
        )
    assert result.error is None
    (received,) = server.requests
    assert received.path == "/projects/p/locations/global/publishers/anthropic/models/m:rawPredict"
    assert "model" not in json.loads(received.body)


def test_a_client_with_middleware_is_used_with_it() -> None:
    """The caller's middleware wraps our requests too."""
    order: list[str] = []

    def middleware(request: Any, call_next: Any) -> Any:
        order.append("before")
        return call_next(request)

    with FaultyServer(respond) as server:
        for stream in (False, True):
            result = call_through(
                lambda: anthropic.Anthropic(api_key=KEY, base_url=server.url, middleware=[middleware]),
                WireRequest("POST", "/v1/messages", BODY, stream=stream),
                False,
            )
            assert result.error is None
            assert result.body == (b"".join(EVENTS) if stream else json.dumps({"text": "é\u2028"}).encode())
    assert order == ["before", "before"]


def test_a_client_without_credentials_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not retried."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    result = call_through(
        lambda: anthropic.Anthropic(base_url="http://127.0.0.1:9"), WireRequest("POST", "/v1/messages", BODY), False
    )
    assert type(result.error) is ConfigurationError
    assert "authentication" in str(result.error)


def test_the_kind_of_client_is_checked() -> None:
    """A sync transport takes a sync client, an async one an async client, and neither takes anything else."""
    for make in (anthropic.Anthropic, openai.OpenAI):
        with make(api_key=KEY) as client, pytest.raises(ConfigurationError, match="pass it to VendorTransport"):
            AsyncVendorTransport(client)
    for wrong_client in (anthropic.AsyncAnthropic(api_key=KEY), openai.AsyncOpenAI(api_key=KEY), ollama.AsyncClient()):
        with pytest.raises(ConfigurationError, match="pass it to AsyncVendorTransport"):
            VendorTransport(wrong_client)
    for unknown_client in (object(), httpx.Timeout(1), "anthropic"):
        assert vendor_of(unknown_client) is None
        with pytest.raises(ConfigurationError, match="not a client of anthropic, openai or ollama"):
            VendorTransport(unknown_client)


def test_a_client_of_an_unknown_build_is_refused() -> None:
    """A vendor's class without an HTTP client in it is not an AttributeError later."""
    empty_client = type("Client", (), {"__module__": "ollama"})()
    with pytest.raises(ConfigurationError, match=r"ollama\.Client contains no HTTP client"):
        VendorTransport(empty_client)


@pytest.mark.parametrize("value", ["a\r\nx-evil: 1", "é", "a\0"])
@every_vendor
def test_headers_are_checked_before_the_client_gets_them(vendor: Vendor, value: str) -> None:
    """A header that could become two is refused, and nothing is sent."""
    with FaultyServer(respond) as server:
        for request in (
            WireRequest("POST", vendor.path, BODY, {"x-a": value}),
            WireRequest("POST", f"{vendor.path}{value}", BODY),
            WireRequest("POST", "/../admin", BODY),
            WireRequest("GET", vendor.path, b""),
        ):
            assert type(vendor.call(server.url, request).error) is RequestError
        assert server.requests == []


def endless(received: ReceivedRequest) -> HttpReply:
    return sse_reply(*EVENTS, STALL) if received.headers["accept-encoding"] == "identity" else json_reply({})


LIMITS = {"max_connections": 5, "max_keepalive_connections": 5}
SMALL: dict[str, tuple[Callable[[str], Any], str]] = {
    "anthropic": (
        lambda url: anthropic.Anthropic(
            api_key=KEY, base_url=url, http_client=httpx2.Client(limits=httpx2.Limits(**LIMITS))
        ),
        "/v1/messages",
    ),
    "openai": (
        lambda url: openai.OpenAI(api_key=KEY, base_url=url, http_client=httpx2.Client(limits=httpx2.Limits(**LIMITS))),
        "/responses",
    ),
    "ollama": (lambda url: ollama.Client(url, limits=httpx.Limits(**LIMITS)), "/api/chat"),
}


@pytest.mark.parametrize("name", SMALL)
def test_fifty_unread_streams(name: str) -> None:
    """They leave the client's five connections usable."""
    make, path = SMALL[name]
    with FaultyServer(endless) as server, make(server.url) as client:
        transport = VendorTransport(client, retry=NO_RETRY)
        for _ in range(50):
            with transport.stream(ADAPTER, WireRequest("POST", path, BODY, stream=True)):
                pass
            assert transport.send(ADAPTER, WireRequest("POST", path, BODY), timeout=60).status == 200


@pytest.mark.parametrize("name", ["anthropic", "openai", "ollama"])
def test_fifty_cancelled_streams(name: str) -> None:
    """They leave the async client's five connections usable."""
    makers: dict[str, Callable[[str], Any]] = {
        "anthropic": lambda url: anthropic.AsyncAnthropic(
            api_key=KEY, base_url=url, http_client=httpx2.AsyncClient(limits=httpx2.Limits(**LIMITS))
        ),
        "openai": lambda url: openai.AsyncOpenAI(
            api_key=KEY, base_url=url, http_client=httpx2.AsyncClient(limits=httpx2.Limits(**LIMITS))
        ),
        "ollama": lambda url: ollama.AsyncClient(url, limits=httpx.Limits(**LIMITS)),
    }
    path = SMALL[name][1]

    async def read(transport: AsyncVendorTransport, started: asyncio.Event) -> None:
        async with transport.stream(ADAPTER, WireRequest("POST", path, BODY, stream=True)) as reply:
            async for _ in reply.chunks:
                started.set()

    async def main() -> None:
        client = makers[name](server.url)
        transport = AsyncVendorTransport(client, retry=NO_RETRY)
        for _ in range(50):
            started = asyncio.Event()
            task = asyncio.create_task(read(transport, started))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await transport.send(ADAPTER, WireRequest("POST", path, BODY), timeout=60)).status == 200
        await client.close()

    with FaultyServer(endless) as server:
        asyncio.run(main())
