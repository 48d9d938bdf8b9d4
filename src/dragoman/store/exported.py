"""The replies of a store as Parquet files, one folder a day: for cost reports past what a database should be asked.

``FOLDER/day=2026-11-21/part-0.parquet`` has a row for each reply and attempt that was billed on that day, in UTC. Its
columns have the names of `TokenUsage`, so that `Usages` reads it, with the cost as it was recorded; see `COLUMNS`.

A day is written beside its place and moved there when it is whole: who reads meanwhile sees the old file or the new
one. What the store had of the day is noted in the file itself, so that a day that has not changed is known by it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json
from sqlalchemy import ColumnElement, Connection, Table, func, select

from dragoman.adapter import wirejson
from dragoman.canonical.usage import Usage
from dragoman.pricing.quote import EXACT
from dragoman.pricing.rate_sheet import COUNTS, DAY, MONDAY
from dragoman.pricing.recorded import DECIMAL, PLACES, WHOLE, day_of, day_path
from dragoman.pricing.usage_columns import connect, literal, quoted
from dragoman.store.bills import Bill, Read, Wanted, billed, bills
from dragoman.store.columns import micros
from dragoman.store.errors import StoreError
from dragoman.store.records import Exported
from dragoman.store.schema import attempts, messages

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("session_id", "id"), "VARCHAR"),
    "seq": "BIGINT",
    "attempt": "BOOLEAN",
    "at": "TIMESTAMP WITH TIME ZONE",
    **dict.fromkeys(("provider", "model", "user_id", "team_id", "status", "stop_reason"), "VARCHAR"),
    **dict.fromkeys(COUNTS, "BIGINT"),
    "server_tools": "MAP(VARCHAR, BIGINT)",
    **dict.fromkeys(("service_tier", "speed"), "VARCHAR"),
    "unread": "VARCHAR[]",
    "raw": "VARCHAR",
    "cost_usd": DECIMAL,
    "cost_status": "VARCHAR",
    "unpriced": "VARCHAR[]",
    **dict.fromkeys(("pricing_version", "pricing_mode"), "VARCHAR"),
    "latency_ms": "BIGINT",
}
"""Of a day's file, as DuckDB names their types. All that stands in the usage is NULL where a reply has none. ``raw`` is
the provider's usage object as JSON. Where the text was asked for, it is the column ``text``."""

_FORMAT = 1
"""Goes up where a file of the same replies would be another one."""
_NOTE = "dragoman_day"
_AT_ONCE = 1000
_LEAST_LINE = 16 * 1024 * 1024
"""Bytes that DuckDB takes a line of JSON to have at most, if it is not told otherwise."""
_PRIME = 1_000_003
"""What is added up to tell one state of a day from another is taken modulo this, so that no sum overflows."""


def export(
    read: Read, folder: Path, *, since: date | None, until: date | None, text: bool, everything: bool
) -> Exported:
    """Raises MissingExtraError without DuckDB, StoreError where a cost has more digits than a column of Parquet, or the
    folder cannot be written."""
    with connect(threads=1) as connection:
        connection.execute("SET preserve_insertion_order = true")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return _export(connection, read, folder, _Days(since, until), text, everything)
        except OSError as error:
            raise StoreError(f"the folder {str(folder)!r:.200} cannot be written: {error.strerror}") from None


def _export(
    connection: "DuckDBPyConnection", read: Read, folder: Path, days: "_Days", text: bool, everything: bool
) -> Exported:
    # Read before the replies: what is kept in between is noted as missing, and its day is written again next time.
    found = _found(read, days.wanted, text)
    known = {day: note for day, note in _noted(connection, folder) if day in days}
    changed = sorted(day for day, note in found.items() if everything or known.get(day) != note)
    written, replies = [], 0
    if changed:
        with TemporaryDirectory(dir=folder, prefix=".export-") as beside:
            lines = _Lines(Path(beside))
            whole = _Days(changed[0], changed[-1] + timedelta(days=1)).wanted
            lines.add(bills(read, whole, content=text), frozenset(changed), text)
            for day, count in sorted(lines.counts.items()):
                _write(connection, lines, day_path(folder, day), day, found[day], text)
                written.append(day)
                replies += count
    removed = sorted(known.keys() - found.keys())
    for day in removed:
        path = day_path(folder, day)
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it holds something of somebody else's
            path.parent.rmdir()
    return Exported(tuple(written), tuple(sorted(found.keys() - set(changed))), tuple(removed), replies)


@dataclass(frozen=True, slots=True)
class _Days:
    """From the first one on, up to the one before ``until``."""

    since: date | None
    until: date | None

    def __contains__(self, day: date) -> bool:
        return (self.since is None or day >= self.since) and (self.until is None or day < self.until)

    @property
    def wanted(self) -> Wanted:
        return {"since": _midnight(self.since), "until": _midnight(self.until)}


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)


