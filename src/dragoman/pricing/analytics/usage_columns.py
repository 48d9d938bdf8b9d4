"""The sources of usages (Parquet, JSON lines, CSV or a relation of DuckDB), and their columns in one form.

The names are those of `TokenUsage`, with ``model`` (``provider:name``) and ``at``. Counts are integers; a text, as in
CSV and JSON, must be an integer. Times need a zone. Invalid data stops the query with an error: nothing is
rounded, and no row is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING
from uuid import uuid4

from dragoman.adapter.errors import MissingExtraError, RequestError
from dragoman.pricing.analytics.rate_sheet import COUNTS, DAY, MONDAY

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

GROUPS = ("model", "provider", "day", "user", "team", "session")
"""The keys that costs can be grouped by. Days are in UTC."""

TOOL = "server_tools."
_TEXTS = ("service_tier", "speed", "user_id", "team_id", "session_id")
_OTHERS = ("model", "at", "batch", "pricing_mode", "status", "server_tools", "terms", "unread", "raw")
_JSON_SUFFIXES = (".jsonl", ".ndjson")
_ZONED = ".*[0-9](Z|z|[+-][0-9]{2}(:?[0-9]{2})?)"
SUFFIXES = (".parquet", ".csv", *_JSON_SUFFIXES)
"""Suffixes of files that may hold usages."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WHOLE = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")


def connect(*, threads: int | None = None, memory: str | None = None) -> DuckDBPyConnection:
    """Open a database in memory. ``memory`` is what it may use before it spills to disk, such as ``3GB``.

    Raises MissingExtraError without duckdb.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise MissingExtraError("costs of usage files need DuckDB: pip install 'dragoman[report]'") from None
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET enable_progress_bar = false")
    # The database creates and removes it if needed. The default is in the working directory.
    connection.execute("SET temp_directory = $1", [str(Path(gettempdir()) / f"dragoman-{uuid4().hex}")])
    if threads is not None:
        connection.execute(f"SET threads = {int(threads)}")
    if memory is not None:
        connection.execute("SET memory_limit = $1", [memory])
    return connection


def read_files(connection: DuckDBPyConnection, paths: Sequence[Path]) -> DuckDBPyRelation:
    """Return the rows of files of one format, selected by suffix. Raises RequestError for an unknown suffix."""
    names = f"[{', '.join(quote_literal(str(path)) for path in paths)}]"
    suffixes = {path.suffix.lower() for path in paths}
    if suffixes == {".parquet"}:
        return connection.sql(f"FROM read_parquet({names}, union_by_name = true)")
    if suffixes == {".csv"}:
        return connection.sql(f"FROM read_csv({names}, all_varchar = true, header = true, union_by_name = true)")
    if suffixes and suffixes <= set(_JSON_SUFFIXES):
        texts = ", ".join(f"{quote_identifier(name)}: 'VARCHAR'" for name in (*_OTHERS, *_TEXTS, *COUNTS))
        return connection.sql(f"FROM read_json({names}, format = 'newline_delimited', columns = {{{texts}}})")
    raise RequestError(f"usages are read from {', '.join(SUFFIXES)}, one kind at a time; these are {names}")


class UsageColumns:
    """The columns of a relation, as SQL expressions over it."""

    def __init__(self, relation: DuckDBPyRelation) -> None:
        self._types = {name: str(kind) for name, kind in zip(relation.columns, relation.types, strict=True)}
        if missing := [name for name in ("model", "input_tokens", "output_tokens") if name not in self._types]:
            raise RequestError(f"the usages have no column {', '.join(missing)}")

    def __contains__(self, name: str) -> bool:
        return name in self._types

    @property
    def flat_tools(self) -> tuple[str, ...]:
        """Provider tools whose calls have a column of their own, ``server_tools.<name>``."""
        return tuple(name[len(TOOL) :] for name in self._types if name.startswith(TOOL))

    def text(self, name: str) -> str:
        """Return a text, or NULL if there is no such column."""
        return f"CAST({quote_identifier(name)} AS VARCHAR)" if name in self._types else "NULL::VARCHAR"

    def model(self) -> str:
        return f"coalesce({self.text('model')}, '')"

    def moment(self) -> str:
        """Return the microseconds since 1970; an error for a row without a time."""
        if "at" not in self._types:
            raise RequestError("the usages have no column at: pass the moment of the prices (at)")
        kind = self._types["at"]
        if kind == "TIMESTAMP WITH TIME ZONE":
            at = '"at"'
        elif kind == "VARCHAR":
            zoned = _require(f"regexp_full_match(\"at\", '{_ZONED}')", '"at"', "a time with a zone")
            at = f"CAST({zoned} AS TIMESTAMPTZ)"
        else:
            raise RequestError(
                f"the column at is {kind}, and prices depend on the time: it needs a zone (TIMESTAMP WITH TIME ZONE)"
            )
        required = _require('"at" IS NOT NULL', at, "a time")
        return f"epoch_us({required})"

    def group(self, name: str) -> str:
        """Return the key of a group (see `GROUPS`); NULL if it is unknown. A day is the number of days since the first
        one of the calendar."""
        match name:
            case "model":
                return f"nullif({self.model()}, '')"
            case "provider":
                named = f"nullif({self.text('provider')}, '')"  # as replies of a store have it
                return f"coalesce({named}, nullif(split_part({self.model()}, ':', 1), ''))"
            case "day":
                return f"({self.moment()} - ({MONDAY})) // {DAY}"
            case "user" | "team":  # an empty name is one of its own, as in the store
                return self.text(f"{name}_id")
            case "session":
                return f"nullif({self.text('session_id')}, '')"
            case _:
                raise RequestError(f"costs can be grouped by {', '.join(GROUPS)}, not by {name!r}")

    def count(self, name: str) -> str:
        """Return tokens or calls; 0 if the row, or the relation, has none."""
        if name not in self._types:
            return "0"
        return f"coalesce({count_expression(quote_identifier(name), self._types[name])}, 0)"

    def batch(self) -> str:
        is_batch = "coalesce(CAST(batch AS BOOLEAN), false)" if "batch" in self._types else "false"
        return f"({is_batch} OR {self.text('pricing_mode')} IS NOT DISTINCT FROM 'batch')"

    def broken(self) -> str:
        """True if the reply was interrupted, so that more may be billed than was counted."""
        return f"coalesce({self.text('status')} IN ('error', 'cancelled'), false)"

    def unread(self) -> str | None:
        """Return the list of invalid counts in the usage; None if there is no such column."""
        if "unread" not in self._types:
            return None
        text = self._types["unread"] in ("VARCHAR", "JSON")
        return f"coalesce(CAST({'unread::JSON' if text else 'unread'} AS VARCHAR[]), [])"

    def raw_field(self, field: str) -> str:
        """Return a field of the provider's usage object: a column of its own, or part of ``raw``."""
        if field in self._types:
            return self.text(field)
        kind = self._types.get("raw", "")
        if kind in ("VARCHAR", "JSON"):
            path = f"'$.\"{field}\"'"
            return f"CASE WHEN json_type(raw, {path}) = 'VARCHAR' THEN json_extract_string(raw, {path}) END"
        if kind.startswith("STRUCT") and f"{field} VARCHAR" in kind.replace('"', ""):
            return f"raw.{quote_identifier(field)}"
        return "NULL::VARCHAR"

    def tools(self) -> str | None:
        """Calls of the provider's tools by name; None if there is no such column."""
        return self._map("server_tools")

    def terms(self) -> str | None:
        """Return the terms of the request by name; None if there is no such column."""
        return self._map("terms")

    def term(self, name: str) -> str:
        return f"{self.terms()}[{quote_literal(name)}]"

    def _map(self, name: str) -> str | None:
        kind = self._types.get(name)
        if kind is None:
            return None
        if kind in ("VARCHAR", "JSON") or kind.startswith("STRUCT"):
            return f"CAST(CAST({name} AS JSON) AS MAP(VARCHAR, VARCHAR))"
        return f"CAST({name} AS MAP(VARCHAR, VARCHAR))"

    def tool(self, name: str, tools: str) -> str:
        """Return the calls of one tool; ``tools`` is a column with the content of `tools`."""
        parts = []
        if TOOL + name in self._types:
            parts.append(self.count(TOOL + name))
        if "server_tools" in self._types:
            parts.append(f"coalesce({count_expression(f'{tools}[{quote_literal(name)}]', 'VARCHAR')}, 0)")
        return " + ".join(parts)


