"""Exports the replies of a store as Parquet files, one folder per day: for cost reports that are too large for a
database.

``FOLDER/day=2026-11-21/part-0.parquet`` has a row for each reply and attempt that was billed on that day, in UTC. Its
columns have the names of `TokenUsage`, so that DuckDB reports over usages read it, with the recorded cost; see
`COLUMNS`.

A day is written to a temporary file that is renamed when it is complete: readers see the old file or the new one. The
file contains a digest of the store's rows of that day, so that an unchanged day is recognized.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from pydantic_core import to_json

from dragoman.adapter import wirejson
from dragoman.pricing.analytics.rate_sheet import COUNTS, DAY, MONDAY
from dragoman.pricing.analytics.usage_columns import connect, quote_identifier, quote_literal
from dragoman.pricing.analytics.usages import DECIMAL, PART_NAME, PLACES, day_of, day_path
from dragoman.pricing.quote import EXACT
from dragoman.store.columns import to_micros, wrong_class
from dragoman.store.errors import StoreError
from dragoman.store.records import ExportResult
from dragoman.store.reports import (
    BilledReply,
    BillingFilters,
    ReadTransaction,
    all_rows,
    billed_conditions,
    iter_billed_replies,
)
from dragoman.store.schema import attempts, messages

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

METADATA_FIELDS = ("provider", "model", "user_id", "team_id", "status", "stop_reason")
"""Fields of the metadata itself; the others are in its usage."""
COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("session_id", "id"), "VARCHAR"),
    "seq": "BIGINT",
    "attempt": "BOOLEAN",
    "at": "TIMESTAMP WITH TIME ZONE",
    **dict.fromkeys(METADATA_FIELDS, "VARCHAR"),
    **dict.fromkeys(COUNTS, "BIGINT"),
    "server_tools": "MAP(VARCHAR, BIGINT)",
    "terms": "MAP(VARCHAR, VARCHAR)",
    **dict.fromkeys(("service_tier", "speed"), "VARCHAR"),
    "unread": "VARCHAR[]",
    "raw": "VARCHAR",
    "cost_usd": DECIMAL,
    "cost_status": "VARCHAR",
    "unpriced": "VARCHAR[]",
    **dict.fromkeys(("pricing_version", "pricing_mode"), "VARCHAR"),
    "latency_ms": "BIGINT",
}
"""The columns of a day's file with their DuckDB types. Usage columns are NULL if a reply has no usage. ``raw`` is the
provider's usage object as JSON. With the text requested, it is the column ``text``.
"""

_FORMAT = 1
"""Increased whenever the same replies produce a different file."""
_NOTE_KEY = "dragoman_day"
_BATCH_SIZE = 1000
_MIN_LINE_SIZE = 16 * 1024 * 1024
"""DuckDB's default maximum of bytes per JSON line."""
_PRIME = 1_000_003
"""The sums that identify a state of a day are taken modulo this, so that none overflows."""
_MAX_COST = Decimal(10) ** (38 - PLACES)
_SMALLEST_COST = Decimal(1).scaleb(-PLACES)


def export(
    read: ReadTransaction, folder: Path, *, since: date | None, until: date | None, text: bool, overwrite: bool
) -> ExportResult:
    """Write the replies as Parquet, one file per day. Raises MissingExtraError without DuckDB, and StoreError if a cost
    has more digits than a Parquet column, or the folder cannot be written.
    """
    # Read before the replies: if one is added in between, the digest lacks it, and its day is written again next time.
    digests = _day_digests(read, {"since": _midnight(since), "until": _midnight(until)}, text)
    first, end = since or date.min, until or date.max
    replies: dict[date, int] = {}
    with connect(threads=1) as connection:
        connection.execute("SET preserve_insertion_order = true")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            known = {day: note for day, note in _read_notes(connection, folder) if first <= day < end}
            changed = sorted(day for day, note in digests.items() if overwrite or known.get(day) != note)
            if changed:
                with TemporaryDirectory(dir=folder, prefix=".export-") as temporary:
                    lines = _DayFiles(Path(temporary))
                    span = {"since": _midnight(changed[0]), "until": _midnight(changed[-1] + timedelta(days=1))}
                    lines.add(iter_billed_replies(read, span, content=text), frozenset(changed), text)
                    replies = dict(sorted(lines.counts.items()))
                    for day in replies:
                        _write(connection, lines, day_path(folder, day), day, digests[day], text)
            removed = sorted(known.keys() - digests.keys())
            for day in removed:
                path = day_path(folder, day)
                path.unlink(missing_ok=True)
                with suppress(OSError):  # it contains files of others
                    path.parent.rmdir()
        except OSError as error:
            raise StoreError(f"the folder {str(folder)!r:.200} cannot be written: {error.strerror}") from None
    unchanged = sorted(digests.keys() - set(changed))
    return ExportResult(tuple(replies), tuple(unchanged), tuple(removed), sum(replies.values()))


def _midnight(day: date | None) -> datetime | None:
    if not isinstance(day, date | None) or isinstance(day, datetime):
        raise wrong_class("a day", "a date, such as date(2026, 1, 31),", day)
    return None if day is None else datetime.combine(day, time(), UTC)


