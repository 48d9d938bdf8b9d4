"""Which client a call gets, and when a client is closed."""

import asyncio
import threading
from concurrent.futures import Future

import pytest

from dragoman.adapter.errors import RequestTimeoutError
from dragoman.transport.engines.loop_pools import LoopPools
from dragoman.transport.engines.pool import IDLE_SECONDS, Pool, Slot, wait_for_slot

CLIENT_SIZE = 2


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def acquire(pool: Pool[str], seconds: float | None) -> Slot[str]:
    """Take a free client, or wait for one, as the sync transport does."""
    return pool.take() or wait_for_slot(pool, seconds)


async def acquire_async(pool: Pool[str], seconds: float | None) -> Slot[str]:
    """As the async transport does."""
    return pool.take() or await LoopPools.wait_for_slot(pool, seconds)


def make_pool(max_connections: int) -> tuple[Pool[str], list[int], Clock]:
    """A pool whose clients are numbered names, the sizes that it requested, and its clock."""
    sizes: list[int] = []
    clock = Clock()

    def factory(size: int) -> str:
        sizes.append(size)
        return f"client {len(sizes)}"

    return Pool(factory, max_connections, client_size=CLIENT_SIZE, clock=clock), sizes, clock


def test_clients_are_made_when_they_are_needed() -> None:
    """None exists before the first call, and calls in sequence share one client."""
    pool, sizes, _ = make_pool(100)
    assert sizes == []
    for _ in range(10):
        pool.release(acquire(pool, None))
    assert sizes == [CLIENT_SIZE]


def test_calls_fill_one_client_after_the_other() -> None:
    """Each client gets as many calls as it has connections; free connections are used before new clients."""
    pool, sizes, _ = make_pool(100)
    slots = [acquire(pool, None) for _ in range(3 * CLIENT_SIZE)]
    assert [slot.client for slot in slots] == [f"client {1 + n // CLIENT_SIZE}" for n in range(3 * CLIENT_SIZE)]
    pool.release(slots[0])
    assert acquire(pool, None) is slots[0]
    assert len(sizes) == 3


def test_the_sizes_add_up_to_the_limit() -> None:
    """No more connections than allowed, also for an odd limit; then there is none to lend."""
    pool, sizes, _ = make_pool(CLIENT_SIZE * 2 + 1)
    slots = [acquire(pool, None) for _ in range(CLIENT_SIZE * 2 + 1)]
    assert sum(sizes) == CLIENT_SIZE * 2 + 1
    assert max(slot.in_use for slot in slots) == CLIENT_SIZE
    assert pool.take() is None


def test_waiting_calls_are_served_in_order() -> None:
    """Each freed connection goes to the call that has waited longest, past those that have gone away."""
    pool, _, _ = make_pool(1)
    slot = acquire(pool, None)
    first, gone, second = Future[Slot[str]](), Future[Slot[str]](), Future[Slot[str]]()
    with pool.queue(first), pool.queue(gone), pool.queue(second):
        gone.cancel()
        pool.release(slot)
        assert (first.result(0), second.done()) == (slot, False)
        pool.release(slot)
        assert second.result(0) is slot
    pool.release(slot)
    assert pool.take() is slot


@pytest.mark.parametrize("is_late", [False, True])
def test_an_interrupted_wait_loses_no_connection(is_late: bool) -> None:
    """Ctrl-C ends the wait of a thread: a connection that it has got in that moment, or gets later, is for others."""
    pool, _, _ = make_pool(1)
    slot = acquire(pool, None)

    def interrupt() -> None:
        with pool.queue(Future()):
            if is_late:
                pool.release(slot)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    if not is_late:
        pool.release(slot)
    assert acquire(pool, 0.01) is slot


def test_a_wait_for_a_connection_ends_in_time() -> None:
    """The error says what to raise, and the connection is not lost to the call that has gone."""
    pool, _, _ = make_pool(1)
    slot = acquire(pool, None)
    with pytest.raises(RequestTimeoutError, match="raise max_connections"):
        acquire(pool, 0.01)
    pool.release(slot)
    assert acquire(pool, 0.01) is slot


def test_threads_share_one_connection() -> None:
    """Many threads through one connection: each gets its turn, and never two at once."""
    pool, sizes, _ = make_pool(1)
    busy, most, done = 0, 0, 0
    lock = threading.Lock()

    def call() -> None:
        nonlocal busy, most, done
        for _ in range(20):
            slot = acquire(pool, 30)
            with lock:
                busy += 1
                most = max(most, busy)
            with lock:
                busy, done = busy - 1, done + 1
            pool.release(slot)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done, sizes) == (1, 160, [1])


def test_tasks_wait_in_order_and_may_be_cancelled() -> None:
    """A cancelled task loses its place; one that is cancelled with a connection in its hand gives it on."""

    async def main() -> None:
        pool, _, _ = make_pool(1)
        slot = await acquire_async(pool, None)
        first, second, third = (asyncio.create_task(acquire_async(pool, None)) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        pool.release(slot)
        second.cancel()  # It has the connection, and has not run since.
        assert await third is slot
        assert second.cancelled()
        with pytest.raises(RequestTimeoutError, match="raise max_connections"):
            await acquire_async(pool, 0.01)

    asyncio.run(main())


def test_a_discarded_client_ends_with_its_last_call() -> None:
    """It gets no new calls, serves those it has, and is returned for closing once."""
    pool, _, _ = make_pool(100)
    first, second = acquire(pool, None), acquire(pool, None)
    assert first is second
    assert pool.release(first, discard=True) == []
    other = acquire(pool, None)
    assert other.client == "client 2"
    assert pool.release(second) == ["client 1"]
    assert pool.release(other) == []


def test_idle_clients_of_a_burst_are_closed() -> None:
    """Clients without calls for the idle time are returned at the end of a later call; a busy one stays."""
    pool, _, clock = make_pool(100)
    burst = [acquire(pool, None) for _ in range(4 * CLIENT_SIZE)]
    for slot in burst:
        assert pool.release(slot) == []
    clock.now = IDLE_SECONDS - 1
    assert pool.release(acquire(pool, None)) == []
    clock.now = IDLE_SECONDS
    assert pool.release(acquire(pool, None)) == ["client 1", "client 2", "client 3"]
    assert pool.remove_idle(0) == ["client 4"]
    assert pool.is_empty
