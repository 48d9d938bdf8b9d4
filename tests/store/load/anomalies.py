"""The history checker: compares the notes of each program with the final content of the store.

A program notes a turn before it appends it, and again after the store has acknowledged it. All processes of a machine
take their times from one clock. For each session, with the name of the anomaly otherwise:

- every acknowledged turn is stored once, whole, at the place that its version says (lost, doubled, half, misplaced);

- every other stored turn was begun by a program that was killed before the acknowledgement, and is whole as well
(strange, half);

- a turn that was acknowledged before another was begun comes before it, within one program and between programs
(reordered). So the versions are an order that all programs could have seen: the session is linearizable.
"""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import text

from dragoman.store import Store


@dataclass
class TurnRecord:
    """One turn, as its program saw it. ``acknowledged`` is the time, or None if it never was."""

    session_id: str
    messages: tuple[str, ...]
    started: int
    acknowledged: int | None = None
    version: int | None = None


@dataclass
class StoredSession:
    """One session, as the store holds it in the end."""

    version: int
    messages: list[str]
    calls: dict[str, str | None] = field(default_factory=dict)
    """The answer to the call of each message."""
    mapped: int = 0
    """The number of tool ids in its map."""


class TurnJournal:
    """A program's notes. Each is written before the program continues, so a killed program leaves them."""

    def __init__(self, file: Path) -> None:
        self._file: TextIO = file.open("a", buffering=1, encoding="utf-8")

    def begin(self, session_id: str, messages: Sequence[str]) -> None:
        self._write(begin=messages[0], session=session_id, messages=list(messages))

    def acknowledged(self, first: str, version: int) -> None:
        self._write(acknowledged=first, version=version)

    def failed(self, error: BaseException) -> None:
        self._write(error=repr(error))

    def conflict(self) -> None:
        self._write(conflict=1)

    def _write(self, **entry: Any) -> None:
        self._file.write(json.dumps({**entry, "at": time.monotonic_ns()}) + "\n")


@dataclass
class JournalLog:
    """The notes of all programs."""

    notes: list[TurnRecord] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    conflicts: int = 0

    @property
    def acknowledged(self) -> list[TurnRecord]:
        return [note for note in self.notes if note.acknowledged is not None]

    @property
    def latencies(self) -> list[float]:
        """Milliseconds from the start of a turn to its acknowledgement, sorted."""
        return sorted((note.acknowledged - note.started) / 1e6 for note in self.notes if note.acknowledged is not None)


def read_journals(files: Iterable[Path]) -> JournalLog:
    log = JournalLog()
    for file in sorted(files):
        by_first: dict[str, TurnRecord] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            try:
                raw = json.loads(line)
            except ValueError:
                continue  # killed while it wrote its last line
            if "begin" in raw:
                note = TurnRecord(raw["session"], tuple(raw["messages"]), raw["at"])
                by_first[raw["begin"]] = note
                log.notes.append(note)
            elif "acknowledged" in raw:
                note = by_first[raw["acknowledged"]]
                note.acknowledged, note.version = raw["at"], raw["version"]
            elif "conflict" in raw:
                log.conflicts += 1
            else:
                log.errors.append(raw["error"])
    return log


def stored_sessions(store: Store, session_ids: Iterable[str]) -> dict[str, StoredSession]:
    found = {}
    for session_id in session_ids:
        loaded = store.load(session_id)
        ids = len(loaded.tool_ids["issued"])
        found[session_id] = StoredSession(
            loaded.version, [message.id for message in loaded.messages], _calls(store, session_id), ids
        )
    return found


def _calls(store: Store, session_id: str) -> dict[str, str | None]:
    query = text("SELECT message_id, result_message_id FROM tool_calls WHERE session_id = :id")
    return store._database.read(
        lambda connection: {row[0]: row[1] for row in connection.execute(query, {"id": session_id})}
    )


def find_anomalies(notes: Sequence[TurnRecord], sessions: Mapping[str, StoredSession]) -> list[str]:
    """Every fault, as ``kind: what``; empty if there is none."""
    faults: list[str] = []
    for session_id, session in sessions.items():
        own = [note for note in notes if note.session_id == session_id]
        faults += (f"{fault} in {session_id}" for fault in _session(own, session))
    faults += (
        f"strange: a turn of {note.session_id}, which is not there" for note in notes if note.session_id not in sessions
    )
    return faults


def _session(notes: Sequence[TurnRecord], session: StoredSession) -> Iterator[str]:
    places: dict[str, list[int]] = {}
    for place, message in enumerate(session.messages):
        places.setdefault(message, []).append(place)
    there: list[tuple[int, TurnRecord]] = []
    for note in notes:
        found = [places.get(message, []) for message in note.messages]
        if not any(found):
            if note.acknowledged is not None:
                yield f"lost: {note.messages[0]}"
            continue
        if any(len(spots) > 1 for spots in found):
            yield f"doubled: {note.messages[0]}"
        first = found[0][0] if found[0] else -1
        if [spots[0] if spots else None for spots in found] != list(range(first, first + len(found))):
            yield f"half: {note.messages[0]}"
        elif session.calls.get(note.messages[1], "none") != note.messages[2]:
            yield f"half: {note.messages[0]} without its call"
        there.append((first, note))
    known = sum(len(note.messages) for _, note in there)
    if known < len(session.messages):
        yield f"strange: {len(session.messages) - known} messages"
    if session.mapped != len(there):
        yield f"half: {session.mapped} tool ids for {len(there)} turns"
    if session.version != len(there):
        yield f"misplaced: version {session.version} after {len(there)} turns"
    yield from _order([note for _, note in sorted(there, key=lambda turn: turn[0])])


def _order(turns: Sequence[TurnRecord]) -> Iterator[str]:
    latest = 0
    for version, note in enumerate(turns, 1):
        if note.version is not None and note.version != version:
            yield f"misplaced: {note.messages[0]} was acknowledged as {note.version} and is {version}"
        if note.acknowledged is not None and note.acknowledged < latest:
            yield f"reordered: {note.messages[0]} was acknowledged before the turn in front of it began"
        latest = max(latest, note.started)
