"""The network below httpx: connections whose reads and writes are limited together.

httpx limits each read and write by itself: one byte every second holds a call for as long as a server likes. The
streams here wrap those of httpcore, or of httpcore2, which has the same classes.
"""

import time
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import Any

from dragoman.effects import Perform, Work, call, drive, drive_async
from dragoman.transport.engines.network import AddressInfo, is_address, open_connections, resolver
from dragoman.transport.retry import MIN_SECONDS, seconds_of

_WRITE_SIZE = 16 * 1024
"""Bytes that are written within one time limit of httpcore."""


class _DeadlineStream:
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
    ) -> "_DeadlineStream":
        self._flush(timeout)
        inner = self._inner.start_tls(ssl_context, server_hostname, seconds_of(timeout))
        return _DeadlineStream(inner, joins_writes=self._joins_writes)

    def _flush(self, timeout: float | None) -> None:
        held, self._held = self._held, b""
        if held:
            self._inner.write(held, timeout=seconds_of(timeout))


class Network:
    """Opens connections: each address of a host gets an equal share of the time. ``core`` is httpcore or httpcore2."""

    def __init__(self, core: ModuleType, backend: Any) -> None:
        self._core = core
        self._inner = backend

    def _connect(self, host: str, port: int, timeout: float | None, *options: Any) -> Work[Any]:
        ends_at = None if timeout is None else time.monotonic() + timeout
        addresses = [host]
        if not is_address(host):
            look_up = partial(resolver.resolve, host, port, timeout), partial(_resolve_async, host, port, timeout)
            try:
                found = yield Perform(*look_up)
            except TimeoutError:
                raise self._core.ConnectTimeout("the name lookup took too long") from None
            except (OSError, UnicodeError) as error:
                raise self._core.ConnectError(str(error)) from None
            addresses = list(dict.fromkeys(address[0] for *_, address in found))
        for index, address in enumerate(addresses):
            left = None if ends_at is None else max(ends_at - time.monotonic(), MIN_SECONDS)
            share = None if left is None else left / (len(addresses) - index)
            try:
                return (yield call(self._inner.connect_tcp, address, port, share, *options))
            except (self._core.ConnectError, self._core.ConnectTimeout):
                if address == addresses[-1]:
                    raise
        raise self._core.ConnectError("the host has no address")


async def _resolve_async(host: str, port: int, timeout: float | None) -> list[AddressInfo]:
    import asyncio

    return await asyncio.wait_for(asyncio.wrap_future(resolver.submit(host, port)), timeout)


class DeadlineNetwork(Network):
    """Opens sync connections."""

    def __init__(self, core: ModuleType, *, joins_writes: bool) -> None:
        super().__init__(core, core.SyncBackend())
        self._joins_writes = joins_writes

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _DeadlineStream:
        inner = drive(self._connect(host, port, timeout, local_address, socket_options))
        return _DeadlineStream(inner, joins_writes=self._joins_writes)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class _AsyncStream:
    """An async connection. The call's own `asyncio.timeout` limits it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.read, self.write, self.aclose = inner.read, inner.write, inner.aclose
        open_connections.add(self, inner.get_extra_info("socket"))

    async def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_AsyncStream":
        try:
            return _AsyncStream(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except BaseException:  # after a cancellation httpcore would leave the connection open
            await self._inner.aclose()
            raise

    def get_extra_info(self, info: str) -> Any:
        found = self._inner.get_extra_info(info)
        return found or _has_unread_bytes(self._inner) if info == "is_readable" else found


class AsyncNetwork(Network):
    """Opens async connections."""

    def __init__(self, core: ModuleType) -> None:
        super().__init__(core, core.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> _AsyncStream:
        return _AsyncStream(await drive_async(self._connect(host, port, timeout, local_address, socket_options)))

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
