"""Fetching media: which URLs never are, where connections go, and what comes back."""

import itertools
import pickle
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.transport.fetch import FetchedMedia, Fetcher, FetchError, is_public
from tests.servers import FaultyServer, HttpReply, Pause

PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800:220:1::1"
PIXEL = b"\x89PNG pixel"
SECRET = "very-secret-value"


def http_response(body: bytes = PIXEL, status: int = 200, **headers: str) -> bytes:
    header_values = {"content-type": "image/png", "content-length": str(len(body))}
    header_values |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in header_values.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return http_response(b"", status, location=location)


class FakeConnection(httpcore.NetworkStream):
    """One connection: it says its script, and notes what it was told."""

    def __init__(self, network: "FakeNetwork", script: bytes) -> None:
        self._network = network
        self._left = script

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        piece, self._left = self._left[:max_bytes], self._left[max_bytes:]
        self._network.read += len(piece)
        return piece

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._network.sent += buffer

    def close(self) -> None:
        self._network.open -= 1

    def start_tls(self, ssl_context: Any, server_hostname: str | None = None, timeout: Any = None) -> "FakeConnection":
        assert ssl_context.check_hostname
        self._network.names.append(server_hostname)
        return self

    def get_extra_info(self, info: str) -> Any:
        return None


@dataclass
class FakeNetwork(httpcore.NetworkBackend):
    """The Internet below httpx, by a script: one answer a connection, the last one again and again."""

    answers: list[bytes] = field(default_factory=lambda: [http_response()])
    dead: frozenset[str] = frozenset()
    hosts: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """What TLS was asked to prove."""
    sent: bytes = b""
    read: int = 0
    open: int = 0

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        self.hosts.append(host)
        self.ports.append(port)
        if host in self.dead:
            raise httpcore.ConnectError("nobody there")
        self.open += 1
        return FakeConnection(self, self.answers[min(len(self.hosts), len(self.answers)) - 1])

    def connection(self) -> httpx.HTTPTransport:
        return transport_over(self)


TRUSTED = httpx.create_ssl_context()


def transport_over(network: httpcore.NetworkBackend) -> httpx.HTTPTransport:
    transport = httpx.HTTPTransport(verify=TRUSTED, trust_env=False)
    transport._pool._network_backend = network
    return transport


class FakeResolver:
    """A name server: the addresses of each host, or of every host; an iterator gives others at each question."""

    def __init__(self, *addresses: str, turns: Iterator[str] | None = None, **hosts: str) -> None:
        self._addresses = addresses or (PUBLIC,)
        self._turns = turns
        self._hosts = {name.replace("_", "."): address for name, address in hosts.items()}
        self.queries: list[str] = []

    def __call__(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        self.queries.append(host)
        if host == "nowhere.example":
            raise socket.gaierror(-2, "Name or service not known")
        if self._turns is not None:
            found: tuple[str, ...] = (next(self._turns),)
        else:
            found = (self._hosts[host],) if host in self._hosts else self._addresses
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]


def fetcher(network: FakeNetwork, resolver: FakeResolver | None = None, **settings: Any) -> Fetcher:
    return Fetcher(resolve=resolver or FakeResolver(), connection=network.connection, **settings)


