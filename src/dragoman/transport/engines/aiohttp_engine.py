"""aiohttp: the fastest engine, async only. It parses HTTP/1.1 in C.

Bodies are passed on compressed, as they arrive. Cookies, redirects, .netrc and aiohttp's reading of the environment,
which looks for proxies in another thread at every request, are off.
"""

import asyncio
import contextlib
import importlib
import io
import math
import os
import select
import socket
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self

from dragoman.adapter.wire import Headers
from dragoman.canonical.forks import process_generation
from dragoman.transport.call import AsyncResponse, Call
from dragoman.transport.engines.engine import AsyncClient, ConnectionSettings, Engine, default_ssl_context
from dragoman.transport.engines.network import AddressInfo, open_connections, resolver
from dragoman.transport.engines.pool import IDLE_SECONDS
from dragoman.transport.engines.proxies import find_proxies, proxy_server
from dragoman.transport.failures import ConnectError
from dragoman.transport.retry import MIN_SECONDS

if TYPE_CHECKING:
    import httpx

_MAX_HEADER_LINE = 64 * 1024
"""Bytes of a reply's status line, or of one header; aiohttp's own limit is an eighth of it."""
_LARGE_BODY = 1024 * 1024
"""Bytes from which aiohttp warns about a body in one piece; an in-memory file is written in small pieces."""
_MAX_CHUNK = 256 * 1024
"""The maximum of bytes in one chunk."""
_MAX_PIECES = 16 * 1024
"""Pieces that wait to be read, before no more are taken from the connection."""


class AiohttpEngine(Engine):
    """One session for all calls: its pool finds a connection without a search."""

    name: ClassVar[str] = "aiohttp"
    install_hint: ClassVar[str] = "dragoman[speed]"

    def missing_feature(self, connection_settings: ConnectionSettings) -> str:
        if connection_settings.http2:
            return "HTTP/2"
        unsupported = find_proxies(connection_settings.proxy).schemes() - {"http"}
        return f"support for a proxy of the kind {min(unsupported)}" if unsupported else ""

    def client_size(self, connection_settings: ConnectionSettings) -> int | None:
        return None

    def async_client(self, size: int, connection_settings: ConnectionSettings, url: "httpx.URL") -> AsyncClient:
        proxy = find_proxies(connection_settings.proxy).find(url)  # may raise: a session has to be closed
        context = connection_settings.verify or default_ssl_context("httpx")
        context.set_alpn_protocols(["http/1.1"])  # An HTTP/2 client may have used the context before.
        aiohttp = _aiohttp()
        connector = _connector_class()(
            limit=size, ssl=context, keepalive_timeout=IDLE_SECONDS, resolver=_Resolver(), socket_factory=_new_socket
        )
        session = aiohttp.ClientSession(
            connector=connector,
            request_class=_request_class(),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            timeout=aiohttp.ClientTimeout(),
        )
        return AiohttpClient(session, proxy)

    def async_sender(self, client: Any) -> Callable[[Call], Awaitable[AsyncResponse]]:
        return AiohttpClient(client, None, owned=False).send


