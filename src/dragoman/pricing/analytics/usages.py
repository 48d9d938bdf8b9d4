"""Past prices for any number of usages: DuckDB joins and adds, the price table provides the rates.

The figures equal those of `reprice` to the last digit: the table itself says which rates apply to which kind of reply,
at which time, and up to which prompt length (`rate_sheet`); the database only multiplies and adds integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.adapter.names import full_name
from dragoman.canonical.usage import CostStatus
from dragoman.canonical.words import read_word
from dragoman.pricing.analytics.cost_lines import CostLine, sum_by_key
from dragoman.pricing.analytics.pricing_query import UNREAD, PricingQuery, kind_columns
from dragoman.pricing.analytics.rate_sheet import ReplyKind, list_surcharge_fields, rate_sheet
from dragoman.pricing.analytics.usage_columns import (
    UsageColumns,
    between_condition,
    connect,
    quote_identifier,
    quote_literal,
    read_files,
)
from dragoman.pricing.quote import EXACT
from dragoman.pricing.table import PriceTable
from dragoman.pricing.versions import choose_table

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_MAX_DECIMAL_PLACES = 38
"""The digits of DuckDB's widest number."""


class Usages:
    """Usages in files (Parquet, CSV or JSON lines) or in a relation of DuckDB, one row per reply.

    Columns are ``model``, ``at``, ``input_tokens``, ``output_tokens``, and optionally the others of
    `TokenUsage`, ``batch``, ``status`` (error and cancelled make a lower bound), ``user_id``, ``team_id`` and
    ``session_id``. Tool calls are a map ``server_tools``, or columns ``server_tools.<name>``.

    For files, ``memory`` is what the database may use before it spills to disk (``"2GB"``), and ``threads`` its number
    of threads. ``since`` is inclusive, ``until`` exclusive; both need a time zone.

    Raises RequestError if the columns have other types, and MissingExtraError without DuckDB.
    """

    def __init__(
        self,
        source: Path | Sequence[Path] | DuckDBPyRelation,
        *,
        threads: int | None = None,
        memory: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:
        if isinstance(source, Path | Sequence):
            self._connection = connect(threads=threads, memory=memory)
            with as_request_error():
                source = read_files(self._connection, [source] if isinstance(source, Path) else source)
        self._columns = UsageColumns(source)
        if since is not None or until is not None:
            with as_request_error():
                source = source.filter(between_condition(self._columns.moment(), since, until))
        self._relation: DuckDBPyRelation = source

    def costs(
        self,
        by: Sequence[str] = (),
        table: PriceTable | None = None,
        *,
        version: str | None = None,
        at: datetime | None = None,
        as_model: str | None = None,
    ) -> tuple[CostLine, ...]:
        """Return the cost of the replies, one line for each group (see `GROUPS`), or one in all.

        The other arguments are those of `reprice`. Raises RequestError for an unknown group, and for rows that are not
        usages.
        """
        import duckdb

        keys = {f"key_{place}": self._columns.group(name) for place, name in enumerate(by)}
        with as_request_error():
            query = self._build_query(choose_table(table, version), at, as_model)
            try:
                return sum_by_key(self._lines(replace(query, wide=False), keys))
            except duckdb.OutOfRangeException:  # too large for 64 bits
                return sum_by_key(self._lines(query, keys))

    def rows(
        self,
        table: PriceTable | None = None,
        *,
        version: str | None = None,
        at: datetime | None = None,
        as_model: str | None = None,
    ) -> DuckDBPyRelation:
        """Return the usages with four more columns: ``cost_usd`` (a decimal, NULL if unknown), ``cost_status``,
        ``unpriced`` and ``pricing_version``. The relation is lazy and unordered.

        An invalid row raises an error of DuckDB when it is read, and so does a cost of more than 38 digits.
        """
        table = choose_table(table, version)
        with as_request_error():
            query = self._build_query(table, at, as_model)
        scale = query.sheet.scale
        if scale > _MAX_DECIMAL_PLACES:
            raise RequestError(f"a rate has {scale} decimal places; a column of DuckDB holds {_MAX_DECIMAL_PLACES}")
        # The units are multiplied, because DuckDB divides in floating point.
        unit = f" * '{Decimal(1).scaleb(-scale):f}'::DECIMAL({scale}, {scale})" if scale else ""
        new_columns = {
            "cost_usd": f"CASE WHEN known THEN units::DECIMAL(38, 0){unit} END",
            "cost_status": "cost_status",
            "unpriced": query.unpriced(),
            "pricing_version": f"'{table.version}'",
        }
        replaced = [quote_identifier(name) for name in self._relation.columns if name in new_columns]
        old_columns = '"the row".*' + (f" EXCLUDE ({', '.join(replaced)})" if replaced else "")
        columns = ", ".join((old_columns, *(f"{sql} AS {name}" for name, sql in new_columns.items())))
        return _query(self._relation, "usages", f"{query.sql({'the row': 'usages'})} SELECT {columns} FROM priced")

    def _lines(self, query: PricingQuery, keys: Mapping[str, str]) -> Iterator[CostLine]:
        """Group first by key and outcome, of which there are few, then by key: so each row is added only once."""
        outcome = [*keys, "cost_status", "known", "quoted", "gaps", "unknown"]
        unread = UNREAD in query.gaps
        gaps = query.gap_counts()
        sums = ["sum(replies)", "sum(prompt)", "sum(output_tokens)", "sum(units) FILTER (known)"]
        sums += [f"coalesce(sum(replies) FILTER ({query.uncounted()}), 0)"]
        sums += [f"sum(replies) FILTER (cost_status = '{status}')" for status in CostStatus]
        sums += [f"sum(replies) FILTER ({holds})" for holds in gaps.values()]
        sums += [f"list(({UNREAD}, replies)) FILTER (len({UNREAD}) > 0)"] if unread else []
        statement = f"""{query.sql(keys)}, outcomes AS (
            SELECT {", ".join([*outcome, *([UNREAD] if unread else [])])}, count(*) AS replies, sum(prompt) AS prompt,
            sum(output_tokens) AS output_tokens, sum(units) AS units FROM priced GROUP BY ALL
        ) SELECT {", ".join([*sums, *keys])} FROM outcomes GROUP BY ALL"""
        scale = query.sheet.scale
        for replies, prompt, output, units, uncounted, *rest in _query(self._relation, "usages", statement).fetchall():
            if replies is None:  # a single empty row if there are neither keys nor usages
                continue
            statuses = {status: count for status, count in zip(CostStatus, rest, strict=False) if count}
            counts = rest[len(CostStatus) :]
            unpriced = Counter({name: count for name, count in zip(gaps, counts, strict=False) if count})
            for names, count in (counts[len(gaps)] or ()) if unread else ():
                unpriced.update(dict.fromkeys(set(names) - gaps.keys(), count))
            key = _read_key(rest[len(rest) - len(keys) :])
            cost = None if units is None else Decimal(units).scaleb(-scale, EXACT)
            yield CostLine(key, replies, prompt, output, cost, statuses, dict(unpriced), int(uncounted))

    def _build_query(self, table: PriceTable, at: datetime | None, as_model: str | None) -> PricingQuery:
        """Build the query; the kinds of replies are selected first."""
        if at is not None and at.tzinfo is None:
            raise RequestError("a time needs a time zone, because prices depend on it")
        as_model = as_model and full_name(as_model)
        models = {as_model} if as_model is not None else self._distinct_texts(self._columns.model())
        raw_fields = list_surcharge_fields(table, models)
        terms_map = self._columns.terms()
        terms = sorted(self._distinct_texts(f"unnest(map_keys({terms_map}))")) if terms_map is not None else []
        columns = kind_columns(self._columns, raw_fields, terms)
        kinds = []
        for model, tier, speed, batch, *values in self._distinct(columns):
            fields = dict(zip(raw_fields, values, strict=False))
            request_terms = dict(zip(terms, values[len(raw_fields) :], strict=True))
            kinds.append(ReplyKind(model, tier, speed, batch, fields, request_terms))
        tools = set(self._columns.flat_tools)
        if (tools_map := self._columns.tools()) is not None:
            tools |= self._distinct_texts(f"unnest(map_keys({tools_map}))")
        sheet = rate_sheet(table, kinds, sorted(tools), at=at, as_model=as_model)
        return PricingQuery(self._columns, sheet, kinds, raw_fields, terms, sorted(tools))

    def _distinct_texts(self, sql: str) -> set[str]:
        return {text for (text,) in self._distinct({"text": sql})}

    def _distinct(self, columns: Mapping[str, str]) -> list[tuple[Any, ...]]:
        select = ", ".join(f"{sql} AS {quote_identifier(name)}" for name, sql in columns.items())
        return _query(self._relation, "usages", f"SELECT DISTINCT {select} FROM usages").fetchall()


def _query(relation: DuckDBPyRelation, name: str, sql: str) -> DuckDBPyRelation:
    """Return the rows of a SELECT from the relation, which it calls by that name."""
    found = relation.query(name, sql)
    assert found is not None  # that method is for statements other than SELECT
    return found


@contextmanager
def as_request_error() -> Iterator[None]:
    """Turn a DuckDB error about invalid rows into a RequestError."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        raise RequestError(f"the usages cannot be read: {error!s:.400}") from None


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
        with as_request_error():
            return sum_by_key(_lines(self._relation, by))

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
        others = RecordedReplies(self._connection, self._relation.filter(f"NOT ({known})")).costs(by)
        return sum_by_key((*priced, *others))

    def usages(self) -> DuckDBPyRelation:
        """Return the rows as a relation. The columns are those of `dragoman.store.reports.export.COLUMNS`."""
        return self._relation


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
        paths_by_day = [(day_of(path), path) for path in folder.glob(f"{_DAY}*/*.parquet") if path.name[0] != "."]
        files = sorted((day, path) for day, path in paths_by_day if day is not None)
        if not files:
            raise ConfigurationError(f"there are no exported replies in {str(folder)!r:.200}")
        selected = []
        for day, path in files:
            first = datetime(day.year, day.month, day.day, tzinfo=UTC)
            if (until is None or first < until) and (since is None or first > since - timedelta(days=1)):
                selected.append((day, path))
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
    columns = UsageColumns(relation)
    keys = [f"{columns.group(name)} AS key_{place}" for place, name in enumerate(by)]
    prompt = " + ".join(
        f"coalesce({name}, 0)::HUGEINT"
        for name in ("input_tokens", "cached_input_tokens", "cache_creation_input_tokens")
    )
    sums = (
        "coalesce(cost_status, 'unpriced') AS status", "count(*)", f"coalesce(sum({prompt}), 0)",
        "coalesce(sum(output_tokens), 0)", "sum(cost_usd)", "count(*) FILTER (cost_status IS NULL)",
    )  # fmt: skip
    lines = _query(relation, "replies", f"SELECT {', '.join([*keys, *sums])} FROM replies GROUP BY ALL")
    for *key, status, replies, prompt_tokens, output_tokens, cost, uncounted in lines.fetchall():
        statuses = {read_word(CostStatus, status): replies}
        tokens = int(prompt_tokens), int(output_tokens)
        yield CostLine(_read_key(key), replies, *tokens, cost, statuses, uncounted=uncounted)
    gaps = ", ".join([*keys, "unnest(list_distinct(unpriced)) AS gap"])
    lines = _query(relation, "replies", f"SELECT *, count(*) FROM (SELECT {gaps} FROM replies) GROUP BY ALL")
    for *key, gap, replies in lines.fetchall():
        yield CostLine(_read_key(key), unpriced={gap: replies})


def _read_key(values: Iterable[Any]) -> tuple[str | None, ...]:
    """Return the values of a group as texts. Days are counted from the first one of the calendar."""
    return tuple(date.fromordinal(each + 1).isoformat() if isinstance(each, int) else each for each in values)
