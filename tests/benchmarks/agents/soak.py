"""Agents for minutes: the memory of a gateway whose kept requests fill their room.

``python -m tests.benchmarks.agents --soak 1200 --rate 3`` prints it over time, and ends with 1 if it grows. The time
begins when the caches are full: each agent has been through a whole conversation, and the room for what is kept is
small. The agents are at different places of their conversations, so that together they always need about the same.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from itertools import count
from typing import Any

from dragoman_gateway.server.process import collect_old_objects, tune_memory
from tests.benchmarks.agents.gateway import ask, gateway
from tests.benchmarks.agents.requests import body, tools, wire_messages
from tests.benchmarks.gateway.servers import resident_bytes
from tests.benchmarks.gateway.soak import slope

AGENTS = 24
ROOM = 8 * 1024 * 1024
"""Bytes for what is kept: less than all agents send."""
MOST_GROWTH = 0.25
"""MiB a minute that the memory may grow."""
_SHORTEST, _LONGEST = 40, 140
"""Messages of a conversation at its first request and at its last one."""
_ROUNDS = (_LONGEST - _SHORTEST) // 2


def main(seconds: float, rate: float) -> int:
    """Print the memory over time and its slope. Returns 1 if it grows, or if the room was not filled."""
    samples, done = asyncio.run(_soak(seconds, rate))
    for moment, resident, kept in samples[:: max(1, len(samples) // 20)]:
        print(f"{moment:7.0f} s  {resident / 2**20:8.1f} MiB, of which at most {kept / 2**20:5.1f} are kept requests")
    growth, is_full = slope([each[:2] for each in samples]), all(kept > ROOM / 2 for _, _, kept in samples)
    print(f"{done:,} requests; memory grows by {growth:.2f} MiB a minute (most {MOST_GROWTH})")
    return int(growth > MOST_GROWTH or not is_full)


def _requests(agent: int) -> Iterator[bytes]:
    """The requests of one agent: conversations that grow, one after the other, with other texts in each, and a short
    question of somebody else after each. The first conversation begins in the middle."""
    offered, start = tools(12), _SHORTEST + 2 * (agent * _ROUNDS // AGENTS)
    for task in count(1):
        messages = [{"role": "user", "content": f"Task {task} of {agent}"}, *wire_messages(_LONGEST)[1:]]
        for end in range(start, _LONGEST, 2):
            yield body(messages[:end], offered)
        yield body([{"role": "user", "content": f"What is {task} times {agent}?"}], [])
        start = _SHORTEST


async def _soak(seconds: float, rate: float) -> tuple[list[tuple[float, int, int]], int]:
    tune_memory()  # as a server does
    app, done = gateway(max_repeated=ROOM), 0
    samples: list[tuple[float, int, int]] = []
    agents = [_requests(agent) for agent in range(AGENTS)]

    async def work(agent: int, rounds: int, stop: float, pause: float) -> None:
        nonlocal done
        for _ in range(rounds):
            if time.monotonic() > stop:
                return
            await ask(app, next(agents[agent]), address=f"127.0.1.{agent}")
            done += 1
            await asyncio.sleep(pause)  # nothing here waits for a network

    async def sample(parts: Any, begin: float) -> None:
        while (now := time.monotonic()) < begin + seconds:
            samples.append((now - begin, resident_bytes(os.getpid()), parts.size))
            collect_old_objects(is_busy=bool(app.state.gateway.in_flight))  # as a server does
            await asyncio.sleep(min(1.0, seconds / 50))

    async with app.router.lifespan_context(app):
        await asyncio.gather(*(work(agent, 2 * _ROUNDS, float("inf"), 0.0) for agent in range(AGENTS)))
        begin, pause = time.monotonic(), AGENTS / rate if rate else 0.0
        parts, forever = app.state.gateway.current.repeated, 10**9
        await asyncio.gather(
            sample(parts, begin), *(work(agent, forever, begin + seconds, pause) for agent in range(AGENTS))
        )
    return samples, done
