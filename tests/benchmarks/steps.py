"""What the steps of a turn cost in a store: `python -m tests.benchmarks.steps`.

The ratio of each step's transaction to the one that stores its turn as a whole: a question and its answer, or a
question, a reply that calls a tool, the result and the answer. Wall times and CPU times are medians of one run,
measured in turns. PostgreSQL if DRAGOMAN_TEST_POSTGRES_URL names a database that may be filled. The exit status is 1 if
a step costs more than 1.3 times the turn, in CPU or in time.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.sql import Synchronous
from dragoman.store import Store
from tests.store.databases import postgres_place, postgres_url
from tests.store.turns import reply, tool_turn

GOAL = 1.3
PLAIN, TOOLS = "plain turn", "turn with a tool"
_NUMBERS = count()


@dataclass
class Times:
    """Seconds of each transaction of one kind."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def turn_of(store: Store, session_id: str, version: int, measure: Callable[..., Any]) -> int:
    """Store one turn as a whole and one step by step. Return the version of the session."""
    whole, turn = (tool_turn("word " * 60, tool_ids=ToolIdMap(), native=f"toolu_{next(_NUMBERS)}") for _ in range(2))

    def append(what: str, messages: list[Message], step: TurnStep | None, ids: ToolIdMap | None = None) -> int:
        stored: int = measure(
            what, lambda: store.append(session_id, messages, expected_version=version, tool_ids=ids, step=step)
        )
        return stored

    question = Message.user("word " * 60), reply("word " * 200)
    version = append(PLAIN, [*question], None)
    question = Message.user("word " * 60), reply("word " * 200)
    number = version = append(f"{PLAIN}: prompt", [], TurnStep(begins=True, turn=OpenTurn(prompt=question[:1])))
    version = append(f"{PLAIN}: answer", [*question], TurnStep(number=number, state="done"))

    version = append(TOOLS, whole.messages, None, whole.tool_ids)
    prompt, called, result, answer = turn.messages
    number = version = append(f"{TOOLS}: prompt", [], TurnStep(begins=True, turn=OpenTurn(prompt=(prompt,))))
    version = append(f"{TOOLS}: reply", [prompt, called], None, turn.tool_ids)
    version = append(f"{TOOLS}: start of the call", [], TurnStep(number=number, started={turn.call: "write"}))
    ended = {turn.call: result.tool_results[0]}
    version = append(f"{TOOLS}: end of the call", [], TurnStep(number=number, ended=ended))
    version = append(f"{TOOLS}: results", [result], None, turn.tool_ids)
    return append(f"{TOOLS}: answer", [answer], TurnStep(number=number, state="done"), turn.tool_ids)


def measure(url: str, synchronous: Synchronous, rounds: int) -> dict[str, Times]:
    """Return the times of each kind of transaction."""
    times: dict[str, Times] = {}
    with Store(url, synchronous=synchronous) as store:

        def timed(what: str, work: Callable[[], Any]) -> Any:
            wall, cpu = time.perf_counter(), time.process_time()
            result = work()
            found = times.setdefault(what, Times())
            found.wall.append(time.perf_counter() - wall)
            found.cpu.append(time.process_time() - cpu)
            return result

        for session_id in (f"sess_{number}" for number in range(max(rounds // 20, 1))):
            store.create("anthropic:claude-opus-5-5", [Message.user("Hi"), reply("Hello.")], session_id=session_id)
            version = turn_of(store, session_id, 1, lambda _, work: work())  # warms statements and caches
            for _ in range(20):
                version = turn_of(store, session_id, version, timed)
    return times


@contextmanager
def places() -> Iterator[list[tuple[str, str, Synchronous]]]:
    """The databases that are there."""
    with tempfile.TemporaryDirectory() as folder:
        found: list[tuple[str, str, Synchronous]] = [
            ("sqlite full", f"sqlite:///{Path(folder) / 'full.db'}", "full"),
            ("sqlite normal", f"sqlite:///{Path(folder) / 'normal.db'}", "normal"),
        ]
        server = postgres_url()
        if server is None:
            yield found
        else:
            with postgres_place(server) as url:
                yield [*found, ("postgresql", url, "full")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.steps", description=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    chosen = parser.parse_args()
    sys.stdout.write("| database | transaction | us | us of CPU | ratio | ratio of CPU |\n")
    sys.stdout.write("| --- | --- | --- | --- | --- | --- |\n")
    most = 0.0
    with places() as databases:
        for database, url, synchronous in databases:
            medians = {
                what: (statistics.median(each.wall) * 1e6, statistics.median(each.cpu) * 1e6)
                for what, each in measure(url, synchronous, chosen.rounds).items()
            }
            for what, (wall, cpu) in medians.items():
                whole = medians[what.partition(":")[0]]
                ratios = wall / whole[0], cpu / whole[1]
                most = max(most, *ratios)
                sys.stdout.write(
                    f"| {database} | {what} | {wall:,.0f} | {cpu:,.0f} | {ratios[0]:.2f}x | {ratios[1]:.2f}x |\n"
                )
    sys.stdout.write(f"\nat most {most:.2f}x; goal {GOAL}x\n")
    return int(most > GOAL)


if __name__ == "__main__":
    sys.exit(main())
