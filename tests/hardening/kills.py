"""Programs that are killed in the middle of turns: `python -m tests.hardening.kills`.

Each program goes on with a session that an earlier one has left, asks, and runs tools, until SIGKILL ends it at a
random moment. Its tools and the answers that it received are noted in a file. At the end each session is completed, and
compared with the notes. PostgreSQL if DRAGOMAN_TEST_POSTGRES_URL names a database that may be filled.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import event

from dragoman.adapter.errors import ProviderError
from dragoman.session import Session, Tool, tool
from dragoman.store import ConflictError, Store
from dragoman.tools.context import Context
from tests.store.databases import postgres_place, postgres_url
from tests.store.load import integrity
from tests.store.load.writers import FORK_CONTEXT, kill_after
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

MODEL = "anthropic:claude-opus-5-5"
KILLS = 500
SEED = 20261122
_AT_ONCE = 4
_LONGEST = 0.1
"""Seconds of CPU until the latest kill: a few turns."""
_SESSIONS = 40
_EFFECTS = ("write", "network", "read", "none")
_REPEATABLE = ("read", "none")


@dataclass(frozen=True)
class Row:
    """What the kills of one database have done. From ``lost`` on, everything has to be 0."""

    database: str
    kills: int
    received: int
    """Messages that a program received as part of an answer."""
    runs: int
    """Calls that ran."""
    interrupted: int
    """Calls that may have run when their program was killed."""
    lost: int
    """Answers that a program received, and results that it noted, which the store does not have."""
    twice: int
    """Calls with side effects that ran twice."""
    unnoticed: int
    """Calls that ran, and of which the store does not know that they may have run."""
    orphans: int
    unfinished: int
    """Sessions that could not be completed."""

    @property
    def enough(self) -> bool:
        faults = self.lost + self.twice + self.unnoticed + self.orphans + self.unfinished
        return self.kills > 0 and self.runs > 0 and faults == 0


class Notes:
    """A file that survives the kill of its program: each line is one write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def add(self, *note: str) -> None:
        os.write(self._file, json.dumps(note).encode() + b"\n")

    def read(self) -> list[list[str]]:
        return [json.loads(line) for line in self._path.read_bytes().splitlines()]


class Moments:
    """Moments between which a program does one thing. It is killed at the one of that number, if any."""

    def __init__(self, last: int | None) -> None:
        self._left = last
        self._lock = threading.Lock()

    def go_by(self, *_: Any) -> None:
        with self._lock:
            if self._left is None:
                return
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def watch(self, store: Store) -> None:
        """Count a moment before each commit of the store, and one after it."""
        event.listen(store._database.engine, "commit", self.go_by)
        event.listen(store._database.engine, "checkin", self.go_by)


