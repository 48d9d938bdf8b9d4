"""The end of a stream that was left in peace: read where it comes at once, so that its connection can be used again.

A provider ends its stream right after the last event. A connection that is left before this end cannot be used again,
and the next request would pay for a new one. Who breaks off by an exception does not come by here.
"""

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice

from dragoman.adapter.errors import DragomanError
from dragoman.transport.call import AsyncResponse, RawResponse, SyncResponse

DRAIN_SECONDS = 0.2
"""Seconds that such a stream gets to end."""
_MAX_CHUNKS = 64


def drain(response: SyncResponse, chunks: Iterator[bytes]) -> None:
    """Reads what follows the part that the caller wanted, for at most `LINGER` seconds."""
    network = response.extensions.get("network_stream")
    connection = None if network is None else network.get_extra_info("socket")
    if connection is None or not _needs_drain(response):
        return
    with _watchdog.guard(connection), contextlib.suppress(DragomanError):
        for _ in islice(chunks, _MAX_CHUNKS):
            pass


async def drain_async(response: AsyncResponse, chunks: AsyncIterator[bytes]) -> None:
    """`let_end`, with await."""
    import asyncio

    if not _needs_drain(response):
        return
    with contextlib.suppress(TimeoutError, DragomanError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


def _needs_drain(response: RawResponse) -> bool:
    """Whether the connection is lost without it. HTTP/2 ends one stream and keeps its connection, which others use."""
    return not response.is_closed and response.extensions.get("http_version") != b"HTTP/2"


class ReadWatchdog:
    """Hangs up on connections whose end does not come, however long the client below would wait for it.

    A blocking read ends in time only if somebody else ends it. That is one thread for all of them, which lives no
    longer than there is something to wait for.
    """

    def __init__(self, timeout: float = DRAIN_SECONDS) -> None:
        self._timeout = timeout
        self._lock = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def guard(self, connection: socket.socket) -> Iterator[None]:
        """Whatever reads from the connection inside of the context ends in time. Behind it nobody touches it."""
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._timeout
            if self._thread is None or not self._thread.is_alive():  # a fork leaves the thread behind
                self._thread = threading.Thread(target=self._watch, name="dragoman-overdue", daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._deadlines.pop(connection, None)

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                for connection in [guarded for guarded, deadline in self._deadlines.items() if deadline <= now]:
                    _shut_down(connection)
                    del self._deadlines[connection]
                if not self._deadlines:
                    self._thread = None
                    return
                wait = min(self._deadlines.values()) - now
            time.sleep(wait)


def _shut_down(connection: socket.socket) -> None:
    # The method of the plain socket: that of a TLS socket would pull the TLS state from under the reading thread.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


_watchdog = ReadWatchdog()
