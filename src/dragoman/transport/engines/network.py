"""The network below httpx: every operation ends at the call's deadline, and a forked child drops the connection.

httpx limits each read and write by itself: one byte every second holds a call for as long as a server likes. The
streams here limit all of them together. They wrap those of httpcore, or of httpcore2, which has the same classes.
"""

import contextlib
import ipaddress
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import cache
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from dragoman.canonical.forks import reset_after_fork
from dragoman.transport.retry import MIN_SECONDS, seconds_of

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


_WRITE_SIZE = 16 * 1024
"""Bytes that are written within one time limit of httpcore."""


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


class DeadlineStream:
    """A sync connection.

    ``joins_writes``: the head of a request is sent with its body, in one packet, as HTTP/1.1 allows: httpx writes them
    one after the other, and then reads.
    """

    def __init__(self, inner: Any, *, joins_writes: bool) -> None:
        self._inner = inner
        self._joins_writes = joins_writes
        self._held = b""
        self.get_extra_info = inner.get_extra_info
        self.close = inner.close
        open_connections.add(self, inner.get_extra_info("socket"))

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._held:
            self._flush(timeout)
        data: bytes = self._inner.read(max_bytes, timeout=seconds_of(timeout))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._held:
            buffer, self._held = self._held + buffer, b""
        elif self._joins_writes and 0 < len(buffer) < _WRITE_SIZE:
            self._held = bytes(buffer)
            return
        if len(buffer) <= _WRITE_SIZE:
            self._inner.write(buffer, timeout=seconds_of(timeout))
            return
        view = memoryview(buffer)
        for start in range(0, len(view), _WRITE_SIZE):
            self._inner.write(view[start : start + _WRITE_SIZE], timeout=seconds_of(timeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "DeadlineStream":
        self._flush(timeout)
        inner = self._inner.start_tls(ssl_context, server_hostname, seconds_of(timeout))
        return DeadlineStream(inner, joins_writes=self._joins_writes)

    def _flush(self, timeout: float | None) -> None:
        held, self._held = self._held, b""
        if held:
            self._inner.write(held, timeout=seconds_of(timeout))


class DeadlineNetwork:
    """Opens sync connections. ``core`` is httpcore or httpcore2."""

    def __init__(self, core: ModuleType, *, joins_writes: bool = False) -> None:
        self._core = core
        self._joins_writes = joins_writes
        self._inner = core.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> DeadlineStream:
        ends_at = None if timeout is None else time.monotonic() + timeout
        addresses = [host] if is_address(host) else self._resolve(host, port, timeout)
        for limit, address in _shares(addresses, ends_at):
            try:
                inner = self._inner.connect_tcp(address, port, limit, local_address, socket_options)
            except (self._core.ConnectError, self._core.ConnectTimeout):
                if address == addresses[-1]:
                    raise
            else:
                return DeadlineStream(inner, joins_writes=self._joins_writes)
        raise self._core.ConnectError("the host has no address")

    def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            return _unique(resolver.resolve(host, port, timeout))
        except TimeoutError as error:
            raise self._core.ConnectTimeout(str(error)) from None
        except (OSError, UnicodeError) as error:
            raise self._core.ConnectError(str(error)) from None

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class AsyncStream:
    """An async connection. The call's own `asyncio.timeout` limits it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.read, self.write, self.aclose = inner.read, inner.write, inner.aclose
        open_connections.add(self, inner.get_extra_info("socket"))

    async def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "AsyncStream":
        try:
            return AsyncStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:  # after a cancellation httpcore would leave the connection open
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        found = self._inner.get_extra_info(info)
        return found or _has_unread_bytes(self._inner) if info == "is_readable" else found


class AsyncNetwork:
    """Opens async connections. ``core`` is httpcore or httpcore2."""

    def __init__(self, core: ModuleType) -> None:
        self._core = core
        self._inner = core.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncStream:
        ends_at = None if timeout is None else time.monotonic() + timeout
        addresses = [host] if is_address(host) else await self._resolve(host, port, timeout)
        for limit, address in _shares(addresses, ends_at):
            try:
                inner = await self._inner.connect_tcp(address, port, limit, local_address, socket_options)
            except (self._core.ConnectError, self._core.ConnectTimeout):
                if address == addresses[-1]:
                    raise
            else:
                return AsyncStream(inner)
        raise self._core.ConnectError("the host has no address")

    async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        import asyncio

        try:
            lookup = asyncio.wrap_future(resolver.submit(host, port))
            return _unique(await asyncio.wait_for(lookup, timeout))
        except TimeoutError:
            raise self._core.ConnectTimeout("the name lookup took too long") from None
        except (OSError, UnicodeError) as error:
            raise self._core.ConnectError(str(error)) from None

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


def _has_unread_bytes(stream: Any) -> bool:
    """Whether bytes have left the socket and are not read yet: anyio keeps some, and the TLS below it."""
    layer = getattr(stream, "_stream", None)
    while layer is not None:
        encrypted, plain = getattr(layer, "_read_bio", None), getattr(layer, "_protocol", None)
        if (encrypted is not None and encrypted.pending) or getattr(plain, "read_queue", None):
            return True
        layer = getattr(layer, "transport_stream", None)
    return False


def check_reuse(pool: Any) -> None:
    """Make a pool of httpcore close connections with bytes behind a response: they would answer the next request."""
    pool.__class__ = _checked_pool(pool.__class__)


@cache
def _checked_pool(kind: Any) -> Any:
    class CheckedPool(kind):  # type: ignore[misc]  # a class that is known when it is needed
        def create_connection(self, origin: Any) -> Any:
            connection = super().create_connection(origin)
            connection.__class__ = _checked_connection(connection.__class__)
            return connection

    return CheckedPool


@cache
def _checked_connection(kind: Any) -> Any:
    class CheckedConnection(kind):  # type: ignore[misc]  # a class that is known when it is needed
        def is_available(self) -> bool:
            return super().is_available() and not _has_extra_bytes(self)

        def has_expired(self) -> bool:
            return super().has_expired() or (self.is_idle() and _has_extra_bytes(self))

    return CheckedConnection


def _has_extra_bytes(connection: Any) -> bool:
    """Whether the HTTP/1.1 parser holds bytes behind the last response."""
    while (connection := getattr(connection, "_connection", None)) is not None:
        if (parser := getattr(connection, "_h11_state", None)) is not None:
            return bool(parser.trailing_data[0])
    return False


def _unique(addresses: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(address[0] for *_, address in addresses))


def _shares(addresses: list[str], ends_at: float | None) -> Iterator[tuple[float | None, str]]:
    """Yield each address with the seconds for it: an equal share of the time that is left."""
    for index, address in enumerate(addresses):
        left = None if ends_at is None else max(ends_at - time.monotonic(), MIN_SECONDS)
        yield (None if left is None else left / (len(addresses) - index)), address
