"""httpx, and its successor httpx2, which has the same names.

Our own connections use httpx's transports directly: its client would add a third to the cost of a request, for
cookies, redirects and hooks that no request of ours has. A caller's own client is used as it is.

httpx limits each read and write by itself: one byte every second holds a call for as long as a server likes. The
streams of the network here limit all of them together. They wrap those of httpcore, or of httpcore2, which has the same
classes.
"""

import importlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, partial
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger
from dragoman.effects import Perform, Work, call, drive, drive_async
from dragoman.transport.call import AsyncResponse, Call, SyncResponse
from dragoman.transport.engines.engine import AsyncClient, Client, ConnectionSettings, Engine, default_ssl_context
from dragoman.transport.engines.pool import IDLE_SECONDS
from dragoman.transport.retry import MIN_SECONDS, seconds_of

if TYPE_CHECKING:
    import httpx

    from dragoman.transport.engines.network import AddressInfo

_log = get_logger("dragoman.transport")

_CONNECTIONS_PER_CLIENT = 2
"""Connections per HTTP/1.1 client."""
_MANY_CALLS = 50
"""Concurrent calls from which one async client of httpx is slow."""
_WITH_BODY = ("POST", "PUT", "PATCH")
"""Methods whose requests say that their body is empty."""
_WRITE_SIZE = 16 * 1024
"""Bytes that are written within one time limit of httpcore."""


class HttpxEngine(Engine):
    """The engine of the default install, sync and async.

    httpx checks every connection of a client whenever a request starts or ends, so the cost per request grows with the
    number in flight. A client is cheap (3 KiB); a hundred concurrent calls run over six times faster through fifty
    clients of two connections than through one of a hundred.
    """

    name: ClassVar[str] = "httpx"
    install_hint: ClassVar[str] = "httpx"
    core: ClassVar[str] = "httpcore"
    """The package below it, which opens the connections."""

    @cached_property
    def library(self) -> Any:
        """The library itself."""
        return importlib.import_module(self.name)

    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        return ""

    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        # An HTTP/2 connection carries many calls, if they all use the same client.
        return None if connection_settings.http2 else _CONNECTIONS_PER_CLIENT

    def client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> Client:
        core = importlib.import_module(self.core)
        network = _DeadlineNetwork(core, core.SyncBackend(), joins_writes=not connection_settings.http2)
        return _OwnClient(self, *self._transport("HTTPTransport", network, size, connection_settings, url))

    def async_client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> AsyncClient:
        core = importlib.import_module(self.core)
        network = _AsyncNetwork(core, core.AnyIOBackend())
        return _OwnAsyncClient(self, *self._transport("AsyncHTTPTransport", network, size, connection_settings, url))

    def sender(self, client: "httpx.Client") -> Callable[[Call], SyncResponse]:
        def send(call: Call) -> SyncResponse:
            request = self.build_request(client.build_request, call)
            return client.send(request, stream=True, follow_redirects=False)

        return send

    def async_sender(self, client: "httpx.AsyncClient") -> Callable[[Call], Awaitable[AsyncResponse]]:
        calls, warned = 0, False

        async def send(call: Call) -> AsyncResponse:
            nonlocal calls, warned
            calls += 1
            if calls > _MANY_CALLS and not warned:
                warned = True
                _log.warning(
                    "more than %d concurrent calls through one httpx.AsyncClient: it checks all its connections at "
                    "every call and becomes slow; leave client= out, or install dragoman[speed]",
                    _MANY_CALLS,
                )
            try:
                request = self.build_request(client.build_request, call)
                return await client.send(request, stream=True, follow_redirects=False)
            finally:
                calls -= 1

        return send

    def build_request(self, new_request: Any, call: Call) -> Any:
        """Return a request that a function of the library makes, which encodes its body."""
        prepared = call.prepared
        return new_request(
            prepared.method,
            self.to_url(prepared.url),
            headers=prepared.headers,
            content=prepared.body if prepared.upload is None else prepared.upload.pieces,
            extensions={"timeout": call.time_limits()},
        )

    @staticmethod
    def to_url(url: "httpx.URL") -> Any:
        """Return an address as the library has it."""
        return url

    def _transport(
        self, class_name: str, network: "_Network", size: int, settings: ConnectionSettings, url: "httpx.URL"
    ) -> tuple[Any, str]:
        """Return a transport of httpx over that network, and host and port of its proxy."""
        # Imported late, as is the network below: a caller's own client has both.
        from dragoman.transport.engines.proxies import find_proxies, proxy_server

        library, proxy = self.library, find_proxies(settings.proxy).find(url)
        if settings.http2 and find_spec("h2") is None:
            raise ConfigurationError(f"HTTP/2 needs the h2 package: pip install {self.name}[http2]")
        try:
            transport = getattr(library, class_name)(
                verify=settings.verify or default_ssl_context(self.name, http2=settings.http2),
                limits=library.Limits(
                    max_connections=size, max_keepalive_connections=size, keepalive_expiry=IDLE_SECONDS
                ),
                proxy=proxy,
                http2=settings.http2,
            )
        except ImportError as error:  # socksio for SOCKS; the message names the extra of httpx
            raise ConfigurationError(str(error)) from None
        pool = transport._pool
        pool._network_backend = network
        pool.__class__ = _checked_pool(pool.__class__)
        return transport, proxy_server(proxy)


