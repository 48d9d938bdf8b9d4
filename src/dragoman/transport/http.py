"""Straight to the provider, over an engine: httpx, httpx2 or aiohttp."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack
from weakref import WeakKeyDictionary

from dragoman.adapter.contract import Adapter
from dragoman.adapter.wire import WireRequest
from dragoman.transport.call import AsyncResponse, Call, Prepared, SyncResponse
from dragoman.transport.carrier import AsyncCarrier, Carrier, Settings
from dragoman.transport.engines import Wiring, async_engine, sync_engine
from dragoman.transport.keys import Credentials
from dragoman.transport.pool import Pool
from dragoman.transport.prepare import brings_own_key, checked_method, full_url, http_headers

if TYPE_CHECKING:
    import asyncio
    import ssl

    import httpx

MAX_CONNECTIONS = 512


class HttpTransport(Carrier):
    """Carries requests over httpx. Connections are opened at the first call and kept for the next ones.

    ``api_key`` and ``base_url`` override what the environment and the adapter say; a transport that was given one of
    them serves one service only. ``client`` is the caller's own `httpx.Client`: its proxies, certificates, hooks and
    transport are used, its auth is the credential where it has one, and it is not closed here.

    ``engine``: ``"httpx"`` or ``"httpx2"``; see `engines`. ``proxy``, ``verify`` and ``http2``: see `Wiring`. See
    `Settings` for the others.
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
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self._credentials = Credentials(api_key, base_url, environ)
        self._signs = api_key is None and _signs(client)
        wiring = Wiring(proxy, verify, http2)
        self._engine = sync_engine(client, engine, wiring, environ)
        self._pool: Pool[httpx.Client]
        if client is None:
            make = partial(self._engine.client, wiring=wiring)
            self._pool = Pool(make, max_connections, client_size=self._engine.client_size(wiring))
        else:
            self._pool = _borrowed(client)

    def _prepare(self, adapter: Adapter, request: WireRequest) -> Prepared:
        return _prepared(self._credentials, adapter, request, keyless=self._signs)

    @contextlib.contextmanager
    def _open(self, call: Call) -> Iterator[SyncResponse]:
        slot = self._pool.take()
        try:
            response = self._engine.send(slot.client, call)
            try:
                yield response
            finally:
                response.close()
        finally:
            for client in self._pool.give_back(slot):
                client.close()

    def close(self) -> None:
        """Closes this transport's own connections; a later call opens new ones."""
        for client in self._pool.empty():
            client.close()


class AsyncHttpTransport(AsyncCarrier):
    """`HttpTransport`, with await: over aiohttp where ``dragoman[speed]`` is installed, over httpx elsewhere.

    ``engine`` may be ``"aiohttp"`` too, and ``client`` an `httpx.AsyncClient` or an `aiohttp.ClientSession`.

    One transport may serve several event loops, one after the other or in several threads: connections belong to
    the loop that opened them, so each loop has its own.
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
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(**settings)
        self._credentials = Credentials(api_key, base_url, environ)
        self._signs = api_key is None and _signs(client)
        self._wiring = Wiring(proxy, verify, http2)
        self._engine = async_engine(client, engine, self._wiring, environ)
        self._lent = None if client is None else _borrowed(self._engine.borrowed(client))
        self._max_connections = max_connections
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool[Any]] = WeakKeyDictionary()
        self._closing: set[asyncio.Task[None]] = set()

    def _prepare(self, adapter: Adapter, request: WireRequest) -> Prepared:
        return _prepared(self._credentials, adapter, request, keyless=self._signs)

    @contextlib.asynccontextmanager
    async def _open(self, call: Call) -> AsyncIterator[AsyncResponse]:
        pool = self._pool()
        slot = pool.take()
        try:
            response = await self._engine.send_async(slot.client, call)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            for client in pool.give_back(slot, spoiled=self._engine.spoils and _cancelled_again()):
                self._close_later(client)

    def _pool(self) -> Pool[Any]:
        import asyncio

        if self._lent is not None:
            return self._lent
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            make, size = partial(self._engine.async_client, wiring=self._wiring), self._engine.client_size(self._wiring)
            pool = self._pools[loop] = Pool(make, self._max_connections, client_size=size)
        return pool

    def _close_later(self, client: Any) -> None:
        import asyncio

        task: asyncio.Task[None] = asyncio.create_task(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Closes this transport's own connections of the running event loop; a later call opens new ones."""
        import asyncio

        loop = asyncio.get_running_loop()
        pool = self._pools.pop(loop, None)
        for client in pool.empty() if pool is not None else ():
            await client.aclose()
        for task in [task for task in self._closing if task.get_loop() is loop]:
            await task


def _cancelled_again() -> bool:
    """Whether the task was cancelled a second time while it cleaned up after the first.

    httpcore then loses a connection: it stays in use for good and takes the place of one that works.
    """
    import asyncio

    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


def _prepared(credentials: Credentials, adapter: Adapter, request: WireRequest, *, keyless: bool) -> Prepared:
    endpoint = adapter.endpoint
    target = credentials.target(adapter, keyless=keyless or brings_own_key(request, endpoint))
    return Prepared(
        method=checked_method(request.method),
        url=full_url(target.base_url, request.path),
        headers=http_headers(request, endpoint, target),
        body=request.body,
        stream=request.stream,
        key=target.key,
    )


def _signs(client: object) -> bool:
    """Whether the caller's own client brings the credential: then no key is looked for."""
    return getattr(client, "auth", None) is not None


def _borrowed(client: Any) -> Pool[Any]:
    """The caller's own client as a pool; how many connections it has is the caller's business."""
    return Pool(lambda _: client, sys.maxsize, client_size=None, owned=False)
