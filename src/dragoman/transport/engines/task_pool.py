"""The async twin of `dragoman.transport.engines.pool.acquire`, apart because sync programs do not import asyncio."""

import asyncio
from typing import Generic

from dragoman.transport.engines.pool import ClientT, Pool, Slot, all_in_use


class _TaskWaiter(Generic[ClientT]):
    """A task that waits for a connection. Its pool belongs to the event loop of the task."""

    def __init__(self) -> None:
        self.future: asyncio.Future[Slot[ClientT]] = asyncio.get_running_loop().create_future()

    def offer(self, slot: Slot[ClientT]) -> bool:
        if self.future.done():
            return False
        self.future.set_result(slot)
        return True


async def acquire_async(pool: Pool[ClientT], seconds: float | None) -> Slot[ClientT]:
    """Return a client for one call. Raises RequestTimeoutError if no connection becomes free in these seconds."""
    return pool.take() or await wait_for_slot(pool, seconds)


async def wait_for_slot(pool: Pool[ClientT], seconds: float | None) -> Slot[ClientT]:
    """As `acquire_async`, for a pool that had no free connection a moment ago."""
    waiter: _TaskWaiter[ClientT] = _TaskWaiter()
    pool.enqueue(waiter)
    try:
        async with asyncio.timeout(seconds):
            return await waiter.future
    except BaseException as error:
        # The task can be cancelled between receiving its slot and running again.
        if waiter.future.done() and not waiter.future.cancelled():
            pool.put_back(waiter.future.result())
        waiter.future.cancel()
        if isinstance(error, TimeoutError):
            raise all_in_use() from None
        raise