class AiohttpClient:
    """A session, and its proxy."""

    open_calls = 0
    """aiohttp loses no connection."""

    def __init__(self, session: Any, proxy: str | None, *, owned: bool = True) -> None:
        self._session = session
        self._proxy = {} if proxy is None else {"proxy": proxy}
        self._proxy_server = proxy_server(proxy)
        self._owned = owned
        self._last_url: tuple[Any, Any] = (None, None)
        self._generation = process_generation()

    async def send(self, call: Call) -> AsyncResponse:
        prepared, aiohttp = call.prepared, _aiohttp()
        call.proxy = self._proxy_server
        left = call.seconds_left
        left = None if left is None else max(left, MIN_SECONDS)
        to_connect = call.connect_timeout if left is None else min(left, call.connect_timeout)
        if self._last_url[0] is not prepared.url:
            # The next one is nearly always the same object, and hashing it takes as long as making aiohttp's.
            self._last_url = prepared.url, importlib.import_module("yarl").URL(str(prepared.url), encoded=True)
        data: Any = prepared.body or None
        if prepared.upload is not None:
            data = prepared.upload.pieces
        elif len(prepared.body) >= _LARGE_BODY:
            data = io.BytesIO(prepared.body)
        _transport_in_use.set(None)
        try:
            response = await self._session.request(
                prepared.method,
                self._last_url[1],
                headers=prepared.headers,
                data=data,
                timeout=aiohttp.ClientTimeout(
                    connect=to_connect if self._owned else left,
                    sock_connect=to_connect,
                    sock_read=left,
                    ceil_threshold=math.inf,
                ),
                allow_redirects=False,
                auto_decompress=False,
                raise_for_status=False,
                max_line_size=_MAX_HEADER_LINE,
                max_field_size=_MAX_HEADER_LINE,
                **self._proxy,
            )
        except aiohttp.ClientConnectorError as error:
            raise ConnectError(_describe_failure(error)) from None
        except BaseException:
            _abort(_transport_in_use.get())
            raise
        return AiohttpResponse(response)

    async def aclose(self) -> None:
        await self._session.close()

    def __del__(self) -> None:
        # An unclosed session would log a warning in the event loop; httpx does not.
        if not self._owned or self._session.closed:
            return
        connector = self._session.connector
        self._session.detach()
        if self._generation != process_generation():  # a forked child must not touch the connections of its parent
            connector._closed = True
            return
        closing = connector.close().__await__()
        with contextlib.suppress(RuntimeError, StopIteration):
            next(closing)  # The first step closes the connections; the others wait for that.


_transport_in_use: ContextVar[Any] = ContextVar("transport_in_use", default=None)
"""The asyncio transport of the request that the current task sends."""


@cache
def _request_class() -> Any:
    """aiohttp's request, which notes its transport."""

    class Request(_aiohttp().ClientRequest):  # type: ignore[misc]  # a class that is known when it is needed
        def send(self, conn: Any) -> Any:  # not async: it returns the other's coroutine
            _transport_in_use.set(conn.transport)
            return super().send(conn)

    return Request


@cache
def _connector_class() -> Any:
    """aiohttp's connector, which closes connections with bytes behind a response: they would answer the next
    request."""

    class Connector(_aiohttp().TCPConnector):  # type: ignore[misc]  # a class that is known when it is needed
        def _get(self, key: Any, *details: Any) -> Any:  # not async: it returns the other's coroutine
            while idle := self._conns.get(key):
                protocol = idle[0][0]
                if not _has_extra_bytes(protocol):
                    break
                idle.popleft()
                protocol.close()
                if not idle:
                    del self._conns[key]
            return super()._get(key, *details)

    return Connector


def _has_extra_bytes(protocol: Any) -> bool:
    """Whether anything arrived behind the last response: parsed, in part, or not read yet."""
    if protocol.transport is None or protocol.should_close or _is_readable(protocol.transport):
        return True
    parser = getattr(protocol, "_parser", None)
    try:
        return parser is not None and parser.feed_eof() is not None
    except Exception:  # bytes that are not a response
        return True


def _is_readable(transport: Any) -> bool:
    connection = transport.get_extra_info("socket")
    number = -1 if connection is None else connection.fileno()
    if number < 0:
        return True
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([number], [], [], 0)[0])
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))


def _abort(transport: Any) -> None:
    """Close a connection at once. Closing it properly would wait until a server has read what is left to send."""
    if transport is not None:
        transport.abort()


