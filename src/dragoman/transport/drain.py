"""Drains an abandoned stream so that its connection can be reused.

A provider ends its stream right after the last event. If the connection is released before this end, it cannot be
reused, and the next request must open a new one. Streams that end with an exception are not drained.
"""

import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from itertools import islice

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.forks import reset_after_fork
from dragoman.transport.call import AsyncResponse, RawResponse, SyncResponse

DRAIN_SECONDS = 0.2
"""How long an abandoned stream may take to end, in seconds."""
_MAX_CHUNKS = 64


def drain(response: SyncResponse, chunks: Iterator[bytes]) -> None:
    """Read the rest of the stream, for at most `DRAIN_SECONDS`."""
    network = response.extensions.get("network_stream")
    connection = None if network is None else network.get_extra_info("socket")
    if connection is None or not _needs_drain(response):
        return
    with _watchdog.guard(connection), contextlib.suppress(DragomanError):
        for _ in islice(chunks, _MAX_CHUNKS):
            pass


async def drain_async(response: AsyncResponse, chunks: AsyncIterator[bytes]) -> None:
    """The async twin of `drain`."""
    import asyncio

    if not _needs_drain(response):
        return
    with contextlib.suppress(TimeoutError, DragomanError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass


def _needs_drain(response: RawResponse) -> bool:
    """Whether the connection would be lost otherwise. HTTP/2 ends one stream and keeps the shared connection."""
    return not response.is_closed and response.extensions.get("http_version") != b"HTTP/2"


class ReadWatchdog:
    """Shuts down connections that do not end in time, whatever the client's own time limit.

    Only another thread can end a blocking read. One thread serves all connections, and exits when there are none.
    """

    def __init__(self, timeout: float = DRAIN_SECONDS) -> None:
        self._timeout = timeout
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start without a thread and without connections: a child process has none of its parent's."""
        self._lock = threading.Lock()
        self._deadlines: dict[socket.socket, float] = {}
        self._thread: threading.Thread | None = None

    @contextlib.contextmanager
    def guard(self, connection: socket.socket) -> Iterator[None]:
        """Limit how long a read may block inside the context. The connection is not touched after the context ends."""
        with self._lock:
            self._deadlines[connection] = time.monotonic() + self._timeout
            if self._thread is None:
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
                    shut_down(connection)
                    del self._deadlines[connection]
                if not self._deadlines:
                    self._thread = None
                    return
                wait = min(self._deadlines.values()) - now
            time.sleep(wait)


def shut_down(connection: socket.socket) -> None:
    """End all reads of a connection, in any thread."""
    # Calls the plain socket's method: a TLS socket's would remove the TLS state that the reading thread uses.
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


_watchdog = ReadWatchdog()
