"""The connection pools of this process: one for each set of settings, origin and event loop, shared by all sessions.

A pool holds no key and no cookie; those belong to the request. A forked child starts without pools.
"""

import atexit
import threading
import time
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman.canonical.forks import ProcessLock, reset_after_fork
from dragoman.transport.call import PreparedRequest
from dragoman.transport.engines.engine import Client, ConnectionSettings, Engine, proxy_environment
from dragoman.transport.engines.pool import IDLE_SECONDS, Pool

if TYPE_CHECKING:
    import asyncio

    import httpx

    from dragoman.transport.engines.loop_pools import LoopPools

_MAX_GROUPS = 256
"""Sets of settings that are remembered. Beyond this number, those without connections are forgotten."""


class PoolGroup:
    """The pools of one set of settings."""

    def __init__(self, engine: Engine, settings: ConnectionSettings, max_connections: int) -> None:
        self._engine = engine
        self._settings = settings
        self._max_connections = max_connections
        self.pools: dict[Hashable, Pool[Any]] = {}
        """Those for sync calls, by scheme and server."""
        self._loops: dict[asyncio.AbstractEventLoop, LoopPools] = {}
        self._lock = threading.Lock()
        self._inherited: list[Any] = []
        """A parent's pools, which a forked child keeps and never touches: their locks may be held forever."""
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Start without pools: transports from before the fork go on with new connections."""
        self._inherited.append((self.pools, self._loops))
        self.pools, self._loops, self._lock = {}, {}, threading.Lock()

    def add_pool(self, request: PreparedRequest) -> Pool[Any]:
        """Return a new pool for sync calls to the origin of a request, or the one that another thread has added."""
        with self._lock:
            pool = self._new_pool(request.url, self._new_client)
            return self.pools.setdefault((request.url.scheme, request.server), pool)

    def loop_pools(self) -> "LoopPools | None":
        """Return the pools of the running event loop; None before its first call."""
        import asyncio

        return self._loops.get(asyncio.get_running_loop())

    async def add_loop(self) -> "LoopPools":
        """Return new pools for the running event loop, which closes them when it ends."""
        import asyncio

        from dragoman.transport.engines.loop_pools import LoopPools

        loop = asyncio.get_running_loop()
        pools = LoopPools(loop, partial(self._new_pool, make_client=self._engine.async_client))
        with self._lock:
            self._loops = {each: kept for each, kept in self._loops.items() if not each.is_closed()}
            self._loops[loop] = pools
        await pools.close_with_loop()
        return pools

    def close_idle(self, seconds: float) -> bool:
        """Close the sync clients that were not used for that time. Return whether any are left."""
        with self._lock:
            pools = list(self.pools.values())
        for pool in pools:
            for client in pool.remove_idle(seconds):
                client.close()
        return not all(pool.is_empty for pool in pools)

    @property
    def is_empty(self) -> bool:
        """Whether it has no clients."""
        return all(pool.is_empty for pool in self.pools.values()) and all(
            loop.is_closed() or pools.is_empty for loop, pools in self._loops.items()
        )

    def _new_pool(self, url: "httpx.URL", make_client: Callable[..., Any]) -> Pool[Any]:
        factory = partial(make_client, connection_settings=self._settings, url=url)
        return Pool(factory, self._max_connections, client_size=self._engine.client_size(self._settings))

    def _new_client(self, size: int, **settings: Any) -> Client:
        _janitor.start()
        return self._engine.client(size, **settings)


class _Janitor:
    """Closes idle sync connections. Its thread exits when no connection is left."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        self.running, self._is_needed, self._lock = False, False, threading.Lock()

    def start(self) -> None:
        """Look after a client that a pool is about to open. The pool's lock is held."""
        with self._lock:
            self._is_needed = True
            if not self.running:
                self.running = True
                threading.Thread(target=self._work, name="dragoman-idle-connections", daemon=True).start()

    def _work(self) -> None:
        while True:
            time.sleep(IDLE_SECONDS)
            self._is_needed = False
            if close_idle_connections(IDLE_SECONDS):  # outside the lock: it takes those of the pools
                continue
            with self._lock:
                if not self._is_needed:  # no client was opened meanwhile
                    self.running = False
                    return


_janitor = _Janitor()
_groups: dict[Hashable, PoolGroup] = {}
_lock = ProcessLock()


def shared_pools(engine: Engine, settings: ConnectionSettings, max_connections: int) -> PoolGroup:
    """Return the pools of these settings, which every transport with the same settings shares."""
    key = (
        engine.name, settings, max_connections, proxy_environment() if settings.proxy is None else None,
    )  # fmt: skip
    group = _groups.get(key)
    if group is None:
        with _lock:
            if len(_groups) >= _MAX_GROUPS:
                for each in [each for each, kept in _groups.items() if kept.is_empty]:
                    del _groups[each]
            group = _groups.setdefault(key, PoolGroup(engine, settings, max_connections))
    return group


def _all_groups() -> list[PoolGroup]:
    with _lock:
        return list(_groups.values())


def close_idle_connections(seconds: float = 0.0) -> bool:
    """Close the sync connections of this process that no call has used for that many seconds.

    Return whether any are left. Connections in use stay open. Later calls open new ones.
    """
    left = [group.close_idle(seconds) for group in _all_groups()]
    return any(left)


async def close_idle_connections_async(seconds: float = 0.0) -> None:
    """As `close_idle_connections`, for the connections of the running event loop."""
    for group in _all_groups():
        if (pools := group.loop_pools()) is not None:
            await pools.close_idle(seconds)


atexit.register(close_idle_connections)