class _Resolver:
    """Looks names up in the threads that the whole process shares."""

    async def resolve(self, host: str, port: int = 0, family: int = socket.AF_INET) -> list[dict[str, Any]]:
        found = await asyncio.wrap_future(resolver.submit(host, port, family))
        return [
            {
                "hostname": host,
                "host": address[0],
                "port": port,
                "family": kind,
                "proto": protocol,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None: ...


def _new_socket(address: AddressInfo) -> socket.socket:
    """Create the socket of a connection, which a forked child leaves to its parent."""
    family, kind, protocol, _, _ = address
    connection = socket.socket(family, kind, protocol)
    open_connections.add(connection, connection)
    return connection


class AiohttpResponse:
    """A response with the members of `RawResponse`."""

    is_stream_consumed = False
    content = b""
    extensions: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, response: Any) -> None:
        self._response = response
        self.status_code: int = response.status
        # Values of the same name are joined, as httpx does.
        headers: dict[str, str] = {}
        replayed = response.headers.items() if not response.raw_headers else ()  # by vcrpy, which keeps no raw ones
        encoded = ((name.encode("latin-1"), value.encode("utf-8", "surrogateescape")) for name, value in replayed)
        for name, value in response.raw_headers or encoded:
            lower = name.decode("latin-1").lower()
            try:
                text = value.decode()
            except UnicodeDecodeError:
                text = value.decode("latin-1")
            headers[lower] = f"{headers[lower]}, {text}" if lower in headers else text
        self.headers = Headers.from_lower(headers)

    @property
    def is_closed(self) -> bool:
        closed: bool = self._response.closed
        return closed

    def aiter_raw(self) -> AsyncIterator[bytes]:
        content = self._response.content
        if type(content) is _aiohttp().StreamReader:  # one that vcrpy replays is another
            content.__class__ = _reader_class()
        return _RawChunks(content)

    async def aclose(self) -> None:
        """Give the connection back to the pool if the body was read to its end, else close it. Never waits."""
        connection = self._response.connection
        if connection is None and self.is_closed and self._response.content.at_eof():
            return  # as after most whole replies: aiohttp has given it back
        unfinished = None if connection is None else connection.transport
        self._response.close()
        _abort(unfinished)


@cache
def _reader_class() -> Any:
    """aiohttp's reader of a body, for one who reads what has arrived and does not ask where HTTP chunks end. Keeping
    account of them takes longer than everything else that is done with a short one, and each event of a stream comes in
    a chunk of its own."""

    class StreamReader(_aiohttp().StreamReader):  # type: ignore[misc]  # a class that is known when it is needed
        __slots__ = ()  # the class of readers that exist is set to this one

        def begin_http_chunk_receiving(self) -> None: ...

        def end_http_chunk_receiving(self) -> None:
            if len(self._buffer) > _MAX_PIECES:
                self._protocol.pause_reading()

        def _read_nowait(self, n: int) -> bytes:
            buffer = self._buffer
            if len(buffer) > 1:
                joined = b"".join(buffer)
                buffer.clear()
                buffer.append(joined)
            data: bytes = super()._read_nowait(n)
            return data

    return StreamReader


class _RawChunks:
    """The body as it arrives. It is a class because the event loop keeps account of each async generator."""

    __slots__ = ("_stream",)

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk: bytes = await self._stream.read(_MAX_CHUNK)
        except Exception:
            chunk = _take_buffered(self._stream)
            if not chunk:  # a broken stream raises its error again at each read
                raise
        if not chunk:
            raise StopAsyncIteration
        return chunk


def _take_buffered(stream: Any) -> bytes:
    """Return the data that arrived before the connection broke; aiohttp would raise and drop it."""
    buffer = getattr(stream, "_buffer", None)
    if not isinstance(buffer, deque):
        return b""
    remaining = b"".join(buffer)[stream._buffer_offset :]
    buffer.clear()
    return remaining


def _describe_failure(error: Any) -> str:
    """Why the connection failed, without the address, which may be private."""
    cause = getattr(error, "certificate_error", None) or error.os_error
    if isinstance(cause, ssl.SSLError):
        parts = (cause.reason or "", getattr(cause, "verify_message", ""))
        return ": ".join(part for part in parts if part) or "TLS failed"
    if isinstance(cause, socket.gaierror) and cause.strerror:
        return cause.strerror
    return os.strerror(cause.errno) if cause.errno else type(cause).__name__


@cache
def _aiohttp() -> Any:
    return importlib.import_module("aiohttp")