class Httpx2Engine(HttpxEngine):
    """The same classes from another package."""

    name: ClassVar[str] = "httpx2"
    install_hint: ClassVar[str] = "httpx2"
    core: ClassVar[str] = "httpcore2"

    @staticmethod
    @lru_cache(maxsize=256)
    def to_url(url: "httpx.URL") -> Any:
        return importlib.import_module("httpx2").URL(str(url))


@dataclass(frozen=True, eq=False)
class _Own:
    """A transport of httpx with a few connections."""

    _engine: HttpxEngine
    _transport: Any
    _proxy: str

    def _request(self, call: Call) -> Any:
        """Return the request that httpx would build itself, with the two headers that it would add: it looks for a way
        to encode the body, and reads all headers a second time, which takes four times as long."""
        prepared, library = call.prepared, self._engine.library
        if prepared.upload is not None:
            return self._engine.build_request(library.Request, call)
        headers = {"Host": prepared.url.netloc, **prepared.headers}
        if prepared.body or prepared.method in _WITH_BODY:
            headers["Content-Length"] = str(len(prepared.body))
        request = library.Request(
            prepared.method,
            self._engine.to_url(prepared.url),
            headers=headers,
            stream=library.ByteStream(prepared.body),
            extensions={"timeout": call.time_limits()},
        )
        request.read()  # as httpx does, for whoever looks at it on the way
        return request


class _OwnClient(_Own):
    """The sync one."""

    def send(self, call: Call) -> SyncResponse:
        call.proxy = self._proxy
        response: SyncResponse = self._transport.handle_request(self._request(call))
        return response

    def close(self) -> None:
        self._transport.close()


class _OwnAsyncClient(_Own):
    """The async one."""

    @property
    def open_calls(self) -> int:
        # If its cleanup is cancelled or fails, httpcore keeps a request or its connection in use for good.
        pool = self._transport._pool
        in_use = sum(not (each.is_idle() or each.is_closed()) for each in pool._connections)
        return max(len(pool._requests), in_use)

    async def send(self, call: Call) -> AsyncResponse:
        call.proxy = self._proxy
        response: AsyncResponse = await self._transport.handle_async_request(self._request(call))
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _DeadlineStream:
    """A sync connection.

    ``joins_writes``: the head of a request is sent with its body, in one packet, as HTTP/1.1 allows: httpx writes them
    one after the other, and then reads.
    """

    def __init__(self, inner: Any, *, joins_writes: bool) -> None:
        from dragoman.transport.engines.network import open_connections  # as above

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


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """Opens connections: each address of a host gets an equal share of the time. ``core`` is httpcore or httpcore2, and
    ``backend`` its own network. See `_DeadlineStream` for ``joins_writes``."""

    core: ModuleType
    backend: Any
    joins_writes: bool = False

    def _connect(self, host: str, port: int, timeout: float | None, **options: Any) -> Work[Any]:
        from dragoman.transport.engines.network import parse_address, resolver  # as above

        ends_at = None if timeout is None else time.monotonic() + timeout
        addresses = [host]
        if parse_address(host) is None:
            look_up = partial(resolver.resolve, host, port, timeout), partial(_resolve_async, host, port, timeout)
            try:
                found = yield Perform(*look_up)
            except TimeoutError:
                raise self.core.ConnectTimeout("the name lookup took too long") from None
            except (OSError, UnicodeError) as error:
                raise self.core.ConnectError(str(error)) from None
            addresses = list(dict.fromkeys(address[0] for *_, address in found))
        for index, address in enumerate(addresses):
            left = None if ends_at is None else max(ends_at - time.monotonic(), MIN_SECONDS)
            share = None if left is None else left / (len(addresses) - index)
            try:
                return (yield call(self.backend.connect_tcp, address, port, share, **options))
            except (self.core.ConnectError, self.core.ConnectTimeout):
                if address == addresses[-1]:
                    raise
        raise self.core.ConnectError("the host has no address")


async def _resolve_async(host: str, port: int, timeout: float | None) -> "list[AddressInfo]":
    import asyncio

    from dragoman.transport.engines.network import resolver  # as above

    return await asyncio.wait_for(asyncio.wrap_future(resolver.submit(host, port)), timeout)


class _DeadlineNetwork(_Network):
    """Opens sync connections."""

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _DeadlineStream:
        inner = drive(self._connect(host, port, timeout, **options))
        return _DeadlineStream(inner, joins_writes=self.joins_writes)


class _AsyncStream:
    """An async connection. The call's own `asyncio.timeout` limits it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        from dragoman.transport.engines.network import open_connections  # as above

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


class _AsyncNetwork(_Network):
    """Opens async connections."""

    async def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _AsyncStream:
        return _AsyncStream(await drive_async(self._connect(host, port, timeout, **options)))


def _has_unread_bytes(stream: Any) -> bool:
    """Whether bytes have left the socket and are not read yet: anyio keeps some, and the TLS below it."""
    layer = getattr(stream, "_stream", None)
    while layer is not None:
        encrypted, plain = getattr(layer, "_read_bio", None), getattr(layer, "_protocol", None)
        if (encrypted is not None and encrypted.pending) or getattr(plain, "read_queue", None):
            return True
        layer = getattr(layer, "transport_stream", None)
    return False


@cache
def _checked_pool(kind: Any) -> Any:
    """httpcore's pool, which closes connections with bytes behind a response: they would answer the next request."""

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
