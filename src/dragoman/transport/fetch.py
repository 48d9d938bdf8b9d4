"""Fetches media from URLs for programs that request it: Dragoman itself never fetches.

A URL in a conversation may come from an attacker, or from a model that was manipulated, and this program may reach
private networks. So only public addresses are fetched. The host's name is resolved here, every address is checked, and
the connection goes to exactly the address that was checked: a name server that answers differently a moment later has
no effect. Each redirect is checked in the same way. Proxies of the environment are not used, because a proxy would
resolve the name again.
"""

import ipaddress
import re
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urljoin

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.transport.call import user_agent
from dragoman.transport.drain import shut_down
from dragoman.transport.engines.engine import default_ssl_context
from dragoman.transport.engines.network import parse_address

if TYPE_CHECKING:
    import httpx

MAX_FETCHED_BYTES = 20 * 1024 * 1024

Reason = Literal[
    "url", "scheme", "user_info", "port", "host", "allow_list", "address", "redirect", "status", "size", "encoding",
    "network",
]  # fmt: skip
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[..., Collection[tuple[Any, ...]]]
"""The signature of `socket.getaddrinfo`."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<authority>[^/?#\s\x00-\x1f\x7f\\]*)[^\s\x00-\x1f\x7f\\]*"
)
_MAX_URL = 4096
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_\-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
"""A last label that makes systems read the host as an IPv4 address: decimal, octal or hexadecimal."""
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+\-]{0,60}/[a-z0-9][a-z0-9!#$&^_.+\-]{0,60}")
_PORTS = {"https": 443, "http": 80}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_HOST_SHOWN = 100
_MAX_ADDRESSES = 4

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
"""Global unicast (RFC 4291); other ranges are local, multicast or embed an IPv4 address."""
_EMBEDDED_V4 = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "64:ff9b::/96")))
"""The last 32 bits are an IPv4 address, which is checked instead: mapped ones, and NAT64 (RFC 6052)."""
_BLOCKED_NETWORKS = tuple(
    ipaddress.ip_network(block)
    for block in (
        "168.63.129.16/32",  # Azure's metadata, inside public space
        "169.254.169.254/32", "100.100.100.200/32", "fd00:ec2::254/128",  # other clouds' metadata
        "100.64.0.0/10", "192.0.0.0/24", "192.88.99.0/24", "224.0.0.0/3",  # shared, special, relay, multicast and up
        "2001::/23", "2001:db8::/32", "3fff::/20",  # Teredo and other special uses, documentation
        "2002::/16",  # 6to4: leads to the IPv4 address inside
    )
)  # fmt: skip
"""Blocked in addition to `is_global`, which differs between versions of Python."""
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""The third quarter of an IPv6 address whose last quarter is an IPv4 address (RFC 5214)."""


class FetchError(RequestError):
    """A URL that was not fetched. ``reason`` is the kind of problem; no path or query is ever shown."""

    def __init__(self, message: str, reason: Reason) -> None:
        self.reason: Reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class FetchedMedia:
    """Content that was fetched from a URL. ``media_type`` is the server's IANA type, in lower case;
    ``application/octet-stream`` if it sends none."""

    data: bytes = field(repr=False)
    """The whole content, decompressed."""
    media_type: str


