"""Which client a call gets, and when a client is closed."""

import pytest

from dragoman.transport.engines.pool import IDLE_SECONDS, Pool

CLIENT_SIZE = 2


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def make_pool(max_connections: int, *, owned: bool = True) -> tuple[Pool[str], list[int], Clock]:
    """A pool whose clients are numbered names, the sizes that it requested, and its clock."""
    sizes: list[int] = []
    clock = Clock()

    def factory(size: int) -> str:
        sizes.append(size)
        return f"client {len(sizes)}"

    return Pool(factory, max_connections, client_size=CLIENT_SIZE, owned=owned, clock=clock), sizes, clock


def test_clients_are_made_when_they_are_needed() -> None:
    """None exists before the first call, and calls in sequence share one client."""
    pool, sizes, _ = make_pool(100)
    assert sizes == []
    for _ in range(10):
        pool.release(pool.acquire())
    assert sizes == [CLIENT_SIZE]


def test_calls_fill_one_client_after_the_other() -> None:
    """Each client gets as many calls as it has connections; free connections are used before new clients."""
    pool, sizes, _ = make_pool(100)
    slots = [pool.acquire() for _ in range(3 * CLIENT_SIZE)]
    assert [slot.client for slot in slots] == [f"client {1 + n // CLIENT_SIZE}" for n in range(3 * CLIENT_SIZE)]
    pool.release(slots[0])
    assert pool.acquire() is slots[0]
    assert len(sizes) == 3


def test_the_sizes_add_up_to_the_limit() -> None:
    """No more connections than allowed, also for an odd limit; further calls wait at the least busy client."""
    pool, sizes, _ = make_pool(CLIENT_SIZE * 2 + 1)
    slots = [pool.acquire() for _ in range(30)]
    assert sum(sizes) == CLIENT_SIZE * 2 + 1
    assert max(slot.in_use for slot in slots) - min(slot.in_use for slot in slots) <= 1


def test_a_discarded_client_ends_with_its_last_call() -> None:
    """It gets no new calls, serves those it has, and is returned for closing once."""
    pool, _, _ = make_pool(100)
    first, second = pool.acquire(), pool.acquire()
    assert first is second
    assert pool.release(first, discard=True) == []
    other = pool.acquire()
    assert other.client == "client 2"
    assert pool.release(second) == ["client 1"]
    assert pool.release(other) == []


def test_idle_clients_of_a_burst_are_closed() -> None:
    """Clients without calls for the idle time are returned at the end of a later call; a busy one stays."""
    pool, _, clock = make_pool(100)
    burst = [pool.acquire() for _ in range(4 * CLIENT_SIZE)]
    for slot in burst:
        assert pool.release(slot) == []
    clock.now = IDLE_SECONDS - 1
    assert pool.release(pool.acquire()) == []
    clock.now = IDLE_SECONDS
    assert pool.release(pool.acquire()) == ["client 2", "client 3", "client 4"]
    assert pool.clear() == ["client 1"]


def test_a_callers_client_is_never_closed() -> None:
    """A borrowed client is not returned for closing."""
    pool, _, clock = make_pool(100, owned=False)
    clock.now = 1000
    assert pool.release(pool.acquire(), discard=True) == []
    pool.acquire()
    assert pool.clear() == []


def test_there_is_at_least_one_connection() -> None:
    """A limit of zero is an error."""
    with pytest.raises(ValueError, match="at least 1"):
        make_pool(0)
