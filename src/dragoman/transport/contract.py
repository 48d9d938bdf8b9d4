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
    headers: Headers
    chunks: Iterator[bytes]
    attempts: tuple[AttemptRecord, ...] = ()
    idle_timeout: float | None = None


@dataclass(slots=True)
class AsyncStreamedReply:
    """The async `StreamedReply`."""

    status: int
    headers: Headers
    chunks: AsyncIterator[bytes]
    attempts: tuple[AttemptRecord, ...] = ()
    idle_timeout: float | None = None


class Transport(Protocol):
    """A sync connection to a provider. Raises ProviderError if no attempt succeeds, and MissingKeyError without a
    key.
    """

    def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse: ...

    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AbstractContextManager[StreamedReply]: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """The async `Transport`."""

    async def send(self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None) -> WireResponse: ...

    def stream(
        self, adapter: Adapter, request: WireRequest, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[AsyncStreamedReply]: ...

    async def close(self) -> None: ...
