"""Creates HTTP clients on demand, as many as the engine's client size requires, and lends them to calls."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from dragoman.adapter.errors import RequestTimeoutError

if TYPE_CHECKING:
    import asyncio

ClientT = TypeVar("ClientT")

IDLE_SECONDS = 30.0
"""Seconds that an unused connection is kept."""


@dataclass(slots=True, eq=False)
class Slot(Generic[ClientT]):
    """One client and the calls that it serves. ``used_at`` is when the last of them ended, by the pool's clock."""

    client: ClientT
    size: int
    in_use: int = 0
    used_at: float = 0.0
    discarded: bool = False


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
        self._factory = factory
        self._unused = max_connections
        self._client_size = client_size or max_connections
        self._clock = clock
        self._free: list[Slot[ClientT]] = []
        """Slots with a free connection. Calls use the last one: its connections are open and warm."""
        self._size = 0
        self._cleaned_at = clock()
        self._waiters: deque[Future[Slot[ClientT]] | asyncio.Future[Slot[ClientT]]] = deque()
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

    @contextmanager
    def queue(self, waiter: "Future[Slot[ClientT]] | asyncio.Future[Slot[ClientT]]") -> Iterator[None]:
        """Give the waiter the next free slot, when all earlier waiters have one; wait for it inside the context.

        Whatever ends the waiting, no slot is lost. Raises RequestTimeoutError for a TimeoutError.
        """
        try:
            with self._lock:
                self._waiters.append(waiter)
                self._serve_waiters()
            yield
        except BaseException as error:
            with self._lock:
                if not waiter.cancel() and not waiter.cancelled():  # its slot arrived at this moment
                    self._give_back(waiter.result())
                    self._serve_waiters()
            if not isinstance(error, TimeoutError):
                raise
            late = RequestTimeoutError(
                "no connection became free in time: raise max_connections, or close streams sooner"
            )
            late.sent = False
            raise late from None

    def release(self, slot: Slot[ClientT], *, discard: bool = False) -> list[ClientT]:
        """End a call. Returns the clients to close now.

        These are a discarded one, after its last call, and those that a burst of calls left unused, because a client
        closes idle connections only while it serves.
        """
        with self._lock:
            slot.used_at = self._clock()
            if discard and not slot.discarded:
                slot.discarded = True
                self._size -= 1
                self._unused += slot.size
                if slot in self._free:
                    self._free.remove(slot)
            self._give_back(slot)
            if self._waiters:
                self._serve_waiters()
            closing = [slot.client] if slot.discarded and not slot.in_use else []
            if slot.used_at - self._cleaned_at >= IDLE_SECONDS:
                closing += self.remove_idle(IDLE_SECONDS)
            return closing

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
            waiter = self._waiters.popleft()
            if waiter.cancelled():
                self._give_back(slot)
            else:
                waiter.set_result(slot)


def wait_for_slot(pool: Pool[ClientT], seconds: float | None) -> Slot[ClientT]:
    """Return a client of a pool that had no free connection a moment ago. Raises RequestTimeoutError if none becomes
    free in these seconds."""
    waiter: Future[Slot[ClientT]] = Future()
    with pool.queue(waiter):
        return waiter.result(seconds)
