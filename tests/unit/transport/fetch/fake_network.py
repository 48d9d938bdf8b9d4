"""A network and a name server that answer by a script, for the tests that fetch media."""

import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpcore
import httpx
import pytest

from dragoman.transport.fetch import Fetcher, FetchError

PUBLIC, PUBLIC_6 = "93.184.216.34", "2606:2800:220:1::1"


PIXEL = b"\x89PNG pixel"


def http_response(body: bytes = PIXEL, status: int = 200, **headers: str) -> bytes:
    header_values = {"content-type": "image/png", "content-length": str(len(body))}
    header_values |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in header_values.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def redirect(location: str, status: int = 302) -> bytes:
    return http_response(b"", status, location=location)


class FakeConnection(httpcore.NetworkStream):
    """One connection: it answers with its script, and records what it received."""

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
    """The network below httpx, by a script: one answer per connection, the last one repeatedly."""

    answers: list[bytes] = field(default_factory=lambda: [http_response()])
    dead: frozenset[str] = frozenset()
    hosts: list[str] = field(default_factory=list)
    ports: list[int] = field(default_factory=list)
    names: list[str | None] = field(default_factory=list)
    """The server names that TLS had to verify."""
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
    """A name server with the addresses of each host, or of every host; an iterator gives another one for each query."""

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
