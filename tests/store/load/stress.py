"""The large store runs: `python -m tests.store.load.stress`, with a ledger of lost, doubled and reordered turns.

16 programs append 1,000 turns each, to sessions of their own and to shared ones; then 500 programs are killed at random
moments. On SQLite, and on PostgreSQL if DRAGOMAN_TEST_POSTGRES_URL names a database that may be filled. A history
checker (`tests/store/load/anomalies.py`) judges by the notes of the programs. The exit status is 1 if anything went
wrong. `--json` prints one row per line.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from dragoman.store import Store
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url
from tests.store.load import integrity
from tests.store.load.anomalies import find_anomalies, read_journals, stored_sessions
from tests.store.load.writers import FORK_CONTEXT, append_turns, create_sessions, kill_at_random, run_all

KINDS = ("lost", "doubled", "half", "misplaced", "reordered", "strange")
SHARED = 4


@dataclass
class RunRow:
    run: str
    database: str
    programs: int
    requested: int
    """Turns to append; 0 if the programs ran until they were killed."""
    killed: int = 0
    started: int = 0
    acknowledged: int = 0
    unacknowledged: int = 0
    """Turns that are there though their program did not live to be acknowledged."""
    conflicts: int = 0
    errors: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    integrity: int = 0
    seconds: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    seed: int = 0

    @property
    def good(self) -> bool:
        return not (
            self.errors
            or sum(self.faults.values())
            or self.integrity
            or (self.requested and self.acknowledged != self.requested)
        )


@contextmanager
def place(database: str) -> Iterator[str]:
    if database == "postgresql":
        server = postgres_url()
        assert server is not None
        with postgres_place(server) as url:
            yield url
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield f"sqlite:///{folder}/sessions.db"


def run(name: str, database: str, *, programs: int, turns: int, kills: int, seed: int) -> RunRow:
    row = RunRow(name, database, programs, requested=0 if kills else programs * turns, seed=seed)
    with place(database) as url, tempfile.TemporaryDirectory() as logs:
        session_ids = create_sessions(url, programs if name == "separate" else SHARED)

        def start(number: int, seconds: float | None = None) -> BaseProcess:
            own = [session_ids[number]] if name == "separate" else session_ids
            count = None if kills else turns
            notes = Path(logs) / f"{number}.log"
            return FORK_CONTEXT.Process(
                target=append_turns, args=(url, own, count, notes, 1000 * seed + number, "full", seconds)
            )

        began = time.monotonic()
        if kills:
            row.killed = kill_at_random(kills, programs, start, seed)
        else:
            row.errors += sum(code != 0 for code in run_all(programs, start))
        row.seconds = time.monotonic() - began
        log = read_journals(Path(logs).glob("*.log"))
        with Store(url) as store:
            found = stored_sessions(store, session_ids)
            faults = find_anomalies(log.notes, found)
            row.integrity = len(integrity.faults(store))
    row.started, row.acknowledged, row.conflicts = len(log.notes), len(log.acknowledged), log.conflicts
    row.unacknowledged = sum(session.version for session in found.values()) - row.acknowledged
    row.errors += len(log.errors)
    row.faults = {kind: sum(fault.startswith(kind) for fault in faults) for kind in KINDS}
    took = log.latencies
    row.p50_ms, row.p99_ms = took[len(took) // 2], took[len(took) * 99 // 100]
    for line in [*faults[:5], *log.errors[:5]]:
        sys.stderr.write(f"{name} on {database}: {line}\n")
    return row


def table(rows: list[RunRow]) -> str:
    return "\n".join(["".join(f"{name:>12}" for name in _cells(rows[0])), *map(_line, rows)])


def _line(row: RunRow) -> str:
    return "".join(f"{value:>12}" for value in _cells(row).values())


def _cells(row: RunRow) -> dict[str, str]:
    rates = {
        "seconds": row.seconds,
        "turns/s": row.acknowledged / row.seconds,
        "p50 ms": row.p50_ms,
        "p99 ms": row.p99_ms,
    }
    counts = ("programs", "killed", "begun", "kept", "unheard", "conflicts", "errors")
    return {
        "run": row.run,
        "database": row.database,
        **{name: str(getattr(row, name)) for name in counts},
        **{kind: str(row.faults[kind]) for kind in KINDS},
        "integrity": str(row.integrity or "ok"),
        **{name: f"{value:.1f}" for name, value in rates.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.load.stress", description=__doc__)
    parser.add_argument("--programs", type=int, default=16)
    parser.add_argument("--turns", type=int, default=1000, help="of each program")
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    parser.add_argument("databases", nargs="*", choices=["sqlite", "postgresql", []], help="only these")
    chosen = parser.parse_args()
    databases = chosen.databases or (["sqlite", "postgresql"] if postgres_url() else ["sqlite"])
    if "postgresql" not in databases:
        sys.stderr.write(SKIP_REASON + "\n")
    rows = []
    for database in databases:
        for name, kills in (("separate", 0), ("shared", 0), ("killed", chosen.kills)):
            programs = min(8, chosen.programs) if kills else chosen.programs
            rows.append(run(name, database, programs=programs, turns=chosen.turns, kills=kills, seed=chosen.seed))
            sys.stderr.write(table(rows[-1:]) + "\n")
    sys.stdout.write(("\n".join(json.dumps(asdict(row)) for row in rows) if chosen.json else table(rows)) + "\n")
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
