"""A stress test of limits: `python -m tests.unit.limits.stress`, on the Redis that DRAGOMAN_TEST_REDIS_URL names.

Many processes reserve as fast as they can under one limit of requests and tokens, half of them from an event loop. In
the first round they use all that they reserve, in the second they settle for less. Then the uses in each minute are
counted from the processes' own records. The exit status is 1 if a minute has more than the limit.
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
"""The start of a request in microseconds, 1 or 0 requests, and the tokens that it used."""


def _use(rng: random.Random, grant: Grant, settle_for_less: bool) -> tuple[Use, TokenUsage | None, int]:
    """Return the use of a grant, and the usage and the number of requests to settle it with.

    With ``settle_for_less``, one request in ten is never sent, and the others use a part of their reservation.
    """
    if not settle_for_less:
        return (grant.at, 1, grant.tokens), TokenUsage(input_tokens=grant.tokens), 1
    if rng.random() < 0.1:
        return (grant.at, 0, 0), None, 0
    used = rng.randint(1, grant.tokens)
    return (grant.at, 1, used), TokenUsage(input_tokens=used), 1


def _reserve(url: str, name: str, number: int, count: int, settle_for_less: bool, results: Any) -> None:
    limits, rng, uses = Limits(LIMIT, url=url, name=name, max_wait=1e6), random.Random(number), list[Use]()
    for _ in range(count):
        grant = limits.reserve(GPT, rng.randint(1, 500), rng.randint(0, 4_000))
        use, usage, requests = _use(rng, grant, settle_for_less)
        limits.settle(grant, usage, requests=requests)
        uses.append(use)
    limits.close()
    results.put(uses)


async def _reserve_async(url: str, name: str, number: int, count: int, settle_for_less: bool, results: Any) -> None:
    limits, rng, uses = Limits(LIMIT, url=url, name=name, max_wait=1e6), random.Random(number), list[Use]()

    async def reserve_a_quarter() -> None:
        for _ in range(count // 4):
            grant = await limits.reserve_async(GPT, rng.randint(1, 500), rng.randint(0, 4_000))
            use, usage, requests = _use(rng, grant, settle_for_less)
            await limits.settle_async(grant, usage, requests=requests)
            uses.append(use)

    await asyncio.gather(*(reserve_a_quarter() for _ in range(4)))
    await limits.close_async()
    results.put(uses)


def _run(url: str, name: str, number: int, count: int, settle_for_less: bool, results: Any) -> None:
    if number % 2:
        asyncio.run(_reserve_async(url, name, number, count, settle_for_less, results))
    else:
        _reserve(url, name, number, count, settle_for_less, results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--requests", type=int, default=1_000, help="of each process")
    arguments = parser.parse_args()
    url = os.environ.get(REDIS_URL)
    if not url:
        print(HOW_TO_RUN)
        return 1
    within_limit = [_run_round(url, arguments.processes, arguments.requests, less) for less in (False, True)]
    return 0 if all(within_limit) else 1


def _run_round(url: str, processes: int, count: int, settle_for_less: bool) -> bool:
    """Run the processes, print a table, and return whether no minute has more than the limit."""
    name, results, begun = own_name(), FORK_CONTEXT.Queue(), time.perf_counter()
    workers = [
        FORK_CONTEXT.Process(target=_run, args=(url, name, number, count, settle_for_less, results))
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
    how = "settled for less" if settle_for_less else "used to the full"
    print(f"{processes} processes, {len(uses):,} requests, {how}, {each:.2f} ms each")
    print(f"  most requests in any minute: {requests:>9,} of {LIMIT.requests:,}")
    print(f"  most tokens in any minute:   {tokens:>9,} of {LIMIT.tokens:,}")
    return requests <= (LIMIT.requests or 0) and tokens <= (LIMIT.tokens or 0)


if __name__ == "__main__":
    sys.exit(main())
