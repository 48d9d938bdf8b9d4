"""Creates HTTP clients on demand, as many as the engine's client size requires."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

ClientT = TypeVar("ClientT")

IDLE_SECONDS = 30.0
"""Seconds that an unused connection is kept."""


class Slot(Generic[ClientT]):
    """One client and the calls that it serves. ``used_at`` is when the last of them ended, by the pool's clock."""

    __slots__ = ("client", "in_use", "size", "used_at")

    def __init__(self, client: ClientT, size: int) -> None:
        self.client = client
        self.size = size
        self.in_use = 0
        self.used_at = 0.0


class Pool(Generic[ClientT]):
    """Lends clients to calls. Thread-safe.

    The factory gets the number of connections of its client. ``client_size`` is the maximum of connections per client;
    None means all of the pool's. ``owned``: whether the pool closes the clients; a caller's own client is never
    returned for closing.
    """

    def __init__(
        self,
        factory: Callable[[int], ClientT],
        max_connections: int,
        *,
        client_size: int | None,
        owned: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_connections < 1:
            raise ValueError("max_connections must be at least 1")
        self._factory = factory
        self._max = max_connections
        self._client_size = client_size or max_connections
        self._owned = owned
        self._clock = clock
        self._slots: list[Slot[ClientT]] = []
        self._cleaned_at = clock()
        self._lock = threading.Lock()

    def acquire(self) -> Slot[ClientT]:
        """Return a client for one call. If all connections are in use, the call waits at the least busy client."""
        with self._lock:
            # The first client with a free connection, not the least busy one: its connections are open and warm.
            slot = next((slot for slot in self._slots if slot.in_use < slot.size), None)
            if slot is None:
                available = self._max - sum(slot.size for slot in self._slots)
                if available > 0:
                    size = min(self._client_size, available)
                    slot = Slot(self._factory(size), size)
                    self._slots.append(slot)
                else:
                    slot = min(self._slots, key=lambda slot: slot.in_use)
            slot.in_use += 1
            return slot

    def release(self, slot: Slot[ClientT], *, discard: bool = False) -> list[ClientT]:
        """End a call. Returns the clients to close now.

        These are a discarded one, after its last call, and those that a burst of calls left unused, because a client
        closes idle connections only while it serves.
        """
        with self._lock:
            slot.in_use -= 1
            slot.used_at = self._clock()
            if discard and slot in self._slots:
                self._slots.remove(slot)
            closing = [] if slot.in_use or slot in self._slots else [slot]
            closing += self._remove_idle(slot.used_at)
            return [slot.client for slot in closing] if self._owned else []

    def clear(self) -> list[ClientT]:
        """Return all clients, for closing; the pool is empty after this."""
        with self._lock:
            slots, self._slots = self._slots, []
        return [slot.client for slot in slots] if self._owned else []

    def _remove_idle(self, now: float) -> list[Slot[ClientT]]:
        if now - self._cleaned_at < IDLE_SECONDS:
            return []
        self._cleaned_at = now
        unused = [slot for slot in self._slots if not slot.in_use and now - slot.used_at >= IDLE_SECONDS]
        self._slots = [slot for slot in self._slots if slot not in unused]
        return unused
