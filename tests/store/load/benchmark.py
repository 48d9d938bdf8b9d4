"""How many turns a store can append: `python -m tests.store.load.benchmark`, in turns a second, and milliseconds at p50
and p99.

Two programs with sixteen threads each append turns of a question and a reply, 1.5 KB together, to 10,000 sessions: at
full speed, and at a fixed rate (`--rate`), where a turn's time starts at the moment at which it was due, whether or not
the one before it had ended. SQLite with both kinds of sync, PostgreSQL if DRAGOMAN_TEST_POSTGRES_URL names a database
that may be filled. `cpu ms` is the CPU cost of a turn in the programs; `load` is how many programs of the machine
wanted its processors in the last minute, these included.

The exit status is 1 if PostgreSQL does not keep the rate, or needs more than 100 ms at p99.
"""

import argparse
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from multiprocessing.queues import Queue
from pathlib import Path
from typing import cast

from dragoman.canonical.message import Message
from dragoman.sql import Synchronous
from dragoman.store import Store
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url
from tests.store.load.writers import FORK_CONTEXT
from tests.store.turns import reply

MOST_P99_MS = 100.0
_WORDS = ("quick", "brown", "fox", "jumps", "over", "lazy", "dog", "then", "some", "more", "in", "other", "words")
DATABASES: dict[str, Synchronous] = {"postgresql": "full", "sqlite full": "full", "sqlite normal": "normal"}


@contextmanager
def place(database: str) -> Iterator[str]:
    if database == "postgresql":
        server = postgres_url()
        assert server is not None
        with postgres_place(server) as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'sessions.db'}"


def random_text(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=size // 5))


@dataclass
class LoadResult:
    took: list[float]
    """Milliseconds of each turn."""
    cpu: float
    """Seconds of the programs together."""
    seconds: float
    """From the first moment at which a turn was due to the end of the last one."""

    def __str__(self) -> str:
        found = sorted(self.took)
        p50, p99 = (found[len(found) * share // 100] for share in (50, 99))
        cpu = 1000 * self.cpu / len(found)
        return f"{len(found):>9}{len(found) / self.seconds:>10.0f}{p50:>9.1f}{p99:>9.1f}{max(found):>9.1f}{cpu:>9.2f}"

    @property
    def p99(self) -> float:
        return sorted(self.took)[len(self.took) * 99 // 100]


def append_for(
    url: str, synchronous: Synchronous, sessions: Sequence[str], threads: int, seconds: float, rate: float, seed: int,
    results: "Queue[LoadResult]",
) -> None:  # fmt: skip
    """A rate of 0 is full speed."""
    took: list[float] = []
    begun = [0.0, 0.0]
    with Store(url, synchronous=synchronous, pool_size=threads, timeout=120) as store:
        texts = [random_text(random.Random(seed), size) for size in (300, 700, 1200)]

        def begin() -> None:
            begun[:] = time.perf_counter(), time.process_time()

        warm = threading.Barrier(threads, action=begin)
        turns = count()  # whoever is free takes the next one

        def work(number: int) -> None:
            chance = random.Random(1000 * seed + number)
            for _ in range(5):  # warms connections, statements and caches, on both sides
                store.append(chance.choice(sessions), [Message.user("warm"), reply("up")], expected_version=None)
            warm.wait()
            while True:
                due = begun[0] + next(turns) / rate if rate else time.perf_counter()
                if due >= begun[0] + seconds:
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                messages = [Message.user(chance.choice(texts)[:300]), reply(chance.choice(texts))]
                store.append(chance.choice(sessions), messages, expected_version=None)
                took.append(1000 * (time.perf_counter() - due))

        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        results.put(LoadResult(took, time.process_time() - begun[1], time.perf_counter() - begun[0]))


def measure(database: str, *, sessions: int, programs: int, threads: int, seconds: float, rate: float) -> LoadResult:
    synchronous = DATABASES[database]
    with place(database) as url:
        with Store(url, synchronous="normal") as store:
            session_ids = [store.create("anthropic:claude-opus-5-5").id for _ in range(sessions)]
        results: Queue[LoadResult] = FORK_CONTEXT.Queue()
        running = [
            FORK_CONTEXT.Process(
                target=append_for,
                args=(url, synchronous, session_ids, threads, seconds, rate / programs, seed, results),
            )
            for seed in range(programs)
        ]
        for program in running:
            program.start()
        found = [results.get() for _ in running]
        for program in running:
            program.join()
    took = [each for one in found for each in one.took]
    return LoadResult(took, sum(one.cpu for one in found), max(one.seconds for one in found))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.load.benchmark", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--programs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=16, help="of each program")
    parser.add_argument("--rate", type=float, default=1000.0, help="turns a second of both programs together")
    parser.add_argument("databases", nargs="*", help=", ".join(DATABASES))
    chosen = parser.parse_args()
    databases = chosen.databases or list(DATABASES)
    if "postgresql" in databases and postgres_url() is None:
        sys.stderr.write(SKIP_REASON + "\n")
        databases.remove("postgresql")
    titles = ("sessions", "asked", "turns", "turns/s", "p50 ms", "p99 ms", "most ms", "cpu ms", "load")
    sys.stdout.write(
        f"{'database':<15}" + "".join(f"{title:>{10 if title == 'turns/s' else 9}}" for title in titles) + "\n"
    )
    missed = False
    for database in databases:
        for rate in (0.0, cast("float", chosen.rate)) if database == "postgresql" else (0.0,):
            found = measure(
                database,
                sessions=chosen.sessions,
                programs=chosen.programs,
                threads=chosen.threads,
                seconds=chosen.seconds,
                rate=rate,
            )
            requested_rate = f"{rate:g}/s" if rate else "most"
            load = os.getloadavg()[0]
            sys.stdout.write(f"{database:<15}{chosen.sessions:>9}{requested_rate:>9}{found}{load:>9.1f}\n")
            sys.stdout.flush()
            missed |= bool(rate) and found.p99 > MOST_P99_MS
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
