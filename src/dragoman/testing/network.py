"""Blocks the network in tests: a connection to another machine raises an error.

::

    with block_network():
        session.ask("Hello")  # NetworkBlockedError: a connection to api.anthropic.com …

It patches Python's sockets, so it covers httpx, vendors' SDKs, asyncio and all threads. It does not see connections
of other processes or of C libraries.
"""

import socket
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import Any
from unittest.mock import patch

from dragoman.adapter.errors import DragomanError

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""This machine."""


class NetworkBlockedError(DragomanError):
    """A connection was opened while the network is blocked. ``port`` is None if ``host`` was only looked up."""

    def __init__(self, host: str, port: int | None = None) -> None:
        self.host = host
        self.port = port
        address = host if port is None else f"{host}:{port}"
        super().__init__(
            f"a connection to {address} was blocked: answer it from a cassette or a scripted provider, or name the host"
            " in block_network(allow=...)"
        )


_lock = threading.Lock()
_blocks: list[set[str]] = []
"""The allowed hosts of each active block, with the addresses of allowed names. All blocks must allow a host."""
_patches = ExitStack()


@contextmanager
def block_network(allow: Iterable[str] = LOOPBACK) -> Generator[None, None, None]:
    """Make connections to hosts that are not in ``allow`` raise `NetworkBlockedError`, in all threads.

    Looking up their names raises as well. Unix sockets and socket pairs are not blocked. Blocks may be nested: a host
    must be allowed by all of them.
    """
    allowed = set(map(_normalize_host, allow))
    with _lock:
        if not _blocks:
            _patch_sockets()
        _blocks.append(allowed)
    try:
        yield
    finally:
        with _lock:
            _blocks[:] = [each for each in _blocks if each is not allowed]
            if not _blocks:
                _patches.close()


def _check(host: Any, port: Any = None) -> None:
    name = _normalize_host(host)
    try:
        is_loopback = name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        is_loopback = False
    if not all(name in allowed or (is_loopback and allowed.intersection(LOOPBACK)) for allowed in tuple(_blocks)):
        raise NetworkBlockedError(name, port if isinstance(port, int) else None)


def _normalize_host(host: Any) -> str:
    """Normalize a host: lower case, without brackets, zone and final dot."""
    text = host.decode("idna") if isinstance(host, bytes) else str(host)
    return text.strip("[]").partition("%")[0].rstrip(".").lower()


def _patch_sockets() -> None:
    def add_check(method: Callable[..., Any], address_index: int) -> Callable[..., Any]:
        def connect(self: socket.socket, *arguments: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                _check(*arguments[address_index][:2])
            return method(self, *arguments)

        return connect

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **keywords: Any) -> Any:
        if host:  # no host means this machine
            _check(host, port)
        found = lookup(host, port, *arguments, **keywords)
        for allowed in tuple(_blocks) if host else ():
            allowed.update(_normalize_host(address[0]) for *_, address in found)
        return found

    lookup = socket.getaddrinfo
    for name, address_index in (("connect", 0), ("connect_ex", 0), ("sendto", -1)):
        checked = add_check(getattr(socket.socket, name), address_index)
        _patches.enter_context(patch.object(socket.socket, name, checked))
    _patches.enter_context(patch.object(socket, "getaddrinfo", getaddrinfo))
