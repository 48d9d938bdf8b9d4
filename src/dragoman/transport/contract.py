"""The transport contract: it sends a WireRequest to its adapter's endpoint, and returns bytes.

The transport handles host, key, retries and time limits; the adapter interprets the bytes. Every failure is a
ProviderError, with one record for each attempt in ``error.attempts``.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from dragoman.adapter.contract import Adapter
from dragoman.adapter.wire import AttemptRecord, Headers, WireRequest, WireResponse


@dataclass(slots=True)
class StreamedReply:
    """A reply that has begun with a status under 400: its chunks are bytes as they arrive, decompressed.

    Leaving the context manager releases the connection, whether or not it was read to the end. ``idle_timeout`` is for
    `decode`, which can tell keep-alives from content: the seconds after which the stream has stalled.
    """

    status: int
    """The HTTP status, under 400."""
    headers: Headers
    """The response's headers. Names compare without case."""
    chunks: Iterator[bytes]
    """The body as it arrives. It raises ProviderError if the connection breaks."""
    attempts: tuple[AttemptRecord, ...] = ()
    """All attempts of the request, the last one included."""
    idle_timeout: float | None = None


@dataclass(slots=True)
class AsyncStreamedReply:
    """The async `StreamedReply`."""

    status: int
    """The HTTP status, under 400."""
    headers: Headers
    """The response's headers. Names compare without case."""
    chunks: AsyncIterator[bytes]
    """The body as it arrives. It raises ProviderError if the connection breaks."""
    attempts: tuple[AttemptRecord, ...] = ()
    """All attempts of the request, the last one included."""
    idle_timeout: float | None = None
    """The seconds without content after which the stream has stalled."""


class Transport(Protocol):
    """A sync connection to a provider. Raises ProviderError if no attempt succeeds, and MissingKeyError without a
    key.
    """

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """Send a request and return the whole reply. ``timeout`` is in seconds, retries included."""

    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AbstractContextManager[StreamedReply]:
        """Send a request and enter its reply as soon as it has begun. ``timeout`` is in seconds, until then."""

    def close(self) -> None:
        """Release the connections that belong to this transport alone. Later calls do nothing."""


class AsyncTransport(Protocol):
    """The async `Transport`."""

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse:
        """Send a request and return the whole reply. ``timeout`` is in seconds, retries included."""

    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[AsyncStreamedReply]:
        """Send a request and enter its reply as soon as it has begun. ``timeout`` is in seconds, until then."""

    async def close(self) -> None:
        """Release the connections that belong to this transport alone. Later calls do nothing."""
