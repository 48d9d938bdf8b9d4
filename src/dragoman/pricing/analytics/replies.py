"""The cost of replies in a folder that `Store.export_replies` wrote: as recorded, or repriced.

The folder has one Parquet file a day, ``day=2026-11-21/part-0.parquet``. A report over some days opens only their
files. DuckDB adds up; the figures equal those of the store to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.usage import CostStatus
from dragoman.canonical.words import read_word
from dragoman.pricing.analytics.usage_columns import between_condition, connect, quote_literal
from dragoman.pricing.analytics.usages import GROUPS, Usages, as_request_error
from dragoman.pricing.cost_lines import CostLine, sum_by_key
from dragoman.pricing.table import PriceTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

PLACES = 24
"""Decimal places of a cost in US dollars, of 38 digits in all."""
DECIMAL = f"DECIMAL(38, {PLACES})"

PART_NAME = "part-0.parquet"
"""The name of a day's file: there is only one, so a day is replaced atomically."""

_DAY = "day="
_ESCAPED = {"[": "[[]", "*": "[*]", "?": "[?]"}
"""Characters of a path that DuckDB reads as a pattern, and their escaped form."""
_REQUIRED_COLUMNS = frozenset(
    {"at", "model", "provider", "user_id", "team_id", "session_id", "cost_usd", "cost_status"}
)

_KEYS = {
    "model": "model",
    "provider": "coalesce(nullif(provider, ''), nullif(split_part(model, ':', 1), ''))",
    "day": "strftime(\"at\" AT TIME ZONE 'UTC', '%Y-%m-%d')",
    "user": "user_id",
    "team": "team_id",
    "session": "nullif(session_id, '')",
}


def day_path(folder: Path, day: date) -> Path:
    """Return the path of a day's replies."""
    return folder / f"{_DAY}{day}" / PART_NAME


def day_of(path: Path) -> date | None:
    """Return the day in the name of the file's folder, or None if the folder is not a day's."""
    try:
        return date.fromisoformat(path.parent.name.removeprefix(_DAY)) if path.parent.name.startswith(_DAY) else None
    except ValueError:
        return None


class RecordedReplies:
    """Replies as rows of DuckDB, with the recorded cost of each."""

    def __init__(self, connection: DuckDBPyConnection, relation: DuckDBPyRelation) -> None:
        self._connection = connection
        self._relation = relation

    def costs(self, by: Sequence[str] = ()) -> tuple[CostLine, ...]:
        """Return the recorded cost: one line for each group (see `GROUPS`), or one in all.

        Raises RequestError for an unknown group.
        """
        return self._sum_recorded(self._relation, by)

    def reprice(
        self,
        by: Sequence[str] = (),
        table: PriceTable | None = None,
        *,
        version: str | None = None,
        at: datetime | None = None,
        as_model: str | None = None,
    ) -> tuple[CostLine, ...]:
        """Return the cost at other prices; the arguments are those of `Usages.costs`. A reply without token counts or
        without a model keeps its recorded cost.
        """
        known = "cost_status IS NOT NULL AND model IS NOT NULL"
        priced = Usages(self._relation.filter(known)).costs(by, table, version=version, at=at, as_model=as_model)
        others = self._sum_recorded(self._relation.filter(f"NOT ({known})"), by)
        return sum_by_key((*priced, *others))

    def usages(self) -> DuckDBPyRelation:
        """Return the rows as a relation. The columns are those of `dragoman.store.reports.export.COLUMNS`."""
        return self._relation

    def _sum_recorded(self, relation: DuckDBPyRelation, by: Sequence[str]) -> tuple[CostLine, ...]:
        if unknown := [name for name in by if name not in _KEYS]:
            raise RequestError(f"costs can be grouped by {', '.join(GROUPS)}, not by {unknown[0]!r}")
        with as_request_error():
            return sum_by_key(_lines(relation, by))


class Replies(RecordedReplies):
    """The replies of an exported folder, or those from ``since`` (inclusive) to ``until`` (exclusive), which need a
    time zone.

    ``memory`` is what DuckDB may use before it spills to disk (``"2GB"``), ``threads`` its number of threads.

    Raises ConfigurationError if the folder has no such files, RequestError if they have other content, and
    MissingExtraError without DuckDB.
    """

    def __init__(
        self,
        folder: Path,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        threads: int | None = None,
        memory: str | None = None,
    ) -> None:
        condition = between_condition('epoch_us("at")', since, until)
        files = sorted(_files(folder))
        if not files:
            raise ConfigurationError(f"there are no exported replies in {str(folder)!r:.200}")
        selected = [(day, path) for day, path in files if _can_contain(day, since, until)]
        self.days: tuple[date, ...] = tuple(dict.fromkeys(day for day, _ in selected))
        """The days whose files are read."""
        # If no day is selected, one file gives the columns.
        paths = [path for _, path in selected] or [files[0][1]]
        connection = connect(threads=threads, memory=memory)
        with as_request_error():
            names = ", ".join(quote_literal("".join(_ESCAPED.get(sign, sign) for sign in str(path))) for path in paths)
            # The columns of days may differ: some have the text, or come from another version.
            found = connection.sql(f"FROM read_parquet([{names}], union_by_name = true)")
            if missing := sorted(_REQUIRED_COLUMNS - set(found.columns)):
                raise RequestError(f"these files are not exported replies: they have no column {', '.join(missing)}")
            super().__init__(connection, found.filter(condition))


def _lines(relation: DuckDBPyRelation, by: Sequence[str]) -> Iterator[CostLine]:
    keys = [f"{_KEYS[name]} AS key_{place}" for place, name in enumerate(by)]
    prompt = " + ".join(
        f"coalesce({name}, 0)::HUGEINT"
        for name in ("input_tokens", "cached_input_tokens", "cache_creation_input_tokens")
    )
    sums = (
        "coalesce(cost_status, 'unpriced') AS status", "count(*)", f"coalesce(sum({prompt}), 0)",
        "coalesce(sum(output_tokens), 0)", "sum(cost_usd)", "count(*) FILTER (cost_status IS NULL)",
    )  # fmt: skip
    lines = _fetch_rows(relation, f"SELECT {', '.join([*keys, *sums])} FROM replies GROUP BY ALL")
    for *key, status, replies, prompt_tokens, output_tokens, cost, uncounted in lines:
        statuses = {read_word(CostStatus, status): replies}
        yield CostLine(tuple(key), replies, int(prompt_tokens), int(output_tokens), cost, statuses, uncounted=uncounted)
    gaps = ", ".join([*keys, "unnest(list_distinct(unpriced)) AS gap"])
    for *key, gap, replies in _fetch_rows(
        relation, f"SELECT *, count(*) FROM (SELECT {gaps} FROM replies) GROUP BY ALL"
    ):
        yield CostLine(tuple(key), unpriced={gap: replies})


def _fetch_rows(relation: DuckDBPyRelation, query: str) -> list[tuple[Any, ...]]:
    found = relation.query("replies", query)
    assert found is not None  # that method is for statements other than SELECT
    return found.fetchall()


def _files(folder: Path) -> Iterator[tuple[date, Path]]:
    for path in folder.glob(f"{_DAY}*/*.parquet"):
        if (day := day_of(path)) is not None and not path.name.startswith("."):
            yield day, path


def _can_contain(day: date, since: datetime | None, until: datetime | None) -> bool:
    first = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return (until is None or first < until) and (since is None or first > since - timedelta(days=1))
