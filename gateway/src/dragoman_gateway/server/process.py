"""The server of `dragoman serve`: uvicorn, with a graceful shutdown and a reload."""

import asyncio
import contextlib
import ctypes
import gc
import logging
import os
import platform
import signal
import time
from functools import partial
from socket import socket
from types import FrameType
from typing import Any

import uvicorn

from dragoman_gateway.log import logger
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.server.protocol import Connections

_YOUNG_OBJECTS, _YOUNG_SEARCHES, _NEVER = 10_000, 2, 2**31 - 1
"""New objects between two searches for cycles, and such searches between two among what outlived one. A search stops
all threads: these take a few milliseconds each, and one among all the objects of a request of 10,000 messages a
hundred."""
_SEARCHES_IF_IDLE, _SEARCHES_IF_BUSY = 15, 75
"""Searches after which all objects are looked at. Each leaves 30,000 old ones at most."""
_MMAP_THRESHOLD, _LARGE_BLOCK = -3, 4 * 1024 * 1024
_SAME_SIGNAL_SECONDS = 1.0
"""A signal may arrive twice: a terminal and systemd send it to each process of a group, and the first process passes it
on to its workers."""
_ORDER_TRIES, _ORDER_SECONDS = 10, 0.1
_UNFINISHED = "ASGI callable returned without completing response."
"""What uvicorn logs if a stream is broken off, which this gateway does on purpose."""


class Server(uvicorn.Server):
    """On the first signal to end, requests that have begun are answered, and new ones are sent elsewhere; a second
    signal ends at once. SIGHUP reads the configuration again."""

    def __init__(self, config: uvicorn.Config, *, head_seconds: float = 60.0, max_connections: int = 10_000) -> None:
        """``head_seconds`` is how long a connection may take to send the head of a request, and ``max_connections`` the
        most that are open, if the process may open twice as many files: requests need connections to providers.
        """
        super().__init__(config)
        self._head_seconds = head_seconds
        self._max_connections = max_connections
        self._signalled_at: float | None = None
        self._drains_until: float | None = None
        self._order: object = None
        """The order to reload that was followed last."""

    async def startup(self, sockets: list[socket] | None = None) -> None:
        most = min(self._max_connections, _allow_files() // 2)
        protocol: Any = self.config.http_protocol_class
        bounded: Any = partial(protocol, head_seconds=self._head_seconds, connections=Connections(most))
        self.config.http_protocol_class = bounded
        await super().startup(sockets)
        tune_memory()
        logging.getLogger("uvicorn.error").addFilter(lambda record: record.getMessage() != _UNFINISHED)
        if hasattr(signal, "SIGHUP"):
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._start_reload)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # one that came earlier has waited

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        now, earlier, gateways = time.monotonic(), self._signalled_at, list(Gateway.running)
        if earlier is not None and now < earlier + _SAME_SIGNAL_SECONDS:
            return
        self._signalled_at = now
        if earlier is not None or not gateways:
            self.force_exit, self.should_exit = earlier is not None, True
            return
        for gateway in gateways:
            gateway.drain()
        longest = max(gateway.current.settings.drain_seconds for gateway in gateways)
        self._drains_until = now + longest
        if any(gateway.in_flight for gateway in gateways):
            logger.warning("the gateway stops when its requests are answered, after %g s at the latest", longest)

    async def on_tick(self, counter: int) -> bool:
        is_busy = any(gateway.in_flight for gateway in Gateway.running)
        if self._drains_until is not None and (not is_busy or time.monotonic() > self._drains_until):
            self.should_exit = True
        collect_old_objects(is_busy=is_busy)
        return await super().on_tick(counter)

    def _start_reload(self) -> None:
        self._reload = asyncio.ensure_future(self._reload_all())

    async def _reload_all(self) -> None:
        """Reload, if the first process has ordered it. Otherwise ask it to order one: a signal to one worker counts for
        all."""
        for gateway in list(Gateway.running):
            if gateway.board is not None:
                for _ in range(_ORDER_TRIES):
                    if (number := gateway.board.ordered().get("number")) != self._order:
                        self._order = number
                        break
                    await asyncio.sleep(_ORDER_SECONDS)
                else:
                    os.kill(os.getppid(), signal.SIGHUP)
                    continue
            await gateway.reload()


def tune_memory() -> None:
    """Look for cycles less often, and never among what was loaded at the start: it took a third of the CPU of a
    request. Nearly all objects of a request end without the collector. Among old objects, only `collect_old_objects`
    looks for cycles.

    Give the memory of large bodies back when they end. The GNU C library would keep blocks of up to 32 MiB once it has
    freed one, in between those of other requests (mallopt(3), M_MMAP_THRESHOLD)."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_SEARCHES, _NEVER)
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)


def collect_old_objects(*, is_busy: bool) -> None:
    """Look for cycles among all objects, if there are many new ones: at a moment at which nobody waits for an answer,
    or if there is none for too long. Cycles of streams grow old before they end."""
    if gc.get_count()[2] >= (_SEARCHES_IF_BUSY if is_busy else _SEARCHES_IF_IDLE):
        gc.collect()


def _allow_files() -> int:
    """Let the process open as many files as the system permits, and return their number."""
    try:
        import resource
    except ImportError:  # Windows, which counts no connections among files
        return 2**31
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 2**31
    if hard != soft:
        with contextlib.suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**31 if soft == resource.RLIM_INFINITY else soft
