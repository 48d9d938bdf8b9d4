"""A call that is cancelled before its connection is ready leaves nothing open."""

import asyncio
import gc
import socket
import threading

import pytest

from tests.unit.transport.connections.drain_time import PATIENCE
from tests.unit.transport.connections.slow_servers import SlowServer
from tests.unit.transport.drivers import ADAPTER, AIOHTTP, DRIVERS, HTTPX2, PLAIN_REQUEST, AsyncDriver

ASYNC_DRIVERS = [DRIVERS[1], AIOHTTP, HTTPX2[1]]


class SilentServer(SlowServer):
    """Accepts, never answers the TLS handshake, and notices when the client has gone."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.begun, self.left = threading.Event(), threading.Event()

    def _wait(self, connection: socket.socket, ended: threading.Event) -> None:
        while connection.recv(65536):
            self.begun.set()
        self.left.set()


@pytest.mark.usefixtures("quick_gc")
@pytest.mark.parametrize("driver", ASYNC_DRIVERS, ids=lambda driver: driver.name)
def test_a_cancelled_handshake_leaves_no_connection(driver: AsyncDriver) -> None:
    """The server sees the end at once, not when the garbage collector comes by."""

    async def main() -> None:
        transport = driver.transport(base_url=f"https://127.0.0.1:{server.port}")
        task = asyncio.create_task(transport.send(ADAPTER, PLAIN_REQUEST))
        assert await asyncio.to_thread(server.begun.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(server.left.wait, PATIENCE)

    gc.disable()
    try:
        with SilentServer() as server:
            asyncio.run(main())
    finally:
        gc.enable()
