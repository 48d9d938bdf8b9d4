"""The connection pools of this process: one for each set of settings, origin and event loop, shared by all sessions.

A pool creates HTTP clients on demand, as many as the engine's client size requires, and lends them to calls. It holds
no key and no cookie; those belong to the request. A forked child starts without pools.
"""

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dragoman.adapter.errors import RequestTimeoutError
from dragoman.canonical.forks import ProcessLock, reset_after_fork
from dragoman.transport.call import PreparedRequest
from dragoman.transport.engines.engine import ConnectionSettings, Engine, SyncEngine
from dragoman.transport.engines.proxies import proxy_environment

if TYPE_CHECKING:
    import asyncio

    import httpx

    from dragoman.transport.engines.loop_pools import LoopPools

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


_MAX_GROUPS = 256
"""Sets of settings that are remembered. Beyond this number, those without connections are forgotten."""


class PoolGroup:
    """The pools of one set of settings."""

    def __init__(self, engine: Engine, settings: ConnectionSettings, max_connections: int) -> None:
        self._engine = engine
        self._settings = settings
        self._max_connections = max_connections
        self._pools: dict[Hashable, Pool[Any]] = {}
        self._loops: dict[asyncio.AbstractEventLoop, LoopPools] = {}
        self._lock = threading.Lock()
        self._inherited: list[Any] = []
        """A parent's pools, which a forked child keeps and never touches: their locks may be held forever."""
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start without pools: transports from before the fork go on with new connections."""
        self._inherited.append((self._pools, self._loops))
        self._pools, self._loops, self._lock = {}, {}, threading.Lock()

    def pool(self, request: PreparedRequest) -> Pool[Any]:
        """Return the pool for sync calls to the origin of a request."""
        origin = (request.url.scheme, request.server)
        pool = self._pools.get(origin)
        if pool is None:
            assert isinstance(self._engine, SyncEngine)
            with self._lock:
                pool = self._pools.setdefault(origin, self._new_pool(request.url, self._engine.client))
        if not _janitor.running:
            _janitor.start()
        return pool

    def loop_pools(self) -> "LoopPools | None":
        """Return the pools of the running event loop; None before its first call."""
        import asyncio

        return self._loops.get(asyncio.get_running_loop())

    async def add_loop(self) -> "LoopPools":
        """Return new pools for the running event loop, which closes them when it ends."""
        import asyncio

        from dragoman.transport.engines.loop_pools import LoopPools

        loop = asyncio.get_running_loop()
        pools = LoopPools(loop, self._new_async_pool)
        with self._lock:
            self._loops = {each: kept for each, kept in self._loops.items() if not each.is_closed()}
            self._loops[loop] = pools
        await pools.close_with_loop()
        return pools

    def close_idle(self, seconds: float) -> bool:
        """Close the sync clients that were not used for that time. Return whether any are left."""
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            for client in pool.remove_idle(seconds):
                client.close()
        return not all(pool.is_empty for pool in pools)

    async def close_idle_async(self, seconds: float) -> None:
        """Close the running event loop's clients that were not used for that time."""
        if (pools := self.loop_pools()) is not None:
            await pools.close_idle(seconds)

    @property
    def is_empty(self) -> bool:
        """Whether it has no clients."""
        return all(pool.is_empty for pool in self._pools.values()) and all(
            loop.is_closed() or pools.is_empty for loop, pools in self._loops.items()
        )

    def _new_pool(self, url: "httpx.URL", make_client: Callable[..., Any]) -> Pool[Any]:
        factory = partial(make_client, connection_settings=self._settings, url=url)
        return Pool(factory, self._max_connections, client_size=self._engine.client_size(self._settings))

    def _new_async_pool(self, url: "httpx.URL") -> Pool[Any]:
        return self._new_pool(url, self._engine.async_client)


class _Registry:
    """The groups of this process, by their settings."""

    def __init__(self) -> None:
        self._groups: dict[Hashable, PoolGroup] = {}
        self._lock = ProcessLock()

    def group(self, engine: Engine, settings: ConnectionSettings, max_connections: int) -> PoolGroup:
        key = (
            engine.name, settings, max_connections, proxy_environment() if settings.proxy is None else None,
        )  # fmt: skip
        group = self._groups.get(key)
        if group is None:
            with self._lock:
                if len(self._groups) >= _MAX_GROUPS:
                    self._groups = {each: kept for each, kept in self._groups.items() if not kept.is_empty}
                group = self._groups.setdefault(key, PoolGroup(engine, settings, max_connections))
        return group

    def groups(self) -> list[PoolGroup]:
        with self._lock:
            return list(self._groups.values())


class _Janitor:
    """Closes idle sync connections. Its thread exits when no connection is left."""

    def __init__(self) -> None:
        self.running = False
        self._lock = threading.Lock()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self.running, self._lock = False, threading.Lock()

    def start(self) -> None:
        with self._lock:
            if not self.running:
                self.running = True
                threading.Thread(target=self._work, name="dragoman-idle-connections", daemon=True).start()

    def _work(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            with self._lock:
                self.running = close_idle_connections(IDLE_SECONDS)
                if not self.running:
                    return


_registry = _Registry()
_janitor = _Janitor()


def shared_pools(engine: Engine, settings: ConnectionSettings, max_connections: int) -> PoolGroup:
    """Return the pools of these settings, which every transport with the same settings shares."""
    return _registry.group(engine, settings, max_connections)


def close_idle_connections(seconds: float = 0.0) -> bool:
    """Close the sync connections of this process that no call has used for that many seconds.

    Return whether any are left. Connections in use stay open. Later calls open new ones.
    """
    left = [group.close_idle(seconds) for group in _registry.groups()]
    return any(left)


async def close_idle_connections_async(seconds: float = 0.0) -> None:
    """As `close_idle_connections`, for the connections of the running event loop."""
    for group in _registry.groups():
        await group.close_idle_async(seconds)


atexit.register(close_idle_connections)