def _day_digests(read: ReadTransaction, filters: BillingFilters, text: bool) -> dict[date, str]:
    """Return a digest of the store's rows for each day with replies. Rows never change, so sums over them identify a
    state, and a database can compute them without sending the rows.
    """
    parts_by_day: dict[date, list[Any]] = {}
    for table in (messages, attempts):
        offset = table.c.created_at - MONDAY
        of_day: sa.ColumnElement[int] = offset // DAY
        summed = (offset, table.c.seq, table.c.input_tokens, table.c.output_tokens, table.c.latency_ms)
        sums_of_days = (
            sa.select(of_day, sa.func.count(), sa.func.min(table.c.id), sa.func.max(table.c.id))
            .add_columns(*(sa.func.sum(column % _PRIME) for column in summed))
            .where(*billed_conditions(table, filters))
            .group_by(of_day)
        )
        for ordinal, *sums in read(all_rows(sums_of_days)):
            parts_by_day.setdefault(date.fromordinal(ordinal + 1), []).append([table.name, *map(str, sums)])
    return {
        day: blake2b(json.dumps([_FORMAT, text, *parts]).encode(), digest_size=16).hexdigest()
        for day, parts in parts_by_day.items()
    }


def _read_notes(connection: "DuckDBPyConnection", folder: Path) -> Iterator[tuple[date, str]]:
    """Yield the days of the folder that are ours, with the digests in their files."""
    import duckdb

    for path in folder.glob(f"day=*/{PART_NAME}"):
        day = day_of(path)
        if day is None:
            continue
        source = quote_literal(str(path))
        query = f"SELECT decode(value) FROM parquet_kv_metadata({source}) WHERE decode(key) = '{_NOTE_KEY}'"
        with suppress(duckdb.Error):  # not Parquet, or not ours: overwritten if the store has such a day
            for (note,) in connection.sql(query).fetchall():
                yield day, note


class _DayFiles:
    """Writes the rows of each day as JSON lines to a file for DuckDB: none is held in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.counts: dict[date, int] = {}
        self.max_line_size = _MIN_LINE_SIZE

    def add(self, replies: Iterable[BilledReply], days: frozenset[date], text: bool) -> None:
        replies = iter(replies)
        while batch := tuple(islice(replies, _BATCH_SIZE)):
            lines: dict[date, list[bytes]] = {}
            for reply in batch:
                day = reply.message.created_at.date()
                if day in days:  # a day that appeared since then waits for the next export
                    lines.setdefault(day, []).append(to_json(_to_row(reply, text)) + b"\n")
            for day, written in lines.items():
                with self.path(day).open("ab") as file:
                    file.writelines(written)
                self.counts[day] = self.counts.get(day, 0) + len(written)
                self.max_line_size = max(self.max_line_size, *map(len, written))

    def path(self, day: date) -> Path:
        return self.folder / f"{day}.jsonl"


def _write(connection: "DuckDBPyConnection", lines: _DayFiles, path: Path, day: date, note: str, text: bool) -> None:
    source, temporary = lines.path(day), lines.folder / f"{day}.parquet"
    columns = {**COLUMNS, "text": "VARCHAR"} if text else COLUMNS
    json_columns = ", ".join(
        f"{quote_identifier(name)}: '{'BIGINT' if name == 'at' else kind}'" for name, kind in columns.items()
    )
    selected = ", ".join(
        f'make_timestamptz({quote_identifier("at")}) AS "at"' if n == "at" else quote_identifier(n) for n in columns
    )
    connection.execute(
        f"COPY (SELECT {selected} FROM read_json({quote_literal(str(source))}, format = 'newline_delimited',"
        f" columns = {{{json_columns}}}, maximum_object_size = {lines.max_line_size}))"
        f" TO {quote_literal(str(temporary))} (FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{_NOTE_KEY}: '{note}'}})"
    )
    path.parent.mkdir(exist_ok=True)
    temporary.replace(path)
    source.unlink()


def _to_row(bill: BilledReply, text: bool) -> dict[str, Any]:
    message, metadata = bill.message, bill.message.metadata
    row = {
        "session_id": message.session_id,
        "id": message.id,
        "seq": bill.seq,
        "attempt": bill.attempt,
        "at": to_micros(message.created_at),
        **{name: getattr(metadata, name) for name in METADATA_FIELDS},
    }
    if (usage := metadata.usage) is not None:
        row |= {name: getattr(usage, name) for name in COLUMNS if name not in row}
        row["raw"] = None if usage.raw is None else wirejson.dumps_text(usage.raw)
        row["cost_usd"] = None
        if (cost := usage.cost_usd) is not None:
            exact = EXACT.quantize(cost, _SMALLEST_COST) if cost < _MAX_COST else None
            if exact != cost:  # the column would round it
                raise StoreError(
                    f"the cost of the reply {message.id!r:.80} has more digits than {DECIMAL} can hold, and rounding is"
                    " not allowed"
                )
            row["cost_usd"] = format(exact, "f")
    return row | {"text": message.text} if text else row
