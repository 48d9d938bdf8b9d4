"""Agents for minutes: the memory of a gateway whose kept requests fill their room.

``python -m tests.benchmarks.agents --soak 300`` prints it over time, and ends with 1 if it grows.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import Any

from dragoman_gateway.server.process import tune_memory
from tests.benchmarks.agents.gateway import ask, gateway
from tests.benchmarks.agents.requests import body, tools, wire_messages
from tests.benchmarks.gateway.servers import resident_bytes
from tests.benchmarks.gateway.soak import MOST_GROWTH, slope

AGENTS = 24
ROOM = 16 * 1024 * 1024
"""Bytes for what is kept: less than all agents send."""
_WARM_SHARE = 0.4
_SHORTEST, _LONGEST = 40, 140
"""Messages of a conversation at its first request and at its last one."""


def main(seconds: float) -> int:
    """Print the memory over time and its slope. Returns 1 if it grows, or if the room was not filled."""
    samples, done = asyncio.run(_soak(seconds))
    for moment, resident, kept in samples[:: max(1, len(samples) // 20)]:
        print(f"{moment:7.0f} s  {resident / 2**20:8.1f} MiB, of which at most {kept / 2**20:5.1f} are kept requests")
    warm = [each for each in samples if each[0] > _WARM_SHARE * seconds]
    growth, is_full = slope([each[:2] for each in warm]), all(kept > ROOM / 2 for _, _, kept in warm)
    print(f"{done:,} requests; memory grows by {growth:.2f} MiB a minute (most {MOST_GROWTH})")
    return int(growth > MOST_GROWTH or not is_full)


def _requests(agent: int) -> Iterator[bytes]:
    """The requests of one agent: conversations that grow, one after the other, with other texts in each."""
    offered, task = tools(12), 0
    while True:
        task += 1
        messages = [{"role": "user", "content": f"Task {task} of {agent}"}, *wire_messages(_LONGEST)[1:]]
        for end in range(_SHORTEST, _LONGEST, 2):
            yield body(messages[:end], offered)


async def _soak(seconds: float) -> tuple[list[tuple[float, int, int]], int]:
    tune_memory()  # as a server does
    app, done, begin = gateway(max_repeated=ROOM), 0, time.monotonic()
    samples: list[tuple[float, int, int]] = []

    async def work(agent: int) -> None:
        nonlocal done
        for sent in _requests(agent):
            if time.monotonic() > begin + seconds:
                return
            await ask(app, sent, address=f"127.0.1.{agent}")
            done += 1
            await asyncio.sleep(0)  # nothing here waits for a network

    async def sample(parts: Any) -> None:
        while (now := time.monotonic()) < begin + seconds:
            samples.append((now - begin, resident_bytes(os.getpid()), parts.size))
            await asyncio.sleep(min(1.0, seconds / 50))

    async with app.router.lifespan_context(app):
        await asyncio.gather(sample(app.state.gateway.current.repeated), *map(work, range(AGENTS)))
    return samples, done
