"""How many turns a store takes: `python -m tests.store.bench`, in turns a second, and milliseconds at p50 and p99.

Two programs with four threads each append turns of a question and a reply, 1.5 KB together, to 10,000 sessions: as fast
as they can, and at a fixed rate (`--rate`, where a turn's time runs from the moment at which it was due). SQLite with
both kinds of sync, PostgreSQL where DRAGOMAN_TEST_POSTGRES_URL names a database that may be filled.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.queues import Queue
from pathlib import Path
from typing import cast

from dragoman.canonical.message import Message
from dragoman.store import Store
from dragoman.store.database import Synchronous
from tests.store.places import HOW_TO_RUN, postgres_place, postgres_url
from tests.store.programs import FORKED
from tests.store.turns import reply

PROGRAMS = 2
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


def said(chance: random.Random, size: int) -> str:
    return " ".join(chance.choices(_WORDS, k=size // 5))


def append_for(
    url: str, synchronous: Synchronous, sessions: Sequence[str], threads: int, seconds: float, rate: float, seed: int,
    took: "Queue[list[float]]",
) -> None:  # fmt: skip
    """The milliseconds of each turn. A rate of 0 is as fast as it goes."""
    found: list[float] = []
    with Store(url, synchronous=synchronous, pool_size=threads, timeout=120) as store:
        texts = [said(random.Random(seed), size) for size in (300, 700, 1200)]
        store.append(sessions[0], [Message.user("warm")], expected_version=None)
        begin = time.perf_counter()

        def work(number: int) -> None:
            chance = random.Random(1000 * seed + number)
            turn = 0
            while True:
                due = begin + (turn * threads + number) / rate if rate else time.perf_counter()
                if due >= begin + seconds:
                    return
                time.sleep(max(0.0, due - time.perf_counter()))
                messages = [Message.user(chance.choice(texts)[:300]), reply(chance.choice(texts))]
                store.append(chance.choice(sessions), messages, expected_version=None)
                found.append(1000 * (time.perf_counter() - due))
                turn += 1

        running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    took.put(found)


def measure(database: str, *, sessions: int, threads: int, seconds: float, rate: float) -> str:
    synchronous = DATABASES[database]
    with place(database) as url:
        with Store(url, synchronous="normal") as store:
            session_ids = [store.create("anthropic:claude-opus-5-5").id for _ in range(sessions)]
        took: Queue[list[float]] = FORKED.Queue()
        programs = [
            FORKED.Process(
                target=append_for,
                args=(url, synchronous, session_ids, threads, seconds, rate / PROGRAMS, seed, took),
            )
            for seed in range(PROGRAMS)
        ]
        begin = time.perf_counter()
        for program in programs:
            program.start()
        found = sorted(each for _ in programs for each in took.get())
        for program in programs:
            program.join()
        passed = max(seconds, time.perf_counter() - begin - 0.2)
    asked = f"{rate:g}/s" if rate else "most"
    p50, p99 = (found[len(found) * share // 100] for share in (50, 99))
    return f"{database:<15}{sessions:>9}{asked:>9}{len(found):>9}{len(found) / passed:>10.0f}{p50:>9.1f}{p99:>9.1f}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=4, help="of each program")
    parser.add_argument("--rate", type=float, default=1000.0, help="turns a second of both programs together")
    parser.add_argument("databases", nargs="*", help=", ".join(DATABASES))
    chosen = parser.parse_args()
    databases = chosen.databases or list(DATABASES)
    if "postgresql" in databases and postgres_url() is None:
        sys.stderr.write(HOW_TO_RUN + "\n")
        databases.remove("postgresql")
    sys.stdout.write(
        f"{'database':<15}{'sessions':>9}{'asked':>9}{'turns':>9}{'turns/s':>10}{'p50 ms':>9}{'p99 ms':>9}\n"
    )
    for database in databases:
        for rate in (0.0, cast("float", chosen.rate)) if database == "postgresql" else (0.0,):
            line = measure(
                database, sessions=chosen.sessions, threads=chosen.threads, seconds=chosen.seconds, rate=rate
            )
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
