"""Fetching media: which URLs and addresses are connected to, and which never."""

import itertools
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.transport.fetch import FetchedMedia, Fetcher, FetchError, is_public
from tests.tables import each_row
from tests.unit.transport.fetch.fake_network import (
    PIXEL,
    PUBLIC,
    PUBLIC_6,
    FakeNetwork,
    FakeResolver,
    fetch_error,
    fetcher,
)

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
    # Local names, and invalid ones.
    *(
        (f"https://{host}/", "host")
        for host in (
            "localhost", "LOCALHOST", "localhost.", "metadata", "router", "a..b.example", ".example.org",
            "example.org..", "-a.example", "a-.example", "exa%6dple.org", "ex$ample.org", "x" * 64 + ".example",
            ".".join(["x" * 60] * 5), "ⓔxample.org", "a.b\u200bc.org", "example.org:x", ".",
        )
    ),
    # Names that resolve to private addresses, also one among public ones.
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
    # Other schemes.
    *(
        (url, "scheme")
        for url in (
            "http://example.org/", "HTTP://example.org/", "ftp://example.org/", "file:///etc/passwd", "gopher://x.org/",
            "dict://x.org/", "ws://example.org/", "wss://example.org/", "ldap://x.org/", "s3://bucket/a.png",
            "jar://x.org/", "gs://bucket/a.png",
        )
    ),
    # No URLs, or two at once.
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
    assert len({url for url, _ in REFUSED}) == len(REFUSED) >= 150


@each_row(("url", "reason"), REFUSED)
def test_a_private_address_is_never_connected_to(url: str, reason: str) -> None:
    """A private address is never connected to in any spelling: a typed refusal of that kind, and no connection."""

    def resolver(host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        # What a lenient system would resolve odd spellings to.
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
def test_a_public_url_is_fetched_from_the_judged_address(url: str, host: str, path: str) -> None:
    """The connection goes to the address; the Host header and TLS have the name."""
    network, resolver = FakeNetwork(), FakeResolver()
    assert fetcher(network, resolver)(url) == FetchedMedia(PIXEL, "image/png")
    assert (network.hosts, network.ports, network.names, resolver.queries) == ([PUBLIC], [443], [host], [host])
    head = network.sent.decode().split("\r\n")
    assert head[0] == f"GET {path} HTTP/1.1"
    assert [line for line in head if line.lower().startswith("host:")] == [f"host: {host}"]
    assert "accept-encoding: identity" in head
    assert network.open == 0


@pytest.mark.parametrize("address", [*GLOBAL, *GLOBAL_6])
def test_public_addresses_are_accepted(address: str) -> None:
    """In a URL, or as the answer of a name server; a bare address is not resolved."""
    network, resolver = FakeNetwork(), FakeResolver(address)
    host_text = f"[{address}]" if ":" in address else address
    fetcher(network, resolver)("https://example.org/")
    fetcher(network, resolver)(f"https://{host_text}/")
    assert {ip_address(host) for host in network.hosts} == {ip_address(address)}
    assert resolver.queries == ["example.org"]


@each_row("address", [*PRIVATE, *PRIVATE_6])
def test_private_addresses_of_a_name_are_refused(address: str) -> None:
    """Private addresses of a name are refused, whatever the name, also next to a public one."""
    network = FakeNetwork()
    for resolver in (FakeResolver(address), FakeResolver(PUBLIC, address), FakeResolver(address, PUBLIC)):
        assert fetch_error(partial(fetcher(network, resolver), "https://example.org/"))[0] == "address"
    assert network.hosts == []


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_is_judged_the_same_in_every_form(number: int) -> None:
    """Mapped and by NAT64 as itself; in tunnels never public."""
    public = is_public(IPv4Address(number))
    assert public <= IPv4Address(number).is_global
    for prefix in ("::ffff:0:0", "64:ff9b::"):
        assert is_public(IPv6Address(int(IPv6Address(prefix)) | number)) is public
    for tunnel in (int(IPv6Address("2002::")) | number << 80, int(IPv6Address("2a00::5efe:0:0")) | number, number):
        assert not is_public(IPv6Address(tunnel))


@given(st.integers(0, 2**128 - 1))
def test_addresses_that_python_calls_private_are_never_public(number: int) -> None:
    """Our rule is stricter, except for NAT64, about which Python's versions disagree."""
    address = IPv6Address(number)
    assert not is_public(address) or address.is_global


def test_dns_rebinding_reaches_nothing_private() -> None:
    """Public and private answers in turn, a thousand times: one query per fetch, whose answer is used."""
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
    """The first answer is used; there is no second query."""
    for _ in range(1000):
        network, resolver = FakeNetwork(), FakeResolver(turns=itertools.chain([PUBLIC], itertools.repeat("127.0.0.1")))
        fetcher(network, resolver)("https://rebind.example/")
        assert (network.hosts, len(resolver.queries)) == ([PUBLIC], 1)
