"""The large run of limits: `python -m tests.unit.limits.stress`, on the Redis that DRAGOMAN_TEST_REDIS_URL names.

Many processes request as fast as they can under one limit of requests and tokens, half of them from an event loop: in
one round they use all that they reserve, in another they settle for less. What was granted is then counted without the
algorithm. The exit status is 1 if any minute held more than the limit.
"""

import argparse
import asyncio
import os
import random
import sys
import time
from typing import Any

from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Limit, Limits
from dragoman.limits.limits import Grant
from tests.store.load.writers import FORK_CONTEXT
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL, own_name
from tests.unit.limits.windows import most_in_any_window

GPT = "openai:gpt-6.1-sol"
LIMIT = Limit(requests=900, tokens=2_000_000)
MINUTE = 60_000_000
Use = tuple[int, int, int]
"""The start, and the requests and tokens that were really used."""


def _usage(chance: random.Random, grant: Grant, settles: bool) -> tuple[Use, TokenUsage | None, int]:
    """One in ten is never sent; the others use some of what they reserved."""
    if not settles:
        return (grant.at, 1, grant.tokens), TokenUsage(input_tokens=grant.tokens), 1
    if chance.random() < 0.1:
        return (grant.at, 0, 0), None, 0
    used = chance.randint(1, grant.tokens)
    return (grant.at, 1, used), TokenUsage(input_tokens=used), 1


def _ask(url: str, name: str, number: int, asks: int, settles: bool, results: Any) -> None:
    limits, chance, uses = Limits(LIMIT, url=url, name=name, max_wait=1e6), random.Random(number), list[Use]()
    for _ in range(asks):
        grant = limits.reserve(GPT, chance.randint(1, 500), chance.randint(0, 4_000))
        use, usage, requests = _usage(chance, grant, settles)
        limits.settle(grant, usage, requests=requests)
        uses.append(use)
    limits.close()
    results.put(uses)


async def _ask_async(url: str, name: str, number: int, asks: int, settles: bool, results: Any) -> None:
    limits, chance, uses = Limits(LIMIT, url=url, name=name, max_wait=1e6), random.Random(number), list[Use]()

    async def some() -> None:
        for _ in range(asks // 4):
            grant = await limits.reserve_async(GPT, chance.randint(1, 500), chance.randint(0, 4_000))
            use, usage, requests = _usage(chance, grant, settles)
            await limits.settle_async(grant, usage, requests=requests)
            uses.append(use)

    await asyncio.gather(*(some() for _ in range(4)))
    await limits.close_async()
    results.put(uses)


def _run(url: str, name: str, number: int, asks: int, settles: bool, results: Any) -> None:
    if number % 2:
        asyncio.run(_ask_async(url, name, number, asks, settles, results))
    else:
        _ask(url, name, number, asks, settles, results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--asks", type=int, default=1_000)
    arguments = parser.parse_args()
    url = os.environ.get(REDIS_URL)
    if not url:
        print(HOW_TO_RUN)
        return 1
    good = True
    for settles in (False, True):
        good = _run_round(url, arguments.processes, arguments.asks, settles) and good
    return 0 if good else 1


def _run_round(url: str, processes: int, asks: int, settles: bool) -> bool:
    name, results, begun = own_name(), FORK_CONTEXT.Queue(), time.perf_counter()
    workers = [
        FORK_CONTEXT.Process(target=_run, args=(url, name, number, asks, settles, results))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    uses = [use for _ in workers for use in results.get()]
    for worker in workers:
        worker.join()
    each = (time.perf_counter() - begun) / len(uses) * 1000
    requests = most_in_any_window([(at, count) for at, count, _ in uses], MINUTE)
    tokens = most_in_any_window([(at, count) for at, _, count in uses], MINUTE)
    how = "settled for less" if settles else "used to the full"
    print(f"{processes} processes, {len(uses):,} requests, {how}, {each:.2f} ms each")
    print(f"  most requests in any minute: {requests:>9,} of {LIMIT.requests:,}")
    print(f"  most tokens in any minute:   {tokens:>9,} of {LIMIT.tokens:,}")
    return requests <= (LIMIT.requests or 0) and tokens <= (LIMIT.tokens or 0)


if __name__ == "__main__":
    sys.exit(main())
