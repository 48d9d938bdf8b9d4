"""Runs in a process of its own: sessions before a fork, then sessions in the parent and in its children at once.

    python -m tests.unit.transport.connections.fork_program BASE_URL ENGINE KIND CHILDREN CALLS

The server answers each question with the question's own text. Prints one JSON object: for each process, the answers
that were not its own, and the errors.
"""

import asyncio
import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from dragoman import AsyncSession, Session

MODEL = "anthropic:claude-sonnet-4-6"

Outcome = dict[str, Any]


def settings(base_url: str, engine: str) -> dict[str, Any]:
    return {"providers": {"anthropic": {"base_url": base_url, "api_key": "none", "engine": engine, "max_retries": 0}}}


def ask_sync(base_url: str, engine: str, name: str, calls: int) -> Outcome:
    """Ask from four threads."""
    outcome: Outcome = {"foreign": 0, "right": 0, "errors": []}
    lock = threading.Lock()

    def work(thread: int) -> None:
        for number in range(calls // 4):
            question = f"{name} {thread} {number}"
            try:
                with Session(MODEL, **settings(base_url, engine)) as session:
                    answer = session.ask(question).text
                with lock:
                    outcome["right" if answer == question else "foreign"] += 1
            except Exception as error:
                with lock:
                    outcome["errors"].append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


async def _ask_all(base_url: str, engine: str, name: str, calls: int) -> Outcome:
    outcome: Outcome = {"foreign": 0, "right": 0, "errors": []}

    async def work(task: int) -> None:
        for number in range(calls // 4):
            question = f"{name} {task} {number}"
            try:
                async with AsyncSession(MODEL, **settings(base_url, engine)) as session:
                    answer = (await session.ask(question)).text
                outcome["right" if answer == question else "foreign"] += 1
            except Exception as error:
                outcome["errors"].append(f"{type(error).__name__}: {error}")

    await asyncio.gather(*map(work, range(4)))
    return outcome


def ask_async(base_url: str, engine: str, name: str, calls: int) -> Outcome:
    """Ask from four tasks of a new event loop."""
    return asyncio.run(_ask_all(base_url, engine, name, calls))


def fork_inside_a_loop(base_url: str, engine: str, children: int, calls: int) -> list[Outcome]:
    """Open connections in a loop and fork while it runs, as a server that loads its program first does."""

    async def main() -> list[Outcome]:
        opened = await _ask_all(base_url, engine, "before", 8)
        pipes = [_fork(lambda name=f"child {n}": ask_async(base_url, engine, name, calls)) for n in range(children)]
        own = await _ask_all(base_url, engine, "parent", calls)
        return [opened, own, *[await asyncio.to_thread(_read, pipe) for pipe in pipes]]

    return asyncio.run(main())


def fork_from_threads(base_url: str, engine: str, children: int, calls: int) -> list[Outcome]:
    """Open connections from threads, and fork."""
    opened = ask_sync(base_url, engine, "before", 8)
    pipes = [_fork(lambda name=f"child {n}": ask_sync(base_url, engine, name, calls)) for n in range(children)]
    return [opened, ask_sync(base_url, engine, "parent", calls), *map(_read, pipes)]


def fork_a_pool(base_url: str, engine: str, children: int, calls: int) -> list[Outcome]:
    """Open connections, and let `multiprocessing` fork its workers."""
    opened = ask_sync(base_url, engine, "before", 8)
    with multiprocessing.get_context("fork").Pool(children) as pool:
        jobs = [(base_url, engine, f"worker {n}", calls) for n in range(children)]
        waiting = pool.starmap_async(ask_sync, jobs)
        own = ask_sync(base_url, engine, "parent", calls)
        return [opened, own, *waiting.get()]


def _fork(work: Callable[[], Outcome]) -> tuple[int, int]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    return child, reading


def _read(pipe: tuple[int, int]) -> Outcome:
    child, reading = pipe
    with os.fdopen(reading, "rb") as stream:
        data = stream.read()
    os.waitpid(child, 0)
    found: Outcome = json.loads(data) if data else {"foreign": 0, "right": 0, "errors": ["the child died"]}
    return found


if __name__ == "__main__":
    url, engine_name, kind, child_count, call_count = sys.argv[1:]
    run = {"async": fork_inside_a_loop, "sync": fork_from_threads, "pool": fork_a_pool}[kind]
    print(json.dumps(run(url, engine_name, int(child_count), int(call_count))))