def count_expression(value: str, kind: str) -> str:
    """Return a count from an expression of that type, or an error if it is invalid. DuckDB itself would round."""
    if kind in _WHOLE:
        return f"CAST({value} AS UBIGINT)"
    if kind == "VARCHAR":
        value = _require(f"regexp_full_match({value}, '[0-9]+')", value, "a count")
    elif kind in ("FLOAT", "DOUBLE") or kind.startswith("DECIMAL"):
        value = _require(f"{value} = trunc({value})", value, "a count")
    else:
        raise RequestError(f"{value} is {kind}, which is not a count")
    return f"CAST({value} AS UBIGINT)"


def between_condition(moment: str, since: datetime | None, until: datetime | None) -> str:
    """Return the condition that a time, in microseconds since 1970, is in a half-open interval.

    Raises RequestError for a time without a zone.
    """
    found = []
    for at, sign in ((since, ">="), (until, "<")):
        if at is not None:
            if at.tzinfo is None:
                raise RequestError("a time needs a time zone: set tzinfo=UTC")
            found.append(f"{moment} {sign} {(at - _EPOCH) // _MICROSECOND}")
    return " AND ".join(found) or "true"


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _require(holds: str, value: str, what: str) -> str:
    """Return the value, or NULL; an error if the condition does not hold."""
    failure = f"error('{value.replace(chr(39), '')} is not {what}: ' || coalesce(CAST({value} AS VARCHAR), 'NULL'))"
    return f"CASE WHEN {holds} IS NOT FALSE THEN {value} ELSE {failure} END"