class Fetcher:
    """Fetches a public URL: ``Fetcher()(url)``. A `Session` takes it as ``fetch``.

    ``timeout`` in seconds limits the whole fetch, redirects included, except name resolution, which has the system's
    time limit. ``allow_hosts``: only these exact names. ``allow_ports``: in addition to 443 (and 80 for http).
    ``connection`` creates the httpx transport of one hop, which is closed after it: it finds the address in the URL and
    the name in the Host header. Thread-safe. Raises ConfigurationError for schemes other than http and https.
    """

    def __init__(
        self,
        *,
        max_bytes: int = MAX_FETCHED_BYTES,
        timeout: float = 30.0,
        schemes: Collection[str] = ("https",),
        allow_hosts: frozenset[str] | None = None,
        allow_ports: frozenset[int] = frozenset(),
        max_redirects: int = 5,
        resolve: Resolve = socket.getaddrinfo,
        connection: "Callable[[], httpx.BaseTransport] | None" = None,
    ) -> None:
        if not schemes or not set(schemes) <= set(_PORTS):
            raise ConfigurationError("the schemes of a Fetcher can only be https and http")
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._schemes = frozenset(schemes)
        self._allow_hosts = None if allow_hosts is None else frozenset(map(_normalize_host, allow_hosts))
        self._allow_ports = allow_ports
        self._max_redirects = max_redirects
        self._resolve = resolve
        self._connect = connection or _new_transport

    def __call__(self, url: str) -> FetchedMedia:
        """Return the body and its type. Raises FetchError, which says what to do."""
        deadline = time.monotonic() + self._timeout
        for _ in range(self._max_redirects + 1):
            found = self._fetch_hop(url, deadline)
            if isinstance(found, FetchedMedia):
                return found
            if url.lower().startswith("https:") and found.lower().startswith("http:"):
                raise _new_error(url, "redirects from https to http: pass the final URL", "redirect")
            url = found
        raise _new_error(url, f"is behind more than {self._max_redirects} redirects: pass the final URL", "redirect")

    def _parse_url(self, text: str) -> "httpx.URL":
        import httpx

        found = _URL.fullmatch(text) if isinstance(text, str) and len(text) <= _MAX_URL else None
        if found is None:
            raise _new_error("", "is not a complete URL: write it as https://host/path", "url")
        if found["scheme"].lower() not in self._schemes:
            raise _new_error("", f"is not {' or '.join(sorted(self._schemes))}: send the media as base64", "scheme")
        if "@" in found["authority"]:
            raise _new_error("", "holds a user name or password: remove it, or send the media as base64", "user_info")
        try:
            url = httpx.URL(text).copy_with(fragment=None)
        except (httpx.InvalidURL, ValueError):
            raise _new_error("", "has an invalid host or port: check it", "host") from None
        if url.port is not None and url.port not in self._allow_ports:
            raise _new_error(text, f"names the port {url.port}: add it to allow_ports", "port")
        return url

    def _addresses(self, text: str, host: str, port: int) -> tuple[Address, ...]:
        """Return all addresses of the host, resolved once."""
        if (address := parse_address(host)) is not None:
            return (address,)
        try:
            records = self._resolve(host, port, type=socket.SOCK_STREAM)
            found = tuple(dict.fromkeys(ipaddress.ip_address(answer[4][0]) for answer in records))
        except (OSError, ValueError):
            found = ()
        if not found:
            raise _new_error(text, "has a host that cannot be resolved: check its name", "network")
        return found

    def _fetch_hop(self, text: str, deadline: float) -> FetchedMedia | str:
        """Return the media, or the URL of a redirect. If an address cannot be reached, the next one is tried.

        Raises FetchError unless every address of the host is public.
        """
        import httpx

        url = self._parse_url(text)
        host = _canonical_host(url.raw_host.decode("ascii"))
        if self._allow_hosts is not None and host not in self._allow_hosts:
            raise _new_error(text, "is not an allowed host: add it to allow_hosts", "allow_list")
        addresses = self._addresses(text, host, url.port or _PORTS[url.scheme])
        if not all(map(is_public, addresses)):
            raise _new_error(text, "leads to an address that is not public: send the media as base64", "address")
        url_text = str(url)
        for address in addresses[:_MAX_ADDRESSES]:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            try:
                with _ConnectionTimer(remaining) as timer, closing(self._connect()) as connection:
                    request = _request(url, host, address, remaining, timer.on_trace)
                    with closing(connection.handle_request(request)) as response:
                        return self._read_response(url_text, response, deadline)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                continue
            except (httpx.HTTPError, httpx.StreamError) as error:
                raise _new_error(
                    url_text, f"could not be read ({type(error).__name__}): try again", "network"
                ) from None
        raise _new_error(url_text, "cannot be reached: try again, or send the media as base64", "network")

    def _read_response(self, url_text: str, response: "httpx.Response", deadline: float) -> FetchedMedia | str:
        if response.status_code in _REDIRECTS:
            location: str = response.headers.get("location", "")
            if not location:
                raise _new_error(url_text, "redirects without an address: pass the final URL", "redirect")
            try:
                return urljoin(url_text, location)
            except ValueError:  # an invalid host
                raise _new_error(
                    url_text, "redirects to what is not an address: pass the final URL", "redirect"
                ) from None
        if response.status_code != 200:
            raise _new_error(
                url_text, f"answers {response.status_code}: check that it is public and still there", "status"
            )
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise _new_error(
                url_text, "sends a compressed body, which was not requested: send the media as base64", "encoding"
            )
        media_type: str = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if not _MEDIA_TYPE.fullmatch(media_type):
            media_type = "application/octet-stream"
        return FetchedMedia(self._read_body(url_text, response, deadline), media_type)

    def _read_body(self, url_text: str, response: "httpx.Response", deadline: float) -> bytes:
        """Return the body. At most one piece over the cap is in memory."""
        body = bytearray()
        declared: str = response.headers.get("content-length", "0")
        too_large = declared.isdecimal() and int(declared) > self._max_bytes
        for piece in () if too_large else response.iter_raw():
            body += piece
            too_large = len(body) > self._max_bytes
            if too_large or time.monotonic() > deadline:
                break
        if too_large:
            raise _new_error(url_text, f"is over {self._max_bytes:,} bytes: send a smaller one", "size")
        if time.monotonic() > deadline:
            raise _new_error(url_text, f"takes more than {self._timeout:g} seconds: raise the timeout", "network")
        return bytes(body)


