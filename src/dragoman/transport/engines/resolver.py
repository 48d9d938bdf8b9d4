"""Resolves host names in a few threads that the whole process shares.

The system's resolver blocks, and nothing can end a lookup: a caller who waits no longer leaves its thread behind, so
their number is bounded, and they do not keep a program from ending.
"""

import ipaddress
import queue
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from dragoman.canonical.forks import reset_after_fork

MAX_LOOKUPS = 16
"""Lookups that run at once; later ones wait."""

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""One entry of `socket.getaddrinfo`."""


class Resolver:
    """Runs `socket.getaddrinfo` in at most ``max_lookups`` threads, which exit when there is nothing to look up."""

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
        except FutureTimeoutError:
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


def is_address(host: str) -> bool:
    """Whether the host is an IP address, which needs no lookup."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


resolver = Resolver()
