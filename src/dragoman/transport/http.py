"""Sends directly to the provider, over an engine: httpx, httpx2 or aiohttp."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.forks import ProcessCheck
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.target import TargetFinder
from dragoman.transport.call import (
    AsyncResponse,
    Call,
    PreparedRequest,
    SyncResponse,
    full_url,
    has_own_credential,
    http_headers,
    server_of,
    validate_method,
    validate_path,
)
from dragoman.transport.engines.engine import AsyncClient, Client, ConnectionSettings, choose_engine
from dragoman.transport.engines.pool import Pool, wait_for_slot
from dragoman.transport.engines.shared_pools import PoolGroup, shared_pools
from dragoman.transport.retrying_transport import AsyncRetryingTransport, RetryingTransport, TransportBase
from dragoman.transport.settings import TransportSettings, check_transport_settings

if TYPE_CHECKING:
    import ssl

    import httpx


MAX_CONNECTIONS = 512


class _HttpTransport(TransportBase):
    """What the sync and the async transport share: where the requests go, and over which connections."""

    _asynchronous: ClassVar[bool]

    def __init__(
        self,
        *,
        api_key: str | ApiKey | Callable[[], Any] | None = None,
        credentials: Any = None,
        base_url: str | None = None,
        cloud: Mapping[str, Any] = MappingProxyType({}),
        client: Any = None,
        engine: str | None = None,
        proxy: str | None = None,
        verify: "ssl.SSLContext | None" = None,
        http2: bool = False,
        max_connections: int = MAX_CONNECTIONS,
        environ: Mapping[str, str] = os.environ,
        **settings: Unpack[TransportSettings],
    ) -> None:
        if isinstance(api_key, str):
            api_key = ApiKey(api_key)  # no traceback shows it
        super().__init__(**settings)
        check_transport_settings(locals())
        self._own_client = client if api_key is None and credentials is None else None
        if callable(api_key) and not isinstance(api_key, ApiKey):
            api_key, credentials = None, api_key if credentials is None else credentials
        if credentials is not None:
            from dragoman.credentials.given import GivenCredentials  # imported late: most programs have a key

            credentials = GivenCredentials.wrap(credentials)
        self._target_finder = TargetFinder(api_key, base_url, environ, credentials=credentials, cloud=cloud)
        connection_settings = ConnectionSettings(proxy, verify, http2)
        self._engine = choose_engine(client, engine, connection_settings, environ, asynchronous=self._asynchronous)
        self._send_with_client: Callable[[Call], Any] | None = None
        if client is not None:
            self._send_with_client = (
                self._engine.async_sender(client) if self._asynchronous else self._engine.sender(client)
            )
        self._process = ProcessCheck()
        self._pools = shared_pools(self._engine, connection_settings, max_connections)

    def _prepare(self, adapter: Adapter, request: WireRequest) -> PreparedRequest:
        """Return the request with its address and credential. Raises MissingKeyError if it needs one and has none."""
        endpoint, client = adapter.endpoint, self._own_client
        keyless = bool(request.headers) and has_own_credential(request.headers, endpoint)
        if client is not None and not keyless:  # with auth or a credential of its own, the client needs no key
            headers = getattr(client, "headers", {})
            keyless = getattr(client, "auth", None) is not None or has_own_credential(headers, endpoint)
        target = self._target_finder.target(adapter, keyless=keyless)
        url, server = _address(target.base_url, request.path) if target.base_url else (None, "")
        prepared = PreparedRequest(
            method=validate_method(request.method),
            url=url,
            headers=http_headers(request, target),
            body=request.body,
            stream=request.stream,
            key=target.key,
            server=server,
            target=target,
            path=request.path,
            terms=request.terms,
            priced_hosts=endpoint.priced_hosts,
            upload=request.upload,
        )
        if request.terms is not None and endpoint.priced_hosts and url is not None:
            prepared.note_host()
        if request.upload is not None:
            if target.credentials is not None:
                raise ConfigurationError(
                    "credentials that are fetched cannot prove who sends a body in pieces: give a key"
                )
            if request.upload.size is not None:
                prepared.headers["content-length"] = str(request.upload.size)
        if target.credentials is not None:  # fetched before each attempt, and perhaps a part of the address with them
            from dragoman.transport.authorization import Access  # imported late: most programs have a key

            prepared.access = Access(
                target.credentials, self._target_finder, prepared.headers, validate_path(request.path)
            )
        return prepared


class HttpTransport(_HttpTransport, RetryingTransport):
    """Sends requests over httpx. Its connections are those of the process: all transports with the same settings share
    them, they are kept for `IDLE_SECONDS` after a call, and `close_idle_connections` closes them earlier.

    ``api_key``, ``credentials`` and ``base_url`` override the environment and the adapter; a transport with one of them
    serves one service only. ``cloud`` are settings such as a profile or a region; see `ProviderSettings`. ``client`` is
    the caller's own `httpx.Client`: its proxies, certificates, hooks and transport are used, and it is not closed here.
    If it has auth or a credential in its headers, no key is looked up.

    ``engine`` is ``"httpx"`` or ``"httpx2"``; see `choose_engine`. `ConnectionSettings` documents ``proxy``,
    ``verify`` and ``http2``, and `TransportSettings` the others. ``max_connections`` is for each origin.
    """

    _asynchronous = False

    def _open(self, call: Call) -> AbstractContextManager[SyncResponse]:
        if self._send_with_client is None:
            prepared = call.prepared
            pool = self._pools.pools.get((prepared.url.scheme, prepared.server))
            return _Attempt(self._pools.add_pool(prepared) if pool is None else pool, call)
        self._process.warn_after_fork()
        return contextlib.closing(self._send_with_client(call))


class AsyncHttpTransport(_HttpTransport, AsyncRetryingTransport):
    """The async `HttpTransport`: over aiohttp if ``dragoman[speed]`` is installed, else over httpx.

    ``engine`` may be ``"aiohttp"`` too, and ``client`` an `httpx.AsyncClient` or an `aiohttp.ClientSession`.

    One transport may serve several event loops, one after the other or in several threads: connections belong to the
    loop that opened them, so each loop has its own. They are closed with the loop.
    """

    _asynchronous = True

    def _open(self, call: Call) -> AbstractAsyncContextManager[AsyncResponse]:
        if self._send_with_client is None:
            return _AsyncAttempt(self._pools, call)
        self._process.warn_after_fork()
        return _callers_attempt(self._send_with_client(call))


class _Attempt:
    """One attempt over a connection of a pool, which is free again at the end.

    It is a class because a generator would take three times as long, for every call.
    """

    def __init__(self, pool: Pool[Client], call: Call) -> None:
        self._pool = pool
        self._call = call

    def __enter__(self) -> SyncResponse:
        self._slot = self._pool.take() or wait_for_slot(self._pool, self._call.seconds_left)
        try:
            self._response = self._slot.client.send(self._call)
        except BaseException:
            self._release()
            raise
        return self._response

    def __exit__(self, *_: object) -> None:
        try:
            self._response.close()
        finally:
            self._release()

    def _release(self) -> None:
        for client in self._pool.release(self._slot):
            client.close()


class _AsyncAttempt:
    """The async `_Attempt`."""

    def __init__(self, pools: PoolGroup, call: Call) -> None:
        self._group = pools
        self._call = call

    async def __aenter__(self) -> AsyncResponse:
        self._pools = self._group.loop_pools() or await self._group.add_loop()
        self._pool: Pool[AsyncClient] = self._pools.pool(self._call.prepared)
        self._slot = self._pool.take() or await self._pools.wait_for_slot(self._pool, self._call.seconds_left)
        try:
            self._response = await self._slot.client.send(self._call)
        except BaseException:
            self._release()
            raise
        return self._response

    async def __aexit__(self, kind: object, *_: object) -> None:
        is_closed = False
        try:
            await self._response.aclose()
            is_closed = kind is None
        finally:
            self._release(is_closed=is_closed)

    def _release(self, *, is_closed: bool = False) -> None:
        """Give the connection back. A client that still counts this call has lost its connection: it stays in use and
        takes the place of a working one, so that later calls would wait without end."""
        is_lost = not is_closed and self._slot.client.open_calls >= self._slot.in_use
        for client in self._pool.release(self._slot, discard=is_lost):
            self._pools.close_later(client)


@contextlib.asynccontextmanager
async def _callers_attempt(sending: Awaitable[AsyncResponse]) -> AsyncIterator[AsyncResponse]:
    """Make one attempt with the caller's own client."""
    async with contextlib.aclosing(await sending) as response:
        yield response


@lru_cache(maxsize=256)
def _address(base_url: str, path: str) -> "tuple[httpx.URL, str]":
    """Return the address of a request, and its host and port."""
    url = full_url(base_url, path)
    return url, server_of(url)
