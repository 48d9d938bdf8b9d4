"""Fetching media: redirects, limits, replies, errors and real sockets."""

import pickle
import socket
import threading
from functools import partial
from typing import Any

import httpcore
import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.testing.faults.server import FaultyServer, HttpReply, Pause
from dragoman.transport.fetch import FetchedMedia, Fetcher, FetchError
from tests.tables import each_row
from tests.unit.transport.fetch.fake_network import (
    PIXEL,
    PUBLIC,
    PUBLIC_6,
    FakeNetwork,
    FakeResolver,
    fetch_error,
    fetcher,
    http_response,
    redirect,
    transport_over,
)

SECRET = "very-secret-value"


@each_row(
    ("location", "reason"),
    [
        ("https://127.0.0.1/", "address"), ("https://[::1]/", "address"), ("//127.0.0.1/", "address"),
        ("https://private.example/", "address"), ("https://169.254.169.254/latest/meta-data/", "address"),
        ("https://2130706433/", "host"), ("https://localhost/", "host"), ("http://example.org/", "redirect"),
        ("http://127.0.0.1/", "redirect"), ("file:///etc/passwd", "scheme"), ("data:image/png;base64,AA", "url"),
        ("https://user@example.org/", "user_info"), ("https://example.org:22/", "port"),
        ("https://nowhere.example/", "network"),
        ("https://example.org\\@127.0.0.1/", "url"), ("", "redirect"), ("https://other.example/", "allow_list"),
    ],
)  # fmt: skip
@each_row("status", [301, 302, 303, 307, 308])
@each_row("hops", [0, 3])
def test_each_redirect_is_judged_like_the_first_url(location: str, reason: str, status: int, hops: int) -> None:
    """A bad redirect is not connected to, even after good ones."""
    network = FakeNetwork([*[redirect("/next", status)] * hops, redirect(location, status)])
    allowed = None
    if reason == "allow_list":
        allowed = frozenset({"example.org"})
    resolver = FakeResolver(PUBLIC, private_example="10.0.0.1")
    reason_found, _ = fetch_error(lambda: fetcher(network, resolver, allow_hosts=allowed)("https://example.org/a"))
    assert (reason_found, network.hosts) == (reason, [PUBLIC] * (hops + 1))


def test_redirects_are_followed_and_counted() -> None:
    """Relative, to another host, each on a new connection; one more than allowed is refused."""
    steps = [redirect("b?c"), redirect("//cdn.example/d"), redirect("https://example.org/e"), http_response()]
    network, resolver = FakeNetwork(steps), FakeResolver(PUBLIC, cdn_example="8.8.8.8")
    assert fetcher(network, resolver, max_redirects=3)("https://example.org/x/a").data == PIXEL
    assert network.hosts == [PUBLIC, PUBLIC, "8.8.8.8", PUBLIC]
    assert network.names == ["example.org", "example.org", "cdn.example", "example.org"]
    assert [line for line in network.sent.decode().split("\r\n") if line.startswith("GET")] == [
        "GET /x/a HTTP/1.1", "GET /x/b?c HTTP/1.1", "GET /d HTTP/1.1", "GET /e HTTP/1.1",
    ]  # fmt: skip
    again = FakeNetwork(steps)
    assert fetch_error(lambda: fetcher(again, max_redirects=2)("https://example.org/x/a"))[0] == "redirect"
    assert len(again.hosts) == 3


def test_http_is_allowed_by_setting_and_never_after_https() -> None:
    """On port 80; a downgrade is refused though both schemes are allowed, an upgrade is followed."""
    network = FakeNetwork([redirect("https://example.org/"), redirect("http://example.org/")])
    fetch = fetcher(network, schemes=("https", "http"))
    assert fetch_error(lambda: fetch("http://example.org/"))[0] == "redirect"
    assert (network.ports, network.names) == ([80, 443], ["example.org"])
    with pytest.raises(ConfigurationError, match="https and http"):
        Fetcher(schemes=("file",))


