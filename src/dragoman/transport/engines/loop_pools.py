"""The connection pools of one event loop: its idle connections are closed, and all of them when the loop ends."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Hashable
from typing import TYPE_CHECKING, Any

from dragoman.transport.call import PreparedRequest
from dragoman.transport.engines.pool import IDLE_SECONDS, ClientT, Pool, Slot

if TYPE_CHECKING:
    import httpx


class LoopPools:
    """One pool for each origin; ``new_pool`` makes the pool for an address."""

    def __init__(self, loop: asyncio.AbstractEventLoop, new_pool: "Callable[[httpx.URL], Pool[Any]]") -> None:
        self._loop = loop
        self._new_pool = new_pool
        self._pools: dict[Hashable, Pool[Any]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._end = self._close_at_end()

    @property
    def is_empty(self) -> bool:
        return all(pool.is_empty for pool in self._pools.values())

    def pool(self, request: PreparedRequest) -> Pool[Any]:
        """Return the pool for calls to the origin of a request."""
        origin = (request.url.scheme, request.server)
        pool = self._pools.get(origin)
        if pool is None:
            pool = self._pools[origin] = self._new_pool(request.url)
        if self._timer is None:
            self._close_idle_later()
        return pool

    async def close_with_loop(self) -> None:
        """Make the event loop close all connections when it shuts down.

        `asyncio.run` and its kin close every suspended async generator before they close the loop.
        """
        await anext(self._end)

    async def close_idle(self, seconds: float) -> None:
        """Close the clients that were not used for that time."""
        for pool in list(self._pools.values()):
            for client in pool.remove_idle(seconds):
                with contextlib.suppress(Exception):  # a connection that cannot be closed is gone already
                    await client.aclose()

    def close_later(self, client: Any) -> None:
        """Close a client in a task of its own."""
        task = self._loop.create_task(client.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @staticmethod
    async def wait_for_slot(pool: Pool[ClientT], seconds: float | None) -> Slot[ClientT]:
        """Return a client of a pool that had no free connection a moment ago. Raises RequestTimeoutError if none
        becomes free in these seconds."""
        waiter: asyncio.Future[Slot[ClientT]] = asyncio.get_running_loop().create_future()
        with pool.queue(waiter):
            async with asyncio.timeout(seconds):
                return await waiter

    def _close_idle_later(self) -> None:
        self._timer = self._loop.call_later(IDLE_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        for pool in self._pools.values():
            for client in pool.remove_idle(IDLE_SECONDS):
                self.close_later(client)
        if not self.is_empty:
            self._close_idle_later()

    async def _close_at_end(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self.close_idle(0.0)
            for task in list(self._closing):
                await task
