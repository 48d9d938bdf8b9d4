"""What all engines share of the network: name lookups in a few threads, and connections that a forked child drops."""

import contextlib
import ipaddress
import os
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.canonical.forks import reset_after_fork

MAX_LOOKUPS = 16
"""Lookups that run at once; later ones wait."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""One entry of `socket.getaddrinfo`."""


class Resolver:
    """Runs `socket.getaddrinfo` in at most ``max_lookups`` threads, which exit when there is nothing to look up.

    The system's resolver blocks, and nothing can end a lookup: a caller who waits no longer leaves its thread behind,
    so their number is bounded, and they do not keep a program from ending.
    """

    def __init__(self, max_lookups: int = MAX_LOOKUPS, lookup: Callable[..., list[AddressInfo]] | None = None) -> None:
        self._max = max_lookups
        self._lookup = lookup
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start without threads: a child process has none of its parent's."""
        self._lock = threading.Lock()
        self._waiting: queue.SimpleQueue[tuple[Future[list[AddressInfo]], str, int, int]] = queue.SimpleQueue()
        self._threads = 0
        self._pending = 0

    def submit(self, host: str, port: int, family: int = socket.AF_UNSPEC) -> Future[list[AddressInfo]]:
        """Return the future addresses of a host. They raise OSError if it is unknown."""
        future: Future[list[AddressInfo]] = Future()
        with self._lock:
            self._pending += 1
            self._waiting.put((future, host, port, family))
            if self._threads < min(self._max, self._pending):
                self._threads += 1
                threading.Thread(target=self._work, name="dragoman-resolver", daemon=True).start()
        return future

    def resolve(self, host: str, port: int, seconds: float | None) -> list[AddressInfo]:
        """Return the addresses of a host. Raises OSError if it is unknown, and TimeoutError after these seconds."""
        future = self.submit(host, port)
        try:
            return future.result(seconds)
        except TimeoutError:
            future.cancel()
            raise TimeoutError("the name lookup took too long") from None

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._waiting.empty():
                    self._threads -= 1
                    return
                future, host, port, family = self._waiting.get()
            if future.set_running_or_notify_cancel():
                try:
                    lookup = self._lookup or socket.getaddrinfo
                    future.set_result(lookup(host, port, family=family, type=socket.SOCK_STREAM))  # type: ignore[arg-type]  # as getaddrinfo
                except Exception as error:
                    future.set_exception(error)
            with self._lock:
                self._pending -= 1


def parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a host is, which needs no lookup; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


resolver = Resolver()


class OpenConnections:
    """The connections of this process. A forked child disconnects from all of them.

    If the child closed them properly, it would end the parent's conversation with the server. If it kept them, both
    would read each other's answers, and the server would not notice when the parent closes its side.
    """

    def __init__(self) -> None:
        self._sockets: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
        reset_after_fork(self)

    def add(self, owner: Any, connection: Any) -> None:
        """Note a connection, which has a ``fileno``, for as long as its owner exists. It may be its own owner."""
        if connection is not None:
            self._sockets[owner] = None if connection is owner else connection  # a value that is its key never goes

    def __len__(self) -> int:
        return len(self._sockets)

    def after_fork(self) -> None:
        """Put an empty file in the place of each connection: its number stays taken, so nobody closes another one."""
        with contextlib.suppress(OSError):
            nothing = os.open(os.devnull, os.O_RDWR)
            for owner, connection in list(self._sockets.items()):
                with contextlib.suppress(OSError, ValueError):
                    if (number := (connection or owner).fileno()) >= 0:
                        os.dup2(nothing, number, inheritable=False)
            os.close(nothing)
        self._sockets = WeakKeyDictionary()


open_connections = OpenConnections()