class Provider:
    """Answers with up to three calls, or with a text, by how long the conversation is; sometimes it fails."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def __call__(self, request: httpx.Request) -> httpx.Response:
        messages = json.loads(request.content)["messages"]
        number = self._seed + 7 * len(messages)
        if number % 13 == 0:
            error = {"type": "invalid_request_error", "message": "no"}
            return httpx.Response(400, json={"type": "error", "error": error})
        is_answer = any(block["type"] == "tool_result" for block in messages[-1]["content"] if isinstance(block, dict))
        count = number % 4 if not is_answer or number % 3 == 0 else 0
        calls = [Call(f"toolu_{len(messages)}_{index}", _EFFECTS[(number + index) % 4]) for index in range(count)]
        return httpx.Response(200, json=json.loads(handwritten_anthropic(*calls or ["Done."]).body))


def _tools(notes: Notes, moments: Moments) -> list[Tool]:
    def make(effect: str) -> Tool:
        @tool(name=effect, side_effects=effect)
        def run(context: Context[None]) -> str:
            """Do something."""
            moments.go_by()
            notes.add("ran", effect, context.tool_use_id)
            moments.go_by()
            return f"{effect} ran"

        return run

    return [make(effect) for effect in _EFFECTS]


@contextmanager
def _open_session(store: Store, session_id: str, notes: Notes, moments: Moments, seed: int) -> Iterator[Session]:
    settings: dict[str, Any] = {
        "tools": _tools(notes, moments),
        "providers": {
            "anthropic": {
                "client": httpx.Client(transport=httpx.MockTransport(Provider(seed))),
                "api_key": "key-of-a-test",
            }
        },
    }
    exists = any(record.id == session_id for record in store.list(limit=1000).sessions)
    session = (
        Session.resume(session_id, store, **settings)
        if exists
        else Session(MODEL, session_id=session_id, store=store, **settings)
    )
    with session:
        yield session


def converse(
    url: str,
    session_id: str,
    notes_file: Path,
    seed: int,
    turns: int | None = None,
    *,
    last_moment: int | None = None,
    seconds: float | None = None,
) -> None:
    """Go on with the session for that many turns, or until the program is killed: at a moment, or after that much CPU
    time.
    """
    notes, moments = Notes(notes_file), Moments(last_moment)
    with Store(url, pool_size=1, timeout=120) as store:
        moments.watch(store)
        if seconds is not None:
            kill_after(seconds)
        while turns is None or turns > 0:
            try:
                with _open_session(store, session_id, notes, moments, seed) as session:
                    while turns is None or turns > 0:
                        turns = None if turns is None else turns - 1
                        _ask(session, notes)
            except ConflictError:  # another program has gone on with the session
                continue


def _ask(session: Session, notes: Notes) -> None:
    unfinished = session.unfinished
    for call in () if unfinished is None else unfinished.may_have_run:
        notes.add("interrupted", call.name, call.id)
    try:
        reply = session.ask("Go on." if unfinished is None else None)
    except ProviderError:
        notes.add("failed", session.session_id)
        return
    for message in reply.messages:
        notes.add("answered", session.session_id, message.id)


def kill_at_moments(count: int, start: Callable[..., BaseProcess]) -> int:
    """Run that many programs one after the other, each until its next moment. Return how many were killed."""
    killed = 0
    for moment in range(1, count + 1):
        program = start(moment, last_moment=moment)
        program.start()
        program.join()
        killed += program.exitcode == -signal.SIGKILL
    return killed


def kill_at_random(count: int, seed: int, start: Callable[..., BaseProcess]) -> int:
    """Run that many programs, some at the same time, each until a random moment. Return how many were killed."""
    chance, killed = random.Random(seed), 0
    for first in range(0, count, _AT_ONCE):
        programs = [
            start(number, seconds=chance.uniform(0, _LONGEST)) for number in range(first, min(first + _AT_ONCE, count))
        ]
        for program in programs:
            program.start()
        for program in programs:
            program.join()
            killed += program.exitcode == -signal.SIGKILL
    return killed


def measure(database: str, url: str, folder: Path, kill: Callable[[Callable[..., BaseProcess]], int], seed: int) -> Row:
    """Kill programs on the store at a URL, and compare the store with what they have noted."""
    notes_file = folder / f"{database}.notes"
    notes = Notes(notes_file)
    Store(url).close()

    def start(number: int, **how: Any) -> BaseProcess:
        session_id = f"sess_{number % _SESSIONS}"
        return FORK_CONTEXT.Process(target=converse, args=(url, session_id, notes_file, seed + number), kwargs=how)

    killed = kill(start)
    with Store(url) as store:
        unnoticed = _unnoticed(store, notes)
        session_ids = [record.id for record in store.list(limit=1000).sessions]
        for session_id in session_ids:
            _complete(url, session_id, notes_file, seed)
        stored = {session_id: store.load(session_id) for session_id in session_ids}
        ids = {message.id for each in stored.values() for message in each.messages}
        read = notes.read()
        ran = Counter((effect, call) for kind, effect, call in (note for note in read if note[0] == "ran"))
        return Row(
            database=database,
            kills=killed,
            received=sum(note[0] == "answered" for note in read),
            runs=ran.total(),
            interrupted=len({note[2] for note in read if note[0] == "interrupted"}),
            lost=sum(note[0] == "answered" and note[2] not in ids for note in read),
            twice=sum(times > 1 for (effect, _), times in ran.items() if effect not in _REPEATABLE),
            unnoticed=unnoticed,
            orphans=len(integrity.faults(store)),
            unfinished=len(store.unfinished()) + sum(_has_open_calls(each.messages) for each in stored.values()),
        )


def _unnoticed(store: Store, notes: Notes) -> int:
    """How many calls have run of which the store knows nothing."""
    with_start = {
        row[0]
        for row in store._database.read(
            lambda connection: connection.exec_driver_sql(
                "SELECT id FROM tool_calls WHERE started_at IS NOT NULL"
            ).all()
        )
    }
    return sum(note[0] == "ran" and note[2] not in with_start for note in notes.read())


def _complete(url: str, session_id: str, notes_file: Path, seed: int) -> None:
    """Go on with the session until its last turn has an answer."""
    for attempt in range(20):
        with Store(url) as store:
            if store.load(session_id).turn is None:
                return
        converse(url, session_id, notes_file, seed + attempt, turns=1)


def _has_open_calls(messages: Iterable[Any]) -> bool:
    answered = {result.tool_use_id for message in messages for result in message.tool_results}
    return any(call.id not in answered for message in messages for call in message.tool_uses)


def rows(kills: int, seed: int) -> Iterator[Row]:
    """A row for each database that is there."""
    server = postgres_url()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kill = partial(kill_at_random, kills, seed)
        yield measure("sqlite", f"sqlite:///{folder / 'sessions.db'}", folder, kill, seed)
        with nullcontext(None) if server is None else postgres_place(server) as url:
            if url is not None:
                yield measure("postgresql", url, folder, kill, seed)


def lines(found: Iterable[Row]) -> Iterator[str]:
    """The table."""
    names = ("kills", "received", "runs", "interrupted", "lost", "twice", "unnoticed", "orphans", "unfinished")
    yield f"{'killed programs':<16}" + "".join(f"{name:>13}" for name in names)
    for row in found:
        yield f"{row.database:<16}" + "".join(f"{getattr(row, name):>13}" for name in names)


def main() -> int:
    """Return the exit status: 1 if anything was lost or done twice."""
    parser = argparse.ArgumentParser(prog="python -m tests.hardening.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=SEED)
    chosen = parser.parse_args()
    found: list[Row] = []

    def noted() -> Iterator[Row]:
        for row in rows(chosen.kills, chosen.seed):
            found.append(row)
            yield row

    for line in lines(noted()):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
    return 0 if all(row.enough for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
