"""Streams that are cancelled at random moments: no task, connection or file descriptor is left."""

import asyncio
import contextlib
import gc
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from dragoman import AsyncSession
from dragoman.errors import DragomanError
from dragoman.testing.faults.server import RESET, STALL, FaultyServer, HttpReply, Pause, ReceivedRequest, sse_reply

MODEL = "anthropic:claude-opus-5-5"
ENGINES = ("httpx", "httpx2", "aiohttp")
_FDS = Path("/proc/self/fd")
_PARALLEL = 20
_LONGEST = 0.06
"""Seconds until the latest cancellation. Some streams end before it."""
_PATIENCE = 60.0
"""Seconds that a busy machine may need until nothing is left; nothing else waits so long."""
_DELTA = (
    b'data: {"type":"message_start","message":{"id":"m","model":"m","role":"assistant","content":[]}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
    b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}\n\n'
)


@dataclass(frozen=True)
class Leftovers:
    """What an engine left behind. ``finished`` streams ended before they were cancelled. ``descriptors`` is None if the
    system does not list them.
    """

    engine: str
    cancelled: int
    finished: int
    tasks: int
    connections: int
    descriptors: int | None

    @property
    def enough(self) -> bool:
        """Nothing is left. Descriptors of what ran before may be closed meanwhile."""
        return self.cancelled > 0 and not (self.tasks or self.connections) and (self.descriptors or 0) <= 0


def _script(request: ReceivedRequest) -> HttpReply:
    """Different faults, by the number of the connection."""
    steps = (_DELTA, Pause(0.001), b": ping\n\n", Pause(0.002))
    match request.connection % 4:
        case 0:
            return sse_reply(*steps, STALL)
        case 1:
            return HttpReply(before=STALL)
        case 2:
            return sse_reply(*steps, RESET)
        case _:
            return sse_reply(*steps * 3)


async def _cancel_many(url: str, engine: str, count: int, picker: random.Random) -> tuple[int, int, int]:
    settings = {"api_key": "key-of-a-test", "base_url": url, "engine": engine, "max_retries": 0, "timeout": 5.0}
    finished = cancelled = 0

    async def stream() -> None:
        async with AsyncSession(MODEL, providers={"anthropic": settings}) as session, session.stream("Hi") as events:
            async for _ in events:
                pass

    async def one(seconds: float, *, twice: bool) -> None:
        nonlocal finished, cancelled
        task = asyncio.create_task(stream())
        await asyncio.sleep(seconds)
        if task.cancel():
            cancelled += 1
        else:
            finished += 1
        if twice:
            await asyncio.sleep(0)
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError, DragomanError):
            await task

    while cancelled < count:
        size = min(_PARALLEL, count - cancelled)
        await asyncio.gather(*(one(picker.random() * _LONGEST, twice=picker.random() < 0.3) for _ in range(size)))
    end = time.monotonic() + _PATIENCE
    while (left := _other_tasks()) and time.monotonic() < end:
        await asyncio.sleep(0.01)
    return cancelled, finished, left


def _other_tasks() -> int:
    """How many tasks there are that the streams have begun."""
    own = asyncio.current_task()
    return sum(task is not own and not _belongs_to_loop(task) for task in asyncio.all_tasks())


def _belongs_to_loop(task: "asyncio.Task[object]") -> bool:
    """Whether the task closes the connections of the loop at its end: there is one for each loop."""
    return "loop_pools" in repr(task)


def _descriptors() -> int | None:
    return len(list(_FDS.iterdir())) if _FDS.exists() else None


def measure(engine: str, count: int, seed: int) -> Leftovers:
    gc.collect()
    before = _descriptors()
    with FaultyServer(_script) as server:
        cancelled, finished, tasks = asyncio.run(_cancel_many(server.url, engine, count, random.Random(seed)))
        connections = server.wait_until_closed(seconds=_PATIENCE)
    gc.collect()
    descriptors = None if before is None else (_descriptors() or 0) - before
    return Leftovers(engine, cancelled, finished, tasks, connections, descriptors)


def rows(count: int, seed: int) -> Iterator[Leftovers]:
    for engine in ENGINES:
        if find_spec(engine) is not None:
            yield measure(engine, count, seed)


def lines(measured: Iterator[Leftovers]) -> Iterator[str]:
    yield f"{'engine':<12}{'cancelled':>10}{'finished':>10}{'tasks left':>12}{'connections':>13}{'descriptors':>13}"
    for row in measured:
        shown = "?" if row.descriptors is None else str(row.descriptors)
        yield f"{row.engine:<12}{row.cancelled:>10}{row.finished:>10}{row.tasks:>12}{row.connections:>13}{shown:>13}"
