"""Sends directly to the provider, over an engine: httpx, httpx2 or aiohttp."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

from dragoman.adapter.contract import Adapter
from dragoman.adapter.wire import WireRequest
from dragoman.transport.call import AsyncResponse, Call, PreparedRequest, SyncResponse
from dragoman.transport.credentials import Credentials
from dragoman.transport.engines.engine import ConnectionSettings, choose_async_engine, choose_sync_engine
from dragoman.transport.engines.pool import Pool
from dragoman.transport.request_validation import full_url, has_own_key, http_headers, validate_method
from dragoman.transport.retrying_transport import AsyncRetryingTransport, RetryingTransport, TransportSettings

if TYPE_CHECKING:
    import asyncio
    import ssl

    import httpx

MAX_CONNECTIONS = 512


class HttpTransport(RetryingTransport):
    """Sends requests over httpx. Connections are opened at the first call and kept for later ones.

    ``api_key`` and ``base_url`` override the environment and the adapter; a transport with one of them serves one
    service only. ``client`` is the caller's own `httpx.Client`: its proxies, certificates, hooks and transport are
    used, its auth, if any, is the credential, and it is not closed here.

    ``engine`` is ``"httpx"`` or ``"httpx2"``; see `choose_sync_engine`. `ConnectionSettings` documents ``proxy``,
    ``verify`` and ``http2``, and `TransportSettings` the others.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: "httpx.Client | None" = None,
        engine: str | None = None,
        proxy: str | None = None,
        verify: "ssl.SSLContext | None" = None,
        http2: bool = False,
        max_connections: int = MAX_CONNECTIONS,
        environ: Mapping[str, str] = os.environ,
        **settings: Unpack[TransportSettings],
    ) -> None:
        super().__init__(**settings)
        self._credentials = Credentials(api_key, base_url, environ)
        self._has_own_auth = api_key is None and _has_own_auth(client)
        connection_settings = ConnectionSettings(proxy, verify, http2)
        self._engine = choose_sync_engine(client, engine, connection_settings, environ)
        self._pool: Pool[httpx.Client]
        if client is None:
            factory = partial(self._engine.client, connection_settings=connection_settings)
            self._pool = Pool(factory, max_connections, client_size=self._engine.client_size(connection_settings))
        else:
            self._pool = _client_pool(client)

    def _prepare(self, adapter: Adapter, request: WireRequest) -> PreparedRequest:
        return _prepare_request(self._credentials, adapter, request, keyless=self._has_own_auth)

    @contextlib.contextmanager
    def _open(self, call: Call) -> Iterator[SyncResponse]:
        slot = self._pool.acquire()
        try:
            response = self._engine.send(slot.client, call)
            try:
                yield response
            finally:
                response.close()
        finally:
            for client in self._pool.release(slot):
                client.close()

    def close(self) -> None:
        """Close this transport's own connections; a later call opens new ones."""
        for client in self._pool.clear():
            client.close()


class AsyncHttpTransport(AsyncRetryingTransport):
    """The async `HttpTransport`: over aiohttp if ``dragoman[speed]`` is installed, else over httpx.

    ``engine`` may be ``"aiohttp"`` too, and ``client`` an `httpx.AsyncClient` or an `aiohttp.ClientSession`.

    One transport may serve several event loops, one after the other or in several threads: connections belong to the
    loop that opened them, so each loop has its own.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        client: Any = None,
        engine: str | None = None,
        proxy: str | None = None,
        verify: "ssl.SSLContext | None" = None,
        http2: bool = False,
        max_connections: int = MAX_CONNECTIONS,
        environ: Mapping[str, str] = os.environ,
        **settings: Unpack[TransportSettings],
    ) -> None:
        super().__init__(**settings)
        self._credentials = Credentials(api_key, base_url, environ)
        self._has_own_auth = api_key is None and _has_own_auth(client)
        self._connection_settings = ConnectionSettings(proxy, verify, http2)
        self._engine = choose_async_engine(client, engine, self._connection_settings, environ)
        self._borrowed_pool = None if client is None else _client_pool(self._engine.wrap_client(client))
        self._max_connections = max_connections
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool[Any]] = WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()

    def _prepare(self, adapter: Adapter, request: WireRequest) -> PreparedRequest:
        return _prepare_request(self._credentials, adapter, request, keyless=self._has_own_auth)

    @contextlib.asynccontextmanager
    async def _open(self, call: Call) -> AsyncIterator[AsyncResponse]:
        pool = self._pool()
        slot = pool.acquire()
        try:
            response = await self._engine.send_async(slot.client, call)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            for client in pool.release(slot, discard=self._engine.leaks_on_double_cancel and _is_cancelled_twice()):
                self._close_later(client)

    def _pool(self) -> Pool[Any]:
        import asyncio

        if self._borrowed_pool is not None:
            return self._borrowed_pool
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            factory, size = (
                partial(self._engine.async_client, connection_settings=self._connection_settings),
                self._engine.client_size(self._connection_settings),
            )
            pool = self._pools[loop] = Pool(factory, self._max_connections, client_size=size)
        return pool

    def _close_later(self, client: Any) -> None:
        import asyncio

        task: asyncio.Task[None] = asyncio.create_task(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close this transport's own connections of the running event loop; a later call opens new ones."""
        import asyncio

        loop = asyncio.get_running_loop()
        pool = self._pools.pop(loop, None)
        for client in pool.clear() if pool is not None else ():
            await client.aclose()
        for task in [task for task in self._closing if task.get_loop() is loop]:
            await task


def _is_cancelled_twice() -> bool:
    """Whether the task was cancelled again during its cleanup.

    httpcore then loses a connection: it stays in use and takes the place of a working one.
    """
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _prepare_request(
    credentials: Credentials, adapter: Adapter, request: WireRequest, *, keyless: bool
) -> PreparedRequest:
    endpoint = adapter.endpoint
    target = credentials.target(adapter, keyless=keyless or has_own_key(request, endpoint))
    return PreparedRequest(
        method=validate_method(request.method),
        url=full_url(target.base_url, request.path),
        headers=http_headers(request, endpoint, target),
        body=request.body,
        stream=request.stream,
        key=target.key,
    )


def _has_own_auth(client: object) -> bool:
    """Whether the caller's own client has a credential: then no key is looked up."""
    return getattr(client, "auth", None) is not None


def _client_pool(client: Any) -> Pool[Any]:
    """Return the caller's own client as a pool; its number of connections is up to the caller."""
    return Pool(lambda _: client, sys.maxsize, client_size=None, owned=False)