def fetch_error(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(FetchError) as caught:
        call()
    return caught.value.reason, str(caught.value)


PRIVATE = [
    # Loopback, private, link-local, shared, special, documentation, benchmark, multicast, reserved, broadcast.
    "127.0.0.1", "127.1.2.3", "127.255.255.254", "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "172.16.0.1",
    "172.31.255.255", "192.168.0.1", "192.168.255.255", "169.254.0.1", "169.254.169.254", "169.254.170.2",
    "168.63.129.16", "100.64.0.1", "100.100.100.200", "100.127.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1",
    "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "192.88.99.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255",
]  # fmt: skip
PRIVATE_6 = [
    "::", "::1", "::2", "fe80::1", "fe80::a9fe:a9fe", "febf::1", "fec0::1", "fc00::1", "fd00::1", "fd00:ec2::254",
    "fd20:ce::254", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1",
    # IPv4 in other forms: mapped, compatible, translated, NAT64 (also its local prefix).
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:a9fe:a9fe", "::ffff:168.63.129.16", "::ffff:0:0", "::127.0.0.1",
    "::169.254.169.254", "::8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1",
    "64:ff9b::a9fe:a9fe", "64:ff9b::168.63.129.16", "64:ff9b::100.100.100.200", "64:ff9b:1::127.0.0.1",
    # 6to4, Teredo (the client's address is inverted), ISATAP with both identifiers, ORCHID.
    "2002:7f00:1::", "2002:7f00:1::1", "2002:a00:1::1", "2002:a9fe:a9fe::1", "2002:c0a8:1::1", "2002:a83f:8110::1",
    "2001::1", "2001:0:7f00:1::1", "2001:0:808:808:0:ffff:80ff:fffe", "2001:0:a9fe:a9fe::", "2001:10::1",
    "2001:20::1", "2606:4700::5efe:7f00:1", "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:a9fe:a9fe",
    "fe80::5efe:c0a8:1", "2a00:1450::200:5efe:192.168.0.1",
]  # fmt: skip
GLOBAL = [PUBLIC, "8.8.8.8", "1.1.1.1", "11.0.0.1", "172.32.0.1", "192.167.1.1", "100.128.0.1", "223.255.255.1"]
GLOBAL_6 = [PUBLIC_6, "2a00:1450:4001::1", "2001:4860:4860::8888", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8"]

REFUSED: list[tuple[str, str]] = [
    *((f"https://{address}/a.png", "address") for address in PRIVATE),
    *((f"https://[{address}]/a.png", "address") for address in PRIVATE_6),
    # The same addresses in odd spellings: decimal, octal, hexadecimal, short, mixed, with zeros, in other digits.
    *(
        (f"https://{host}/a.png", "host")
        for host in (
            "2130706433", "017700000001", "0x7f000001", "0x7F000001", "0x7f.1", "0x7f.0.0.1", "127.1", "127.0.1",
            "0177.0.0.1", "0177.1", "127.0.0.01", "127.0.0.0x1", "127.0x1", "00127.0.0.1", "0", "0x0", "0x", "00000000",
            "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "169.16689662", "3232235521",
            "127.0.0.1.1", "256.0.0.1", "1.2.3.4.5", "127.0.0.-1", "4294967297", "127.0.0.1..", "127..1", "x.0x7f",
            "example.123", "%31%32%37.0.0.1", "127%2e0%2e0%2e1", "\uff11\uff12\uff17.0.0.1", "①②⑦.0.0.1",
            "127。0。0。0x1", "[::1%25eth0].x", "[v1.a]", "[::1", "[]", "[127.0.0.1]", "[::ffff:127.1]", "",
        )
    ),
    *((f"https://{host}/", "address") for host in ("127.0.0.1.", "127。0。0。1", "10.0.0.1.", "[fe80::1%eth0]")),
    # Local names, and no names.
    *(
        (f"https://{host}/", "host")
        for host in (
            "localhost", "LOCALHOST", "localhost.", "metadata", "router", "a..b.example", ".example.org",
            "example.org..", "-a.example", "a-.example", "exa%6dple.org", "ex$ample.org", "x" * 64 + ".example",
            ".".join(["x" * 60] * 5), "ⓔxample.org", "a.b\u200bc.org", "example.org:x", ".",
        )
    ),
    # Names that resolve to what is not public, one address among good ones included.
    *(
        (f"https://{host}/", "address")
        for host in ("private.example", "PRIVATE.example.", "meta.example", "six.example", "mixed.example",
                     "mapped.example", "zone.example")
    ),
    ("https://nowhere.example/", "network"),
    # Names and passwords, also empty ones, and what looks like a host before the "@".
    *(
        (f"https://{authority}/", "user_info")
        for authority in (
            "user@example.org", "user:pw@example.org", "@example.org", ":@example.org", "example.org@127.0.0.1",
            "example.org:443@127.0.0.1", "user%40x@example.org", "a@b@example.org", "127.0.0.1@example.org",
        )
    ),
    # Ports.
    *((f"https://example.org:{port}/", "port") for port in (0, 22, 25, 80, 8080, 8443, 6379, 9200, 65535, 99999)),
    # Schemes, none of them a network's.
    *(
        (url, "scheme")
        for url in (
            "http://example.org/", "HTTP://example.org/", "ftp://example.org/", "file:///etc/passwd", "gopher://x.org/",
            "dict://x.org/", "ws://example.org/", "wss://example.org/", "ldap://x.org/", "s3://bucket/a.png",
            "jar://x.org/", "gs://bucket/a.png",
        )
    ),
    # No URLs at all, or two at once.
    *(
        (url, "url")
        for url in (
            "", " ", "example.org", "/etc/passwd", "//example.org/a.png", "https:example.org", "https:/example.org",
            "data:image/png;base64,AAAA", "javascript:alert(1)", "https://example.org\\@127.0.0.1/",
            "https:\\\\127.0.0.1/", "https://example.org/\r\nHost: 127.0.0.1", "https://exa mple.org/",
            "https://example.org\t/", "https://example.org/a b", "https://exam\nple.org/", " https://example.org/",
            "https://example.org/ ", "https://example.org/\0", "\x00https://example.org/", "1https://example.org/",
            "https://example.org/" + "x" * 5000, "https://127.0.0.1\u2028.example/",
        )
    ),
]  # fmt: skip

NAMES: dict[str, tuple[str, ...]] = {
    "private.example": ("10.0.0.1",), "meta.example": ("169.254.169.254",), "six.example": ("fd00:ec2::254",),
    "mixed.example": (PUBLIC, "127.0.0.1"), "mapped.example": ("::ffff:127.0.0.1",), "zone.example": ("fe80::1%eth0",),
}  # fmt: skip


def test_there_are_many_urls() -> None:
    """Each of them once."""
    assert len({url for url, _ in REFUSED}) == len(REFUSED) >= 150


@pytest.mark.parametrize(("url", "reason"), REFUSED)
def test_what_is_not_public_is_never_connected_to(url: str, reason: str) -> None:
    """However it is spelt: a typed refusal of that kind, and not one connection."""

    def resolver(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        # What a lenient system would make of odd spellings.
        return [row for each in NAMES.get(host, ("127.0.0.1",)) for row in FakeResolver(each)(host, port)]

    network = FakeNetwork()
    reason_found, message = fetch_error(lambda: Fetcher(resolve=resolver, connection=network.connection)(url))
    assert (reason_found, network.hosts) == (reason, [])
    assert len(message) < 300


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("https://example.org/a.png", "example.org", "/a.png"),
        ("HTTPS://EXAMPLE.org./a.png", "example.org", "/a.png"),
        ("https://example.org:443/a.png", "example.org", "/a.png"),
        ("https://example.org:/", "example.org", "/"),
        ("https://example.org", "example.org", "/"),
        (
            "https://example.org/a@b:c?u=https://127.0.0.1/&x=%2F#top",
            "example.org",
            "/a@b:c?u=https://127.0.0.1/&x=%2F",
        ),
        ("https://example.org?x=@127.0.0.1", "example.org", "/?x=@127.0.0.1"),
        ("https://BÜCHER.example/ü", "xn--bcher-kva.example", "/%C3%BC"),
        ("https://a。example/", "a.example", "/"),
        ("https://127.0.0.1.nip.example/", "127.0.0.1.nip.example", "/"),
        ("https://0x7f.example/", "0x7f.example", "/"),
        ("https://a_b.example/", "a_b.example", "/"),
    ],
)
def test_a_public_url_is_fetched_from_the_address_that_was_judged(url: str, host: str, path: str) -> None:
    """The connection goes to the address; the Host header and TLS hold the name."""
    network, resolver = FakeNetwork(), FakeResolver()
    assert fetcher(network, resolver)(url) == FetchedMedia(PIXEL, "image/png")
    assert (network.hosts, network.ports, network.names, resolver.queries) == ([PUBLIC], [443], [host], [host])
    head = network.sent.decode().split("\r\n")
    assert head[0] == f"GET {path} HTTP/1.1"
    assert [line for line in head if line.lower().startswith("host:")] == [f"host: {host}"]
    assert "accept-encoding: identity" in head
    assert network.open == 0


@pytest.mark.parametrize("address", [*GLOBAL, *GLOBAL_6])
def test_public_addresses_may_be_named_or_resolved_to(address: str) -> None:
    """In a URL, or as the answer of a name server; an address is not asked about."""
    network, resolver = FakeNetwork(), FakeResolver(address)
    host_text = f"[{address}]" if ":" in address else address
    fetcher(network, resolver)("https://example.org/")
    fetcher(network, resolver)(f"https://{host_text}/")
    assert {ip_address(host) for host in network.hosts} == {ip_address(address)}
    assert resolver.queries == ["example.org"]


@pytest.mark.parametrize("address", [*PRIVATE, *PRIVATE_6])
def test_other_addresses_may_not_be_resolved_to(address: str) -> None:
    """Whatever the name; nor beside a good one."""
    network = FakeNetwork()
    for resolver in (FakeResolver(address), FakeResolver(PUBLIC, address), FakeResolver(address, PUBLIC)):
        assert fetch_error(partial(fetcher(network, resolver), "https://example.org/"))[0] == "address"
    assert network.hosts == []


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_judged_the_same_in_every_form(number: int) -> None:
    """Mapped and by NAT64 as itself; in tunnels never."""
    public = is_public(IPv4Address(number))
    assert public <= IPv4Address(number).is_global
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(IPv6Address(int(IPv6Address(prefix)) | number)) is public
    for tunnel in (int(IPv6Address("2002::")) | number << 80, int(IPv6Address("2a00::5efe:0:0")) | number, number):
        assert not is_public(IPv6Address(tunnel))


@given(st.integers(0, 2**128 - 1))
def test_what_python_calls_local_is_never_public(number: int) -> None:
    """Our rule is the stricter one, but for NAT64, which Python's versions disagree about."""
    address = IPv6Address(number)
    assert not is_public(address) or address.is_global


def test_a_name_server_that_changes_its_mind_reaches_nothing_private() -> None:
    """Public and private in turn, a thousand times, from either start: one question a fetch, and that answer holds."""
    network = FakeNetwork()
    for first, second in ((PUBLIC, "127.0.0.1"), ("169.254.169.254", PUBLIC)):
        resolver = FakeResolver(turns=itertools.cycle([first, second]))
        fetch, refused = fetcher(network, resolver), 0
        for number in range(1000):
            try:
                fetch("https://rebind.example/")
            except FetchError as error:
                refused += error.reason == "address"
            assert len(resolver.queries) == number + 1
        assert refused == 500
    assert len(network.hosts) == 1000
    assert set(network.hosts) == {PUBLIC}


def test_a_name_that_turns_private_after_the_check_has_no_effect() -> None:
    """The first answer is the one that is used; a second is never asked for, whatever it would be."""
    for _ in range(1000):
        network, resolver = FakeNetwork(), FakeResolver(turns=itertools.chain([PUBLIC], itertools.repeat("127.0.0.1")))
        fetcher(network, resolver)("https://rebind.example/")
        assert (network.hosts, len(resolver.queries)) == ([PUBLIC], 1)


@pytest.mark.parametrize(
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
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("hops", [0, 3])
def test_each_redirect_is_judged_like_the_first_url(location: str, reason: str, status: int, hops: int) -> None:
    """After good hops as well; the bad one is not connected to."""
    network = FakeNetwork([*[redirect("/next", status)] * hops, redirect(location, status)])
    allowed = None
    if reason == "allow_list":
        allowed = frozenset({"example.org"})
    resolver = FakeResolver(PUBLIC, private_example="10.0.0.1")
    reason_found, _ = fetch_error(lambda: fetcher(network, resolver, allow_hosts=allowed)("https://example.org/a"))
    assert (reason_found, network.hosts) == (reason, [PUBLIC] * (hops + 1))


def test_redirects_are_followed_and_counted() -> None:
    """Relative, to another host, on a new connection each; one more than allowed is refused."""
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


def test_http_is_allowed_by_its_scheme_and_never_after_https() -> None:
    """On port 80; a step down is refused though both schemes are allowed, a step up is taken."""
    network = FakeNetwork([redirect("https://example.org/"), redirect("http://example.org/")])
    fetch = fetcher(network, schemes=("https", "http"))
    assert fetch_error(lambda: fetch("http://example.org/"))[0] == "redirect"
    assert (network.ports, network.names) == ([80, 443], ["example.org"])
    with pytest.raises(ConfigurationError, match="https and http"):
        Fetcher(schemes=("file",))


def test_hosts_and_ports_by_allow_list() -> None:
    """Names in any spelling of theirs, nothing beside them; a private address is refused though its name is listed."""
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
    """A length that is told is believed at once; without one, or with a lie, no more is read than needed."""
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
def test_what_is_no_whole_answer_is_refused(raw: bytes, reason: str, word: str) -> None:
    """With its kind, and a word that helps."""
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
    """Nothing else that a server may say gets through."""
    assert (
        fetcher(FakeNetwork([http_response(content_type=content_type)]))("https://example.org/").media_type
        == media_type
    )


def test_an_address_that_is_down_gives_way_to_the_next() -> None:
    """As with IPv6 on a network that has none; all of them down is told."""
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
    """Real sockets, all of them to a server of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port

    def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore.NetworkStream:
        return httpcore.SyncBackend().connect_tcp("127.0.0.1", self._port, timeout=10)


def http_fetcher(port: int, **settings: Any) -> Fetcher:
    return Fetcher(
        schemes=("http",), resolve=FakeResolver(), connection=lambda: transport_over(Local(port)), **settings
    )


def test_a_real_answer_over_a_real_socket() -> None:
    """The bytes that arrive at the server hold the name, and no credential or cookie."""
    moved = HttpReply(status=302, headers={"location": "/b", "set-cookie": "a=b"})
    with FaultyServer([moved, HttpReply(body=PIXEL)]) as server:
        assert http_fetcher(server.port)("http://example.org/a").data == PIXEL
        assert server.wait_until_closed() == 0
    assert [request.path for request in server.received] == ["/a", "/b"]
    assert all(set(r.headers) == {"host", "user-agent", "accept", "accept-encoding"} for r in server.received)
    assert {request.headers["host"] for request in server.received} == {"example.org"}


def test_a_server_that_drips_is_not_waited_for() -> None:
    """Neither its body, though each piece comes in time, nor its head."""
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
    """They would resolve the name themselves: the connection is made directly, as it is without them."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    network, real = FakeNetwork(), httpx.HTTPTransport.__init__

    def init(self: httpx.HTTPTransport, **settings: Any) -> None:
        real(self, **settings)
        self._pool._network_backend = network

    monkeypatch.setattr(httpx.HTTPTransport, "__init__", init)
    Fetcher(resolve=FakeResolver())("https://example.org/")
    assert network.hosts == [PUBLIC]
