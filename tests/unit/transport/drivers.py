"""Doubles of the transport tests: an adapter that reads nothing, a virtual clock, a sync and an async driver."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from typing import Any, ClassVar

import httpx
import pytest

from dragoman.adapter.contract import Adapter, AdapterOptions, Endpoint, RequestContext
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.replies.stream_decoder import StreamDecoder
from dragoman.adapter.wire import AttemptRecord, WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.transport import AsyncHttpTransport, HttpTransport, Timing

KEY = "canary-4f1d8c0b97e2"
"""A key of no known format: it is masked only because its exact value is known."""
BODY = '{"model":"m","messages":[{"role":"user","content":"é你好\u2028"}]}'.encode()


class PlainAdapter(Adapter):
    """Carries bytes and reads statuses only."""

    provider: ClassVar[str] = "plain"
    endpoint: ClassVar[Endpoint] = Endpoint(
        base_url="https://api.plain.test/v1",
        key_variables=("PLAIN_KEY", "PLAIN_TOKEN"),
        key_header="x-api-key",
        key_prefix="",
        base_url_variable="PLAIN_URL",
    )

    @property
    def capabilities(self) -> AdapterCapabilities:
        return AdapterCapabilities()

    def to_wire(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions
    ) -> WireRequest:
        return WireRequest("POST", "/chat", BODY, stream=options.stream)

    def from_wire_response(self, response: WireResponse, context: RequestContext) -> Message:
        raise NotImplementedError

    def decoder(self, context: RequestContext) -> StreamDecoder:
        raise NotImplementedError

    def from_wire_request(
        self, body: bytes | Mapping[str, Any], context: RequestContext
    ) -> tuple[list[Message], list[ToolDefinition], AdapterOptions]:
        raise NotImplementedError

    def error(self, status: int | None, body: bytes, headers: Mapping[str, str]) -> ProviderError:
        return ErrorContext(self.provider, self.model, status, headers).failure(message=body).error()


ADAPTER = PlainAdapter("m")
PLAIN_REQUEST = WireRequest("POST", "/chat", BODY)
STREAM_REQUEST = WireRequest("POST", "/chat", BODY, stream=True)


@dataclass
class VirtualClock:
    """Time moves only when somebody sleeps or a test moves it. Randomness is the middle of its range: no jitter."""

    seconds: float = 0.0
    roll: float = 0.5
    slept: list[float] = field(default_factory=list)
    start: datetime = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    @property
    def timing(self) -> Timing:
        return Timing(
            clock=lambda: self.seconds,
            now=lambda: self.start + timedelta(seconds=self.seconds),
            roll=lambda: self.roll,
            sleep=self.sleep,
            sleep_async=self.sleep_async,
        )


@dataclass(frozen=True)
class CallResult:
    """The result of a call: the bytes of its reply, or its error with what had arrived before it."""

    body: bytes
    status: int | None
    attempts: tuple[AttemptRecord, ...]
    error: Exception | None = None


class SyncDriver:
    """A call, whole or streamed, without await."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.name = f"sync {engine}"

    def transport(self, **settings: Any) -> HttpTransport:
        own = {} if "client" in settings else {"engine": self.engine}
        return HttpTransport(**{"api_key": KEY, **own, **settings})

    def call(
        self, request: WireRequest = PLAIN_REQUEST, *, timeout: float | None = None, **settings: Any
    ) -> CallResult:
        with self.transport(**settings) as transport:
            return call_once(transport, request, timeout=timeout)

    def client(self, handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(handler), **settings)


class AsyncDriver:
    """The same with await, in an event loop of its own."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        self.name = f"async {engine}"

    def transport(self, **settings: Any) -> AsyncHttpTransport:
        own = {} if "client" in settings else {"engine": self.engine}
        return AsyncHttpTransport(**{"api_key": KEY, **own, **settings})

    def call(
        self, request: WireRequest = PLAIN_REQUEST, *, timeout: float | None = None, **settings: Any
    ) -> CallResult:
        async def main() -> CallResult:
            async with self.transport(**settings) as transport:
                return await call_once_async(transport, request, timeout=timeout)

        return asyncio.run(main())

    def client(self, handler: Callable[[httpx.Request], httpx.Response], **settings: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(handler), **settings)


Driver = SyncDriver | AsyncDriver
DRIVERS = (SyncDriver("httpx"), AsyncDriver("httpx"))


def requires(engine: str) -> pytest.MarkDecorator:
    """Skips if the engine is not installed."""
    return pytest.mark.skipif(find_spec(engine) is None, reason=f"{engine} is not installed")


AIOHTTP = pytest.param(AsyncDriver("aiohttp"), marks=requires("aiohttp"))
HTTPX2 = tuple(
    pytest.param(driver, marks=requires("httpx2")) for driver in (SyncDriver("httpx2"), AsyncDriver("httpx2"))
)
ENGINES = (*DRIVERS, AIOHTTP)
"""The drivers over every engine with its own network code; httpx2 is httpx under another name."""


def call_once(
    transport: Any, request: WireRequest, *, adapter: Adapter = ADAPTER, timeout: float | None = None
) -> CallResult:
    """Runs one call to its end and returns its result or error."""
    body = b""
    try:
        if not request.stream:
            response = transport.send(adapter, request, timeout=timeout)
            return CallResult(response.body, response.status, response.attempts)
        with transport.stream(adapter, request, timeout=timeout) as reply:
            for chunk in reply.chunks:
                body += chunk
            return CallResult(body, reply.status, reply.attempts)
    except Exception as error:
        return CallResult(body, getattr(error, "status", None), getattr(error, "attempts", ()), error)


async def call_once_async(
    transport: Any, request: WireRequest, *, adapter: Adapter = ADAPTER, timeout: float | None = None
) -> CallResult:
    body = b""
    try:
        if not request.stream:
            response = await transport.send(adapter, request, timeout=timeout)
            return CallResult(response.body, response.status, response.attempts)
        async with transport.stream(adapter, request, timeout=timeout) as reply:
            async for chunk in reply.chunks:
                body += chunk
            return CallResult(body, reply.status, reply.attempts)
    except Exception as error:
        return CallResult(body, getattr(error, "status", None), getattr(error, "attempts", ()), error)


class BreakingStream(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that yields its chunks and then raises."""

    def __init__(self, error: Exception, *chunks: bytes) -> None:
        self._error = error
        self._chunks = chunks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        raise self._error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        raise self._error
