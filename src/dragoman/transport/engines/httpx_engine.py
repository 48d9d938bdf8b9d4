"""httpx, and its successor httpx2, which has the same names.

Our own connections use httpx's transports directly: its client would add a third to the cost of a request, for
cookies, redirects and hooks that no request of ours has. A caller's own client is used as it is.
"""

import importlib
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.log import get_logger
from dragoman.transport.call import AsyncResponse, Call, SyncResponse
from dragoman.transport.engines.engine import (
    AsyncClient,
    Client,
    ConnectionSettings,
    SyncEngine,
    default_ssl_context,
)
from dragoman.transport.engines.network import AsyncNetwork, DeadlineNetwork, check_reuse
from dragoman.transport.engines.pool import IDLE_SECONDS
from dragoman.transport.engines.proxies import find_proxies, proxy_server

if TYPE_CHECKING:
    import httpx

_log = get_logger("dragoman.transport")

_CONNECTIONS_PER_CLIENT = 2
"""Connections per HTTP/1.1 client."""
_MANY_CALLS = 50
"""Concurrent calls from which one async client of httpx is slow."""


class HttpxEngine(SyncEngine):
    """The engine of the default install, sync and async.

    httpx checks every connection of a client whenever a request starts or ends, so the cost per request grows with the
    number in flight. A client is cheap (3 KiB); a hundred concurrent calls run over six times faster through fifty
    clients of two connections than through one of a hundred.
    """

    name: ClassVar[str] = "httpx"
    install_hint: ClassVar[str] = "httpx"
    core: ClassVar[str] = "httpcore"
    """The package below it, which opens the connections."""

    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        return ""

    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        # An HTTP/2 connection carries many calls, if they all use the same client.
        return None if connection_settings.http2 else _CONNECTIONS_PER_CLIENT

    def client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> Client:
        library = importlib.import_module(self.name)
        proxy = find_proxies(connection_settings.proxy).find(url)
        transport = self._transport("HTTPTransport", size, connection_settings, proxy)
        transport._pool._network_backend = DeadlineNetwork(
            importlib.import_module(self.core), joins_writes=not connection_settings.http2
        )
        check_reuse(transport._pool)
        return _OwnClient(library, self, transport, proxy_server(proxy))

    def async_client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> AsyncClient:
        library = importlib.import_module(self.name)
        proxy = find_proxies(connection_settings.proxy).find(url)
        transport = self._transport("AsyncHTTPTransport", size, connection_settings, proxy)
        transport._pool._network_backend = AsyncNetwork(importlib.import_module(self.core))
        check_reuse(transport._pool)
        return _OwnAsyncClient(library, self, transport, proxy_server(proxy))

    def wrap_client(self, client: Any) -> Client:
        return _CallersClient(self, client)

    def wrap_async_client(self, client: Any) -> AsyncClient:
        return _CallersAsyncClient(self, client)

    def _transport(self, class_name: str, size: int, settings: ConnectionSettings, proxy: str | None) -> Any:
        library = importlib.import_module(self.name)
        if settings.http2 and find_spec("h2") is None:
            raise ConfigurationError(f"HTTP/2 needs the h2 package: pip install {self.name}[http2]")
        try:
            return getattr(library, class_name)(
                verify=settings.verify or default_ssl_context(self.name, http2=settings.http2),
                limits=library.Limits(
                    max_connections=size, max_keepalive_connections=size, keepalive_expiry=IDLE_SECONDS
                ),
                proxy=proxy,
                http2=settings.http2,
            )
        except ImportError as error:  # socksio for SOCKS; the message names the extra of httpx
            raise ConfigurationError(str(error)) from None


class Httpx2Engine(HttpxEngine):
    """The same classes from another package."""

    name: ClassVar[str] = "httpx2"
    install_hint: ClassVar[str] = "httpx2"
    core: ClassVar[str] = "httpcore2"


class _OwnClient:
    """A transport of httpx with a few connections."""

    def __init__(self, library: Any, engine: HttpxEngine, transport: Any, proxy: str) -> None:
        self._new_request = library.Request
        self._engine = engine
        self._transport = transport
        self._proxy = proxy

    def send(self, call: Call) -> SyncResponse:
        call.proxy = self._proxy
        response: SyncResponse = self._transport.handle_request(_request(self._new_request, self._engine, call))
        return response

    def close(self) -> None:
        self._transport.close()


class _OwnAsyncClient:
    """The async `_OwnClient`."""

    def __init__(self, library: Any, engine: HttpxEngine, transport: Any, proxy: str) -> None:
        self._new_request = library.Request
        self._engine = engine
        self._transport = transport
        self._proxy = proxy

    @property
    def open_calls(self) -> int:
        # If its cleanup is cancelled or fails, httpcore keeps a request or its connection in use for good.
        pool = self._transport._pool
        in_use = sum(not (each.is_idle() or each.is_closed()) for each in pool._connections)
        return max(len(pool._requests), in_use)

    async def send(self, call: Call) -> AsyncResponse:
        call.proxy = self._proxy
        request = _request(self._new_request, self._engine, call)
        response: AsyncResponse = await self._transport.handle_async_request(request)
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()


class _CallersClient:
    """A caller's own `httpx.Client`, with its hooks, cookies and auth."""

    def __init__(self, engine: HttpxEngine, client: "httpx.Client") -> None:
        self._engine = engine
        self._client = client

    def send(self, call: Call) -> SyncResponse:
        request = _request(self._client.build_request, self._engine, call)
        return self._client.send(request, stream=True, follow_redirects=False)

    def close(self) -> None:
        """Do nothing: the client is the caller's to close."""


class _CallersAsyncClient:
    """A caller's own `httpx.AsyncClient`."""

    def __init__(self, engine: HttpxEngine, client: "httpx.AsyncClient") -> None:
        self._engine = engine
        self._client = client
        self._calls = 0
        self._warned = False

    @property
    def open_calls(self) -> int:
        return self._calls

    async def send(self, call: Call) -> AsyncResponse:
        self._calls += 1
        if self._calls > _MANY_CALLS and not self._warned:
            self._warned = True
            _log.warning(
                "more than %d concurrent calls through one httpx.AsyncClient: it checks all its connections at every "
                "call and becomes slow; leave client= out, or install dragoman[speed]",
                _MANY_CALLS,
            )
        try:
            request = _request(self._client.build_request, self._engine, call)
            return await self._client.send(request, stream=True, follow_redirects=False)
        finally:
            self._calls -= 1

    async def aclose(self) -> None:
        """Do nothing: the client is the caller's to close."""


def _request(new_request: Any, engine: HttpxEngine, call: Call) -> Any:
    prepared = call.prepared
    return new_request(
        prepared.method,
        prepared.url if engine.name == "httpx" else _to_httpx2_url(prepared.url),  # it has a class of its own
        headers=prepared.headers,
        content=prepared.body if prepared.upload is None else prepared.upload.pieces,
        extensions={"timeout": call.time_limits()},
    )


@lru_cache(maxsize=256)
def _to_httpx2_url(url: "httpx.URL") -> Any:
    return importlib.import_module("httpx2").URL(str(url))
