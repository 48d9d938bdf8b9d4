"""``python -m tests.gateway.loaded [budget] [kills] [backlog] [reloads] [--seconds N] [--sqlite]``.

A gateway of two workers uses the PostgreSQL and the Redis that DRAGOMAN_TEST_POSTGRES_URL and DRAGOMAN_TEST_REDIS_URL
name: `.ci/services` starts both. With ``--sqlite``, one worker uses a file. Clients ask as fast as answers come.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.gateway.loaded.clients import Connection, Found, ask_all, post, question
from tests.gateway.loaded.fleet import Loaded, loaded
from tests.gateway.replicas.rows import Row, print_rows
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL

CLIENTS = 190
KILLS = 10
RELOADS = 100
LOST_SECONDS = 0.5
"""How much of what was acknowledged a kill may lose."""
_SETTLE_SECONDS = 30.0


def budget_rows(gateway: Loaded, seconds: float) -> Iterator[Row]:
    """One budget that all clients share disturbs neither them nor another key."""
    free, bound, other = gateway.create_key(), gateway.create_key("1000000/month"), gateway.create_key("1000000/month")

    async def both(secret: str) -> tuple[Found, Found]:
        return await asyncio.gather(
            ask_all(gateway.port, lambda _: question(secret), clients=CLIENTS, seconds=seconds),
            ask_all(gateway.port, lambda number: _response(other, number), clients=4, seconds=seconds, rate=5),
        )

    (plain, calm), (busy, beside) = asyncio.run(both(free)), asyncio.run(both(bound))
    found = f"{busy.rate:.0f} a second, {plain.rate:.0f} without; others: {busy.others()} {_worst(busy)}"
    yield Row(
        f"{CLIENTS} clients on one budget", found, "no error, half the rate",
        not busy.others() and busy.rate >= plain.rate / 2,
    )  # fmt: skip
    ratio = beside.percentile(0.99) / calm.percentile(0.99)
    found = f"p99 {beside.percentile(0.99):.0f} ms, {calm.percentile(0.99):.0f} without the budget; {beside.others()}"
    yield Row("responses of another key beside them", found, "2 times, no error", ratio <= 2 and not beside.others())


def kill_rows(gateway: Loaded, seconds: float) -> Iterator[Row]:
    """Workers are killed while clients ask, store and go on."""
    secret, acknowledged, chance = gateway.create_key("1000000/month"), list[float](), random.Random(7)
    ids: list[str] = []
    unknown: list[str] = []

    def note(status: int, body: bytes) -> None:
        if status == 200:
            acknowledged.append(time.time())

    async def converse() -> None:
        """Go on from an acknowledged response at once, on whichever worker."""
        connection, last = Connection(gateway.port), None
        while not done.is_set():
            status, body = await connection.ask(_response(secret, 0, last))
            if status == 200:
                last = json.loads(body)["id"]
                ids.append(last)
            elif status == 400:
                unknown.append(body.decode()[:200])
                last = None
            connection.close()

    async def kill() -> None:
        for _ in range(KILLS):
            await asyncio.sleep(seconds / KILLS * chance.uniform(0.5, 1.5))
            workers = list((await asyncio.to_thread(gateway.versions)).items())
            os.kill(int(chance.choice(workers)[0]), signal.SIGKILL)
        done.set()

    async def load() -> Found:
        others = asyncio.gather(*(converse() for _ in range(8)), kill())
        clients, request = CLIENTS // 2, question(secret)
        found = await ask_all(gateway.port, lambda _: request, clients=clients, seconds=2 * seconds, each=note)
        await others
        return found

    done = asyncio.Event()
    before = _stored(gateway)
    found = asyncio.run(load())
    _wait_for_backlog(gateway)
    lost = len(acknowledged) + len(ids) - (_stored(gateway) - before)
    bound = found.rate * LOST_SECONDS * KILLS
    text = f"{lost} of {len(acknowledged) + len(ids)} notes lost in {KILLS} kills, at {found.rate:.0f} a second"
    yield Row("notes of requests", text, f"{bound:.0f}: half a second each", lost <= bound)
    yield Row("ids that were given", f"{len(unknown)} of {len(ids)} unknown", "0", bool(ids) and not unknown)


def backlog_rows(gateway: Loaded, seconds: float) -> Iterator[Row]:
    """The store keeps up, or new requests wait."""
    secret, waiting = gateway.create_key(), list[tuple[float, float]]()

    async def watch() -> None:
        while not done.is_set():
            number = sum(each.value for each in gateway.samples("dragoman_waiting"))
            age = max(each.value for each in gateway.samples("dragoman_waiting_seconds"))
            waiting.append((number, age))
            await asyncio.sleep(1)

    async def load() -> Found:
        watching = asyncio.create_task(asyncio.to_thread(asyncio.run, watch()))
        found = await ask_all(gateway.port, lambda _: question(secret), clients=CLIENTS, seconds=seconds)
        done.set()
        await watching
        return found

    done = asyncio.Event()
    found = asyncio.run(load())
    half = len(waiting) // 2
    first, second = (max(number for number, _ in part) for part in (waiting[:half], waiting[half:]))
    oldest = max(age for _, age in waiting)
    text = f"{found.rate:.0f} a second; at most {first:.0f} waited, then {second:.0f}; the oldest {oldest:.1f} s"
    holds = not found.others() and second <= max(2 * first, 200)
    yield Row(f"{seconds:.0f} s at saturation", f"{text}; others: {found.others()} {_worst(found)}", "bounded", holds)


def reload_rows(gateway: Loaded, seconds: float) -> Iterator[Row]:
    """Each new configuration is in effect on all workers."""
    secret, took = gateway.create_key("1000000/month"), list[float]()

    def reload(number: int) -> bool:
        before, begun = set(gateway.versions().values()), time.monotonic()
        gateway.write(f'name-{number} = "openai-chat:gpt-4.1"')
        gateway.reload()
        while time.monotonic() < begun + _SETTLE_SECONDS:
            versions = gateway.versions().values()
            if len(set(versions)) == 1 and before.isdisjoint(versions):
                took.append(time.monotonic() - begun)
                return True
            time.sleep(0.05)
        return False

    async def load() -> tuple[Found, int]:
        async def all_reloads() -> int:
            done = sum([await asyncio.to_thread(reload, number) for number in range(RELOADS)])
            stop.set()
            return done

        async def ask() -> Found:
            found = Found()
            while not stop.is_set():
                part = await ask_all(gateway.port, lambda _: question(secret), clients=CLIENTS // 2, seconds=2)
                found.statuses += part.statuses
                found.errors += part.errors
            return found

        return await asyncio.gather(ask(), all_reloads())

    stop = asyncio.Event()
    found, done = asyncio.run(load())
    slowest = max(took, default=0.0)
    text = f"{done} in effect on all workers, the slowest after {slowest:.1f} s; {found.statuses[200]} answers"
    holds = done == RELOADS and not found.others()
    yield Row(f"{RELOADS} reloads", f"{text}; others: {found.others()} {_worst(found)}", "all, no error", holds)


PARTS = {"budget": budget_rows, "kills": kill_rows, "backlog": backlog_rows, "reloads": reload_rows}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table. Returns 1 if something does not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.gateway.loaded", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--sqlite", action="store_true")
    options = parser.parse_args(arguments)
    postgres, redis = postgres_url(), os.environ.get(REDIS_URL)
    if not options.sqlite and (postgres is None or not redis):
        print(f"{SKIP_REASON}; {HOW_TO_RUN}", file=sys.stderr)
        return 2
    parts = [part for part in PARTS if not (options.sqlite and part == "kills")]  # it has one worker
    return print_rows(_rows(options.parts or parts, options.seconds, None if options.sqlite else postgres, redis))


def _rows(parts: Sequence[str], seconds: float, postgres: str | None, redis: str | None) -> Iterator[Row]:
    for part in parts:
        with ExitStack() as stack:
            if postgres is None:
                place = f"sqlite:///{Path(stack.enter_context(tempfile.TemporaryDirectory())) / 'data.db'}"
            else:
                place = stack.enter_context(postgres_place(postgres))
            running = stack.enter_context(loaded(place, redis if postgres else None, workers=2 if postgres else 1))
            yield from PARTS[part](running, seconds)
            lines = [line for line in running.logged().splitlines() if "ERROR" in line or "WARNING" in line]
            if len(lines) > _MOST_LINES:
                yield Row(f"log of {part}", f"{len(lines)} lines, such as {lines[-1][:200]}", f"{_MOST_LINES}", False)


_MOST_LINES = 60


def _response(secret: str, number: int, previous: str | None = None) -> bytes:
    """Return a request of Responses."""
    body: dict[str, Any] = {"model": "house", "input": f"Question {number}", "max_output_tokens": 50}
    return post("/v1/responses", secret, body | ({"previous_response_id": previous} if previous else {}))


def _stored(gateway: Loaded) -> int:
    """Return how many requests the store has."""
    total, cursor = 0, None
    while True:
        page = gateway.store.list(limit=1000, cursor=cursor)
        total, cursor = total + len(page.sessions), page.cursor
        if cursor is None:
            return total


def _wait_for_backlog(gateway: Loaded) -> None:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while sum(each.value for each in gateway.samples("dragoman_waiting")) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(1.5)  # the other workers show theirs each second


def _worst(found: Found) -> str:
    return "" if not found.errors else found.errors.most_common(1)[0][0]
