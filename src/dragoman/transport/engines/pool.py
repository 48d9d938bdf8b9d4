"""Creates HTTP clients on demand, as many as the engine's client size requires, and lends them to calls."""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from dragoman.adapter.errors import RequestTimeoutError

ClientT = TypeVar("ClientT")

IDLE_SECONDS = 30.0
"""Seconds that an unused connection is kept."""


class Slot(Generic[ClientT]):
    """One client and the calls that it serves. ``used_at`` is when the last of them ended, by the pool's clock."""

    __slots__ = ("client", "discarded", "in_use", "size", "used_at")

    def __init__(self, client: ClientT, size: int) -> None:
        self.client = client
        self.size = size
        self.in_use = 0
        self.used_at = 0.0
        self.discarded = False


class Waiter(Protocol[ClientT]):
    """A call that waits for a connection."""

    def offer(self, slot: Slot[ClientT]) -> bool:
        """Give the call a slot. Return False if the call does not wait any more."""


class Pool(Generic[ClientT]):
    """Lends clients to calls; calls that wait for a connection are served in order. Thread-safe.

    The factory gets the number of connections of its client. ``client_size`` is the maximum of connections per client;
    None means all of the pool's.
    """

    def __init__(
        self,
        factory: Callable[[int], ClientT],
        max_connections: int,
        *,
        client_size: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_connections < 1:
            raise ValueError("max_connections must be at least 1")
        self._factory = factory
        self._unused = max_connections
        self._client_size = client_size or max_connections
        self._clock = clock
        self._free: list[Slot[ClientT]] = []
        """Slots with a free connection. Calls use the last one: its connections are open and warm."""
        self._size = 0
        self._cleaned_at = clock()
        self._waiters: deque[Waiter[ClientT]] = deque()
        self._lock = threading.RLock()

    @property
    def is_empty(self) -> bool:
        """Whether it has no client."""
        return self._size == 0

    def take(self) -> Slot[ClientT] | None:
        """Return a client for one call, or None if all connections are in use."""
        with self._lock:
            if self._free:
                slot = self._free[-1]
            elif self._unused:
                size = min(self._client_size, self._unused)
                slot = Slot(self._factory(size), size)
                self._unused -= size
                self._size += 1
                self._free.append(slot)
            else:
                return None
            slot.in_use += 1
            if slot.in_use == slot.size:
                self._free.pop()
            return slot

    def enqueue(self, waiter: Waiter[ClientT]) -> None:
        """Offer the waiter the next free slot, when all earlier waiters have one."""
        with self._lock:
            slot = self.take()
            if slot is None:
                self._waiters.append(waiter)
            elif not waiter.offer(slot):
                self._give_back(slot)

    def release(self, slot: Slot[ClientT], *, discard: bool = False) -> list[ClientT]:
        """End a call. Returns the clients to close now.

        These are a discarded one, after its last call, and those that a burst of calls left unused, because a client
        closes idle connections only while it serves.
        """
        with self._lock:
            slot.used_at = self._clock()
            if discard and not slot.discarded:
                self._discard(slot)
            self._give_back(slot)
            if self._waiters:
                self._serve_waiters()
            closing = [slot.client] if slot.discarded and not slot.in_use else []
            if slot.used_at - self._cleaned_at >= IDLE_SECONDS:
                closing += self.remove_idle(IDLE_SECONDS)
            return closing

    def put_back(self, slot: Slot[ClientT]) -> None:
        """Return a slot that no call has used."""
        with self._lock:
            self._give_back(slot)
            self._serve_waiters()

    def remove_idle(self, seconds: float) -> list[ClientT]:
        """Remove the clients that no call has used for that time, and return them for closing."""
        with self._lock:
            self._cleaned_at = self._clock()
            before = self._cleaned_at - seconds
            idle = [slot for slot in self._free if not slot.in_use and slot.used_at <= before]
            if idle:
                self._free = [slot for slot in self._free if slot not in idle]
                self._size -= len(idle)
                self._unused += sum(slot.size for slot in idle)
            return [slot.client for slot in idle]

    def _give_back(self, slot: Slot[ClientT]) -> None:
        if slot.in_use == slot.size and not slot.discarded:
            self._free.append(slot)
        slot.in_use -= 1

    def _serve_waiters(self) -> None:
        while self._waiters and (slot := self.take()) is not None:
            if not self._waiters.popleft().offer(slot):
                self._give_back(slot)

    def _discard(self, slot: Slot[ClientT]) -> None:
        slot.discarded = True
        self._size -= 1
        self._unused += slot.size
        if slot in self._free:
            self._free.remove(slot)


class _ThreadWaiter(Generic[ClientT]):
    """A thread that waits for a connection."""

    def __init__(self) -> None:
        self._arrived = threading.Event()
        self._lock = threading.Lock()
        self._slot: Slot[ClientT] | None = None
        self._gone = False

    def offer(self, slot: Slot[ClientT]) -> bool:
        with self._lock:
            if self._gone:
                return False
            self._slot = slot
        self._arrived.set()
        return True

    def wait(self, seconds: float | None) -> Slot[ClientT] | None:
        self._arrived.wait(seconds)
        with self._lock:
            self._gone = True
            return self._slot


def all_in_use() -> RequestTimeoutError:
    """Return the error of a call that found no free connection in its time."""
    error = RequestTimeoutError("no connection became free in time: raise max_connections, or close streams sooner")
    error.sent = False
    return error


def wait_for_slot(pool: Pool[ClientT], seconds: float | None) -> Slot[ClientT]:
    """Return a client of a pool that had no free connection a moment ago. Raises RequestTimeoutError if none becomes
    free in these seconds."""
    waiter: _ThreadWaiter[ClientT] = _ThreadWaiter()
    pool.enqueue(waiter)
    slot = waiter.wait(seconds)
    if slot is None:
        raise all_in_use()
    return slot
