"""What went over the wire, for debugging: each attempt of a request, with its reply, without secrets."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError, mask_secrets
from dragoman.canonical.extensions.headers import is_sensitive
from dragoman.canonical.log import get_logger
from dragoman.credentials.contract import ApiKey, mask_bytes

_log = get_logger("dragoman.transport")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpExchange:
    """One attempt of a request. Keys and cookies are masked; the bodies hold the conversation.

    ``response_body`` is decompressed, and of a stream what had arrived. ``status`` is None if no reply began. ``error``
    is what the attempt failed with. ``seconds`` is the time from the start of the attempt to its end.
    """

    provider: str
    """The name of the provider."""
    model: str
    """The name of the model, without the provider."""
    attempt: int
    """Which attempt of the request this was, from 1."""
    method: str
    """The HTTP method, in upper case."""
    url: str
    """The full URL; keys in it are masked."""
    request_headers: Mapping[str, str]
    """The headers as they were sent, masked."""
    request_body: bytes
    """The body as it was sent."""
    status: int | None
    response_headers: Mapping[str, str]
    """The headers as they arrived, masked; empty if no reply began."""
    response_body: bytes
    error: DragomanError | None
    seconds: float

    def __repr__(self) -> str:
        """One line, without the conversation."""
        sizes = f"{len(self.request_body)} bytes, {len(self.response_body)} bytes back"
        return f"HttpExchange({self.method} {self.url}, attempt {self.attempt}, status {self.status}, {sizes})"


ExchangeHook = Callable[[HttpExchange], object]
"""Called at the end of each attempt, in the thread or task that made it. Its exceptions are logged, not raised."""


class Sent(Protocol):
    """A prepared request, as far as it is recorded."""

    @property
    def method(self) -> str: ...
    @property
    def url(self) -> Any: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def body(self) -> bytes: ...
    @property
    def key(self) -> ApiKey | None: ...


class ExchangeRecorder:
    """Records the attempts of one call for a hook."""

    def __init__(self, hook: ExchangeHook, adapter: Adapter, request: Sent, clock: Callable[[], float]) -> None:
        self._hook = hook
        self._adapter = adapter
        self._request = request
        self._clock = clock
        self._is_open = False
        self.error: DragomanError | None = None
        """Why a stream broke off."""

    def begin(self, attempt: int) -> None:
        self._attempt, self._started, self._is_open = attempt, self._clock(), True
        self._status: int | None = None
        self._headers: Mapping[str, str] = {}
        self._pieces: list[bytes] = []
        self.error = None

    def receive_head(self, status: int, headers: Mapping[str, str]) -> None:
        self._status, self._headers = status, headers

    def receive(self, piece: bytes) -> None:
        self._pieces.append(piece)

    def tee(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._pieces.append(chunk)
            yield chunk

    async def tee_async(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for chunk in chunks:
            self._pieces.append(chunk)
            yield chunk

    def end(self, error: DragomanError | None = None) -> None:
        """Call the hook, if the attempt has begun."""
        if not self._is_open:
            return
        self._is_open, request = False, self._request
        exchange = HttpExchange(
            provider=self._adapter.provider,
            model=self._adapter.model,
            attempt=self._attempt,
            method=request.method,
            url=self._mask(str(request.url)),
            request_headers=self._mask_headers(request.headers),
            request_body=mask_bytes(request.key, request.body),
            status=self._status,
            response_headers=self._mask_headers(self._headers),
            response_body=mask_bytes(request.key, b"".join(self._pieces)),
            error=error or self.error,
            seconds=self._clock() - self._started,
        )
        try:
            self._hook(exchange)
        except Exception as raised:
            _log.warning("on_exchange failed: %s", type(raised).__name__, exc_info=raised)

    def _mask(self, text: str) -> str:
        return text if self._request.key is None else self._request.key.mask(text)

    def _mask_headers(self, headers: Mapping[str, Any]) -> dict[str, str]:
        return {
            name: "***" if is_sensitive(name) else mask_secrets(self._mask(str(value)))
            for name, value in headers.items()
        }
