"""``python -m tests.gateway.loaded.scale [--seconds N]``: how many requests with budgets one PostgreSQL admits.

Each process has the ledger of a worker, and no requests around it: what a request needs of the database is a check, a
reservation and a booking. In each process 100 are under way at a time, on one budget or on many. Each request counts
for a key and its team.
"""

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections.abc import Sequence
from decimal import Decimal

from dragoman_gateway.database import Database
from dragoman_gateway.keys.amounts import parse_budget
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from tests.gateway.keyed import total_spend
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url

AT_ONCE = 100
SCOPES = (1, 10, 1_000)
PROCESSES = (1, 2, 4)
_NEEDED, _SPENT = Amount(Decimal("0.01"), 1_000), Amount(Decimal("0.0012"), 310)
_BUDGET = (parse_budget("100000/month"),)


def measure(place: str, scopes: int, seconds: float, name: str) -> tuple[int, float, float]:
    """Return how many requests one process admitted and booked, the p99 of an admission in ms, and its CPU a request in
    ms."""

    async def run() -> tuple[int, float, float]:
        database = Database(place)
        ledger, numbers, took = Ledger(database), iter(range(10**9)), list[float]()
        await total_spend(ledger, "key:0")
        stop, cpu = time.perf_counter() + seconds, time.process_time()

        async def ask() -> None:
            while (begin := time.perf_counter()) < stop:
                number = next(numbers)
                held = {f"key:{number % scopes}": _BUDGET, f"team:{number % scopes % 10}": _BUDGET}
                await ledger.check(held)
                await ledger.reserve(f"{name}-{number}", held, _NEEDED)
                took.append(time.perf_counter() - begin)
                await asyncio.sleep(0.05)  # the model
                ledger.book(f"{name}-{number}", tuple(held), _SPENT)

        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        spent = time.process_time() - cpu
        await ledger.close()
        database.close()
        return len(took), 1000 * sorted(took)[int(0.99 * len(took))], 1000 * spent / len(took)

    return asyncio.run(run())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.loaded.scale", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0)
    seconds = parser.parse_args(arguments).seconds
    server = postgres_url()
    if server is None:
        print(SKIP_REASON, file=sys.stderr)
        return 2
    print("| processes | budgets | requests a second | p99 ms | CPU of the processes, ms a request |", flush=True)
    print("| --- | --- | --- | --- | --- |", flush=True)
    for processes in PROCESSES:
        for scopes in SCOPES:
            with postgres_place(server) as place:
                Database(place).run(lambda connection: None)  # makes the tables
                with multiprocessing.get_context("spawn").Pool(processes) as pool:
                    jobs = [(place, scopes, seconds, f"process{number}") for number in range(processes)]
                    found = pool.starmap(measure, jobs)
            rate = sum(number for number, _, _ in found) / seconds
            slowest, cpu = max(each for _, each, _ in found), sum(each for _, _, each in found) / processes
            print(f"| {processes} | {scopes:,} | {rate:,.0f} | {slowest:.0f} | {cpu:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