class _ConnectionTimer:
    """Closes the connections of one hop when its time is up, so that a slow-drip server cannot block."""

    def __init__(self, seconds: float) -> None:
        self._sockets: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._shut_down)
        self._timer.daemon = True

    def on_trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Receive httpcore's trace events: each socket, once plain and once with TLS."""
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            found = info["return_value"].get_extra_info("socket")
            if found is not None:
                self._sockets.append(found)

    def _shut_down(self) -> None:
        for each in list(self._sockets):
            shut_down(each)

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()


def is_public(address: Address) -> bool:
    """Whether it is global unicast, and an embedded IPv4 address is, too. Tunnels never are."""
    if isinstance(address, ipaddress.IPv6Address):
        if any(address in block for block in _EMBEDDED_V4):
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _PUBLIC_V6 or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP or address.scope_id:
            return False
    return address.is_global and not any(address in block for block in _BLOCKED_NETWORKS)


def _request(
    url: "httpx.URL", host: str, address: Address, seconds: float, trace: Callable[..., None]
) -> "httpx.Request":
    """Return a request to the address with the host's name: in the Host header, and in TLS, where the certificate must
    match.
    """
    import httpx

    port = "" if url.port is None else f":{url.port}"
    name = f"[{host}]" if ":" in host else host
    headers = {"host": name + port, "user-agent": user_agent(), "accept": "*/*", "accept-encoding": "identity"}
    extensions: dict[str, Any] = {
        "timeout": httpx.Timeout(seconds).as_dict(),
        "trace": trace,
        "sni_hostname": host,
    }
    return httpx.Request("GET", url.copy_with(host=str(address)), headers=headers, extensions=extensions)


def _new_transport() -> "httpx.BaseTransport":
    """Return a transport for one hop: connections are pooled by address, and two hosts at one address must not share
    one. Unlike a client, an httpx transport ignores the environment's proxies.
    """
    import httpx

    return httpx.HTTPTransport(verify=default_ssl_context("httpx"))


def _canonical_host(raw: str) -> str:
    """Return the host's canonical spelling: lower case, no trailing dot, IP addresses in full."""
    host = raw.lower().removesuffix(".")
    if (address := parse_address(host)) is not None:
        return str(address)
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise _new_error("", "has a host that is not a valid domain name: check it", "host")
    if _NUMBER.fullmatch(labels[-1]):
        raise _new_error("", "has an IP address in an unusual form: write it as four decimal numbers", "host")
    if len(labels) == 1:
        raise _new_error("", "has a host without a domain, which is a local host: send the media as base64", "host")
    return host


def _normalize_host(name: str) -> str:
    import httpx

    try:
        return _canonical_host(httpx.URL(scheme="https", host=name).raw_host.decode("ascii"))
    except (httpx.InvalidURL, ValueError, FetchError):
        raise ConfigurationError(
            f"allow_hosts names {name!r:.100}, which is not a host: write it as example.org"
        ) from None


def _new_error(url: str, problem: str, reason: Reason) -> FetchError:
    """Return an error that shows only the host: a path or query may hold a secret, and an invalid URL may be
    anything."""
    found = _URL.fullmatch(url)
    host = found["authority"].rpartition("@")[2][:_MAX_HOST_SHOWN] if found else ""
    return FetchError(f"the URL on {host} {problem}" if host else f"the URL {problem}", reason)
