"""Programs that append turns, as many concurrent processes."""

import multiprocessing
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from dragoman.sql import Synchronous
from dragoman.store import ConflictError, Store
from tests.packaging.systems import FORKS
from tests.store.load.anomalies import TurnJournal
from tests.store.turns import ToolTurn, tool_turn

FORK_CONTEXT = multiprocessing.get_context("fork" if FORKS else None)
"""A fork of a program that has imported everything is there at once; systems without forks skip these tests."""


def append_turns(
    url: str, session_ids: Sequence[str], count: int | None, notes_file: Path, seed: int, synchronous: Synchronous,
    seconds: float | None = None,
) -> None:  # fmt: skip
    """That many turns, or turns until it is killed, after ``seconds`` of CPU time; every second one on the version that
    it has just seen.
    """
    journal, chance = TurnJournal(notes_file), random.Random(seed)
    if seconds is not None:
        kill_after(seconds)
    try:
        with Store(url, synchronous=synchronous, pool_size=1, timeout=120) as store:
            done = 0
            while count is None or done < count:
                session_id = chance.choice(session_ids)
                turn = tool_turn("?" * chance.randint(1, 400), native=f"toolu_{seed}_{done}")
                if done % 2:
                    _append_to_any(store, session_id, turn, journal)
                else:
                    _append_to_seen(store, session_id, turn, journal)
                done += 1
    except BaseException as error:
        journal.failed(error)
        raise


def _append_to_any(store: Store, session_id: str, turn: ToolTurn, journal: TurnJournal) -> None:
    ids = [message.id for message in turn.messages]
    journal.begin(session_id, ids)
    journal.acknowledged(ids[0], store.append(session_id, turn.messages, expected_version=None, tool_ids=turn.tool_ids))


def _append_to_seen(store: Store, session_id: str, turn: ToolTurn, journal: TurnJournal) -> None:
    ids = [message.id for message in turn.messages]
    journal.begin(session_id, ids)
    seen = store.record(session_id).version
    while (found := _append_on(store, session_id, turn, seen, journal)) is not None:
        assert found > seen
        seen = found


def _append_on(store: Store, session_id: str, turn: ToolTurn, seen: int, journal: TurnJournal) -> int | None:
    """None if the turn was stored, otherwise the current version of the session."""
    try:
        version = store.append(session_id, turn.messages, expected_version=seen, tool_ids=turn.tool_ids)
    except ConflictError as conflict:
        journal.conflict()
        return conflict.found
    assert version == seen + 1
    journal.acknowledged(turn.messages[0].id, version)
    return None


def run_all(count: int, start: Callable[[int], BaseProcess]) -> list[int | None]:
    """The exit codes."""
    programs = [start(number) for number in range(count)]
    for program in programs:
        program.start()
    for program in programs:
        program.join()
    return [program.exitcode for program in programs]


def kill_at_random(kills: int, at_once: int, start: Callable[[int, float], BaseProcess], seed: int) -> int:
    """Runs that many programs, each until its own random moment, while others go on. Returns how many were killed.

    ``start`` gets a number, and the CPU time after which the program kills itself.
    """
    chance, living, killed = random.Random(seed), dict[int, BaseProcess](), 0
    for number in range(kills):
        program = start(number, chance.uniform(0.02, 0.5))
        program.start()
        living[program.sentinel] = program
        if len(living) == at_once:
            killed += _wait_for_some(living)
    while living:
        killed += _wait_for_some(living)
    return killed


def _wait_for_some(living: dict[int, BaseProcess]) -> int:
    """Waits until at least one program has ended, and takes it out. Returns how many were killed."""
    ready = wait(list(living))
    ended = [program for program in living.values() if program.sentinel in ready]
    for program in ended:
        program.join()
        del living[program.sentinel]
    return sum(program.exitcode == -signal.SIGKILL for program in ended)


def kill_after(seconds: float) -> None:
    """Kill this program when it has used that much CPU time: a busy machine does not change what it does until then."""
    last = time.process_time() + seconds

    def watch() -> None:
        while time.process_time() < last:
            time.sleep(0.0005)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def create_sessions(url: str, count: int) -> list[str]:
    with Store(url) as store:
        return [store.create("anthropic:claude-opus-5-5", user_id=f"usr_{number}").id for number in range(count)]
