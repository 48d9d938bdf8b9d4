"""The cost of reports over a store: `python -m tests.store.reporting.benchmark`, as stores grow.

A SQLite store is filled with replies over thirty days. `Store.bills` adds up its costs by day and team in Python; it is
exported as Parquet, and exported again after one more turn; DuckDB makes the same report from the files, from one day
of them, and from the store itself if DuckDB has its extension for it. Each in a process of its own: `MB` is its peak
memory.

The exit status is 1 if the reports differ in any digit, or the memory of an export grows with the store.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

from sqlalchemy import text

from dragoman.adapter.errors import MissingExtraError
from dragoman.canonical.message import Message
from dragoman.cli.cost.sources import ALWAYS, Repricing, Source, Span, read_attached_store, read_export, read_store
from dragoman.pricing.analytics.cost_lines import CostLine
from dragoman.store import Store
from tests.store.load.writers import FORK_CONTEXT
from tests.store.turns import change, reply

START = datetime(2026, 11, 1, tzinfo=UTC)
DAYS = 30
BY = ("day", "team")
EACH = 1000
"""Replies of a session."""
MOST_GROWTH = 1.5
"""An export of ten times as many replies uses less than that many times the memory."""


def fill_store(store: Store, replies: int) -> None:
    """Sessions of a thousand replies, copied from one that was stored normally."""
    step = DAYS * timedelta(days=1) / EACH
    messages = [
        reply("a", team_id=f"team_{number % 20}", user_id=f"usr_{number}").model_copy(
            update={"created_at": START + number * step}
        )
        for number in range(EACH)
    ]
    store.create("anthropic:claude-opus-5-5", messages, session_id="sess_0")
    columns = {row[1] for row in _rows(store, "PRAGMA table_info(messages)")} - {
        "number", "id", "session_id", "search_text",
    }  # fmt: skip
    copied = ", ".join(sorted(columns))
    numbers = f"WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n + 1 < {replies // EACH})"
    own = ", ".join(f"s.{row[1]}" for row in _rows(store, "PRAGMA table_info(sessions)") if row[1] != "id")
    names = own.replace("s.", "")
    if replies > EACH:
        change(store, f"INSERT INTO sessions (id, {names}) {numbers} SELECT 'sess_' || n, {own} FROM sessions s, n")
        change(
            store,
            f"INSERT INTO messages (id, session_id, {copied}) {numbers}"
            f" SELECT id || '_' || n, 'sess_' || n, {copied} FROM n, messages"
            " WHERE session_id = 'sess_0'",
        )


def _rows(store: Store, query: str) -> list[Any]:
    return store._database.read(lambda connection: list(connection.execute(text(query))))


def measure(work: Callable[[], Any]) -> tuple[Any, float, float, float]:
    """The result, its seconds, those of the processor, and its memory in MB."""
    results: Queue[Any] = FORK_CONTEXT.Queue()

    def run() -> None:
        began, cpu = time.perf_counter(), time.process_time()
        found = work()
        took = time.perf_counter() - began, time.process_time() - cpu
        results.put((found, *took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))

    process = FORK_CONTEXT.Process(target=run)
    process.start()
    found: tuple[Any, float, float, float] = results.get()
    process.join()
    return found


def sum_replies(source: Source, span: Span = ALWAYS) -> list[CostLine]:
    return list(source.lines(BY, Repricing(), span))


def _attached_report(url: str) -> list[CostLine] | None:
    """None if DuckDB has no extension for it."""
    try:
        return sum_replies(Source(read_attached_store, url))
    except MissingExtraError:
        return None


def compare_reports(replies: int) -> tuple[list[dict[str, Any]], bool]:
    """The rows of the table, and whether the reports agree."""
    with tempfile.TemporaryDirectory() as place:
        url, folder = f"sqlite:///{place}/sessions.db", Path(place) / "replies"
        with Store(url, synchronous="normal") as store:
            fill_store(store, replies)

        def export() -> Any:
            with Store(url) as store:
                return store.export_replies(folder)

        def export_again() -> Any:
            late = [Message.user("?"), reply("!").model_copy(update={"created_at": START})]
            with Store(url) as store:
                store.append("sess_0", late, expected_version=None)
                return store.export_replies(folder)

        day = Span(START + timedelta(days=9), START + timedelta(days=10))
        runs: dict[str, Callable[[], Any]] = {
            "export": export,
            "export, one day changed": export_again,
            "report of the store": lambda: sum_replies(Source(read_store, url)),
            "report of the files": lambda: sum_replies(Source(read_export, folder)),
            "report of the store, attached": lambda: _attached_report(url),
            "one day of the store": lambda: sum_replies(Source(read_store, url), day),
            "one day of the files": lambda: sum_replies(Source(read_export, folder), day),
        }
        rows, found = [], {}
        for name, work in runs.items():
            found[name], seconds, cpu, memory = measure(work)
            rows.append({"what": name, "replies": replies, "seconds": seconds, "cpu s": cpu, "MB": memory})
            sys.stderr.write(f"{_line(rows[-1])}\n")
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        rows.append({"what": "bytes a reply", "replies": replies, "in the files": size / replies,
                     "in the store": Path(place, "sessions.db").stat().st_size / replies})  # fmt: skip
        sys.stderr.write(f"{_line(rows[-1])}\n")
    same = (
        found["report of the store"] == found["report of the files"]
        and found["report of the store, attached"] in (None, found["report of the files"])
        and found["one day of the store"] == found["one day of the files"]
        and len(found["export, one day changed"].written) == 1
    )
    return rows, same


def _line(row: dict[str, Any]) -> str:
    what, replies, *figures = row.items()
    line = "".join(f"{value:>12,.1f} {name}" for name, value in figures)
    return f"{what[1]:<30}{replies[1]:>12,}{line}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.store.reporting.benchmark", description=__doc__)
    parser.add_argument("--replies", type=int, default=1_000_000, help="once so many, and before that a tenth of them")
    parser.add_argument("--json", action="store_true", help="one JSON object a row")
    chosen = parser.parse_args()
    few, same_few = compare_reports(chosen.replies // 10)
    many, same_many = compare_reports(chosen.replies)
    if chosen.json:
        sys.stdout.write("".join(json.dumps(row) + "\n" for row in (*few, *many)))
    grown = many[0]["MB"] / few[0]["MB"]
    sys.stdout.write(f"the same figures: {same_few and same_many}; memory of the export, ten times: {grown:.2f}\n")
    return int(not (same_few and same_many) or grown > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
