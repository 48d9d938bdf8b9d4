"""Serves an application on a port of 127.0.0.1, in a thread with an event loop of its own."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    """Ends when it is asked to. Uvicorn's own looks ten times a second whether it is, and hundreds of tests would wait
    for that.
    """

    _ended: asyncio.Event | None = None
    _loop: asyncio.AbstractEventLoop

    async def main_loop(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        if not await self.on_tick(0):
            await self._ended.wait()
        for _ in range(10):  # a connection that has just been accepted is one of the server's first, and is closed then
            await asyncio.sleep(0.001)

    def end(self) -> None:
        self.should_exit = True
        if self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)


@contextmanager
def serving(app: Any, **settings: Any) -> Iterator[str]:
    """Yield the address of the application, such as ``http://127.0.0.1:41234``."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each reply would take 40 ms more
    # As `dragoman serve` does. Uvicorn's own five seconds end between two requests of a test on a busy machine.
    settings = {"timeout_keep_alive": 75, **settings}
    server = _Server(
        uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="on", loop="asyncio", ws="none", **settings
        )
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.end()
        thread.join(60)
        listener.close()