def _found(read: Read, wanted: Wanted, text: bool) -> dict[date, str]:
    """For each day with replies a digest of what the store has of it. Rows never change, so that the sums over them
    tell one state from another, and a database can add them up without handing them over."""
    told: dict[date, list[Any]] = {}
    for table in (messages, attempts):
        for ordinal, *sums in read(_sums(table, wanted)):
            told.setdefault(date.fromordinal(ordinal + 1), []).append([table.name, *map(str, sums)])
    return {day: _digest([_FORMAT, text, *parts]) for day, parts in told.items()}


def _sums(table: Table, wanted: Wanted) -> Any:
    since = table.c.created_at - MONDAY
    day: ColumnElement[int] = since // DAY
    added = (since, table.c.seq, table.c.input_tokens, table.c.output_tokens, table.c.latency_ms)
    chosen = (
        select(day, func.count(), func.min(table.c.id), func.max(table.c.id), *(func.sum(c % _PRIME) for c in added))
        .where(*billed(table, wanted))
        .group_by(day)
    )

    def work(connection: Connection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(chosen)]

    return work


def _digest(parts: Any) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _noted(connection: "DuckDBPyConnection", folder: Path) -> Iterator[tuple[date, str]]:
    """The days of the folder that are ours, and what is noted in their files."""
    import duckdb

    for path in folder.glob(f"day=*/{WHOLE}"):
        day = day_of(path)
        if day is None:
            continue
        query = f"SELECT decode(value) FROM parquet_kv_metadata({literal(str(path))}) WHERE decode(key) = '{_NOTE}'"
        with suppress(duckdb.Error):  # no Parquet, or not ours: it is written anew where the store has such a day
            for (note,) in connection.sql(query).fetchall():
                yield day, note


class _Lines:
    """The rows of each day as lines of JSON in a file of their own, on their way to DuckDB: none is held in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: dict[date, int] = {}
        self.longest = _LEAST_LINE

    def add(self, found: Iterable[Bill], days: frozenset[date], text: bool) -> None:
        found = iter(found)
        while some := tuple(islice(found, _AT_ONCE)):
            lines: dict[date, list[bytes]] = {}
            for bill in some:
                day = bill.message.created_at.date()
                if day in days:  # one that came up since is left for the next time
                    lines.setdefault(day, []).append(to_json(_row(bill, text)) + b"\n")
            for day, written in lines.items():
                with self.path(day).open("ab") as file:
                    file.writelines(written)
                self.counts[day] = self.counts.get(day, 0) + len(written)
                self.longest = max(self.longest, *map(len, written))

    def path(self, day: date) -> Path:
        return self.folder / f"{day}.jsonl"


def _write(connection: "DuckDBPyConnection", lines: _Lines, path: Path, day: date, note: str, text: bool) -> None:
    source, beside = lines.path(day), lines.folder / f"{day}.parquet"
    columns = {**COLUMNS, "text": "VARCHAR"} if text else COLUMNS
    told = ", ".join(f"{quoted(name)}: '{'BIGINT' if name == 'at' else kind}'" for name, kind in columns.items())
    chosen = ", ".join(f'make_timestamptz({quoted("at")}) AS "at"' if n == "at" else quoted(n) for n in columns)
    connection.execute(
        f"COPY (SELECT {chosen} FROM read_json({literal(str(source))}, format = 'newline_delimited',"
        f" columns = {{{told}}}, maximum_object_size = {lines.longest}))"
        f" TO {literal(str(beside))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{_NOTE}: '{note}'}})"
    )
    path.parent.mkdir(exist_ok=True)
    beside.replace(path)
    source.unlink()


def _row(bill: Bill, text: bool) -> dict[str, Any]:
    message, metadata = bill.message, bill.message.metadata
    row = {
        "session_id": message.session_id,
        "id": message.id,
        "seq": bill.seq,
        "attempt": bill.attempt,
        "at": micros(message.created_at),
        "provider": metadata.provider,
        "model": metadata.model,
        "user_id": metadata.user_id,
        "team_id": metadata.team_id,
        "status": metadata.status,
        "stop_reason": metadata.stop_reason,
    }
    if metadata.usage is not None:
        row |= _usage(metadata.usage, message.id)
    return row | {"text": message.text} if text else row


_AS_THEY_ARE = (
    *COUNTS, "server_tools", "service_tier", "speed", "unread", "cost_status", "unpriced", "pricing_version",
    "pricing_mode", "latency_ms",
)  # fmt: skip


def _usage(usage: Usage, message_id: str) -> dict[str, Any]:
    return {
        **{name: getattr(usage, name) for name in _AS_THEY_ARE},
        "raw": None if usage.raw is None else wirejson.dumps_text(usage.raw),
        "cost_usd": None if usage.cost_usd is None else _money(usage.cost_usd, message_id),
    }


_MOST = Decimal(10) ** (38 - PLACES)
_LEAST = Decimal(1).scaleb(-PLACES)


def _money(cost: Decimal, message_id: str) -> str:
    """Raises StoreError where the column would round it."""
    exact = EXACT.quantize(cost, _LEAST) if cost < _MOST else None
    if exact != cost:
        raise StoreError(
            f"the cost of the reply {message_id!r:.80} has more digits than {DECIMAL} holds, and is not rounded"
        )
    return format(exact, "f")