def test_hosts_and_ports_by_allow_list() -> None:
    """Names in any spelling, and no others; a private address is refused though its name is listed."""
    network = FakeNetwork()
    allowed = frozenset({"Example.ORG.", "bücher.example", "private.example"})
    fetch = fetcher(network, FakeResolver(PUBLIC, private_example="10.0.0.1"), allow_hosts=allowed, allow_ports={8443})
    for url in ("https://example.org:8443/", "https://xn--bcher-kva.example/", "https://EXAMPLE.org./"):
        fetch(url)
    assert network.ports == [8443, 443, 443]
    assert b"host: example.org:8443\r\n" in network.sent
    for url in ("https://a.example.org/", "https://example.org.evil.example/", f"https://{PUBLIC}/"):
        assert fetch_error(partial(fetch, url))[0] == "allow_list"
    assert fetch_error(lambda: fetch("https://private.example/"))[0] == "address"
    with pytest.raises(ConfigurationError, match="allow_hosts"):
        Fetcher(allow_hosts=frozenset({"https://example.org/"}))


def test_the_size_is_capped_while_reading() -> None:
    """A declared length is believed at once; without one, or with a wrong one, no more is read than needed."""
    body = b"x" * 1_000_000
    exact, with_length, chunked = (
        FakeNetwork([http_response(body)]),
        FakeNetwork([http_response(body)]),
        b"".join(b"%x\r\n%s\r\n" % (1000, body[:1000]) for _ in range(1000)),
    )
    without_length = FakeNetwork([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n"])
    endless = FakeNetwork([b"HTTP/1.1 200 OK\r\n\r\n" + body])
    assert fetcher(exact, max_bytes=len(body))("https://example.org/").data == body
    for network in (with_length, without_length, endless):
        kind, message = fetch_error(partial(fetcher(network, max_bytes=1000), "https://example.org/"))
        assert kind == "size"
        assert "1,000 bytes" in message
        assert network.read < 200_000
        assert network.open == 0


@pytest.mark.parametrize(
    ("raw", "reason", "word"),
    [
        (http_response(status=404), "status", "404"),
        (http_response(status=206), "status", "206"),
        (http_response(status=500), "status", "500"),
        (http_response(content_encoding="gzip"), "encoding", "compressed"),
        (http_response(content_encoding="br"), "encoding", "compressed"),
        (http_response(content_length="500"), "network", "RemoteProtocolError"),
        (b"", "network", "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH\r\n", "network", "RemoteProtocolError"),
        (redirect("/", 304), "status", "304"),
    ],
)
def test_an_incomplete_or_failed_answer_is_refused(raw: bytes, reason: str, word: str) -> None:
    """With its reason, and a word that helps."""
    network = FakeNetwork([raw])
    kind, message = fetch_error(lambda: fetcher(network)("https://example.org/"))
    assert kind == reason
    assert word in message
    assert network.open == 0


@pytest.mark.parametrize(
    ("content_type", "media_type"),
    [
        ("image/PNG", "image/png"), ("text/plain; charset=utf-8", "text/plain"), ("", "application/octet-stream"),
        ("image", "application/octet-stream"), ("image/png, text/html", "application/octet-stream"),
        ("<b>/x", "application/octet-stream"), ("image/svg+xml", "image/svg+xml"),
        ("a/" + "b" * 99, "application/octet-stream"),
    ],
)  # fmt: skip
def test_the_media_type_is_plain_or_unknown(content_type: str, media_type: str) -> None:
    """Nothing else that a server may send gets through."""
    assert (
        fetcher(FakeNetwork([http_response(content_type=content_type)]))("https://example.org/").media_type
        == media_type
    )


def test_an_unreachable_address_gives_way_to_the_next() -> None:
    """The error comes if all are unreachable, as IPv6 is on a network without it."""
    network = FakeNetwork(dead=frozenset({PUBLIC_6}))
    fetcher(network, FakeResolver(PUBLIC_6, PUBLIC))("https://example.org/")
    assert network.hosts == [PUBLIC_6, PUBLIC]
    dead = FakeNetwork(dead=frozenset({PUBLIC}))
    assert fetch_error(lambda: fetcher(dead)("https://example.org/"))[0] == "network"


@pytest.mark.parametrize(
    "url",
    [
        f"https://example.org/{SECRET}?key={SECRET}#{SECRET}", f"https://{SECRET}:{SECRET}@example.org/",
        f"http://{SECRET}.example/", f"https://example.org:22/{SECRET}", f"https://127.0.0.1/?{SECRET}",
        f"https://nowhere.example/{SECRET}", f"{SECRET}", f"https://example.org/{SECRET}\n",
    ],
)  # fmt: skip
def test_errors_show_no_more_than_the_host(url: str) -> None:
    """Neither path, query nor password, in text, repr or chain; and they can be pickled."""
    network = FakeNetwork([http_response(status=404)])
    with pytest.raises(FetchError) as caught:
        fetcher(network)(url)
    error = caught.value
    assert SECRET not in f"{error!s} {error!r} {error.__cause__!r}"
    assert error.__cause__ is None
    assert pickle.loads(pickle.dumps(error)).reason == error.reason
    assert isinstance(error, RequestError)
    assert SECRET not in repr(FetchedMedia(SECRET.encode(), "image/png"))


class Local(httpcore.NetworkBackend):
    """Real sockets, all to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        return httpcore.SyncBackend().connect_tcp("127.0.0.1", self._port, timeout=10)


def http_fetcher(port: int, **settings: Any) -> Fetcher:
    return Fetcher(
        schemes=("http",), resolve=FakeResolver(), connection=lambda: transport_over(Local(port)), **settings
    )


def test_a_real_answer_over_a_real_socket() -> None:
    """The request has the host name, and no credential or cookie."""
    moved = HttpReply(status=302, headers={"location": "/b", "set-cookie": "a=b"})
    with FaultyServer([moved, HttpReply(body=PIXEL)]) as server:
        assert http_fetcher(server.port)("http://example.org/a").data == PIXEL
        assert server.wait_until_closed() == 0
    assert [request.path for request in server.requests] == ["/a", "/b"]
    assert all(set(r.headers) == {"host", "user-agent", "accept", "accept-encoding"} for r in server.requests)
    assert {request.headers["host"] for request in server.requests} == {"example.org"}


def test_a_slow_server_is_cut_off() -> None:
    """Neither a slow body, though each piece comes in time, nor a slow head is waited for."""
    dripping = [step for _ in range(200) for step in (b"x", Pause(0.05))]
    with FaultyServer(HttpReply(steps=dripping)) as server:
        assert fetch_error(lambda: http_fetcher(server.port, timeout=0.3)("http://example.org/"))[0] == "network"
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            try:
                for _ in range(60):
                    stop.wait(0.05)
                    connection.sendall(b"x-more: 1\r\n")
                connection.sendall(b"content-length: 0\r\n\r\n")
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        try:
            port = listener.getsockname()[1]
            assert fetch_error(lambda: http_fetcher(port, timeout=0.3)("http://example.org/"))[0] == "network"
        finally:
            stop.set()
            thread.join()


def test_proxies_of_the_environment_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would resolve the name themselves, so the connection is direct."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    network, real = FakeNetwork(), httpx.HTTPTransport.__init__

    def init(self: httpx.HTTPTransport, **settings: Any) -> None:
        real(self, **settings)
        self._pool._network_backend = network

    monkeypatch.setattr(httpx.HTTPTransport, "__init__", init)
    Fetcher(resolve=FakeResolver())("https://example.org/")
    assert network.hosts == [PUBLIC]
