"""Replies of a store, read by DuckDB directly from the database: for reports over a large store without an export.

DuckDB reads a store's tables through its extension for SQLite or PostgreSQL. The extension is loaded if it is
installed, and never downloaded: run ``INSTALL sqlite`` (or ``postgres``) in DuckDB once, or install a package that
contains it, such as duckdb-extension-sqlite-scanner.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.pricing.analytics.rate_sheet import COUNTS
from dragoman.pricing.analytics.usage_columns import between_condition, connect, quote_identifier, quote_literal
from dragoman.pricing.analytics.usages import DECIMAL, PLACES, RecordedReplies, as_request_error
from dragoman.store.errors import StoreError, StoreVersionError
from dragoman.store.reports.export import COLUMNS, METADATA_FIELDS
from dragoman.store.schema import HEAD, VERSION_TABLE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_CATALOG = "store"
_IS_REPLY = "provider IS NOT NULL OR cost_status IS NOT NULL"
_BILLED = {"messages": f"({_IS_REPLY}) AND NOT CAST(inherited AS BOOLEAN)", "attempts": _IS_REPLY}
"""The condition on billed rows. A fork's copies were billed to its first session. See `billing.billed_conditions`."""
_DECODE_TEXT_SQL = (
    r"array_to_string(list_transform(string_split({0}, '\\'), lambda part: replace(part, '\0', chr(0))), '\')"
)
"""`columns.decode_text` in SQL."""


_BACKENDS = {
    "sqlite": ("sqlite", "SELECT 'main'"),
    "postgresql": ("postgres", f"FROM postgres_query('{_CATALOG}', 'SELECT current_schema()::text')"),
}
"""What DuckDB calls a database, and the query for the schema of its tables."""
_EXTENSION = "{}_scanner"


class AttachedReplies(RecordedReplies):
    """The replies of the store at a URL, or those from ``since`` up to, not including, ``until``; see
    `RecordedReplies`.

    Nothing is written, and rows are read as the report needs them. ``memory`` and ``threads`` are those of `Replies`.

    Raises ConfigurationError if it is not a store, MissingExtraError without DuckDB or its extension, and
    StoreVersionError if another version created the store.
    """

    def __init__(
        self,
        url: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        threads: int | None = None,
        memory: str | None = None,
    ) -> None:
        in_span = between_condition("created_at", since, until)
        connection = connect(threads=threads, memory=memory)
        tables = _attach(connection, url)
        with as_request_error():
            rows = " UNION ALL BY NAME ".join(
                f"SELECT {_columns(attempt=table == 'attempts')} FROM (SELECT *, CAST(metadata_json AS JSON)"
                f" AS metadata FROM {tables}.{table} WHERE ({condition}) AND {in_span})"
                for table, condition in _BILLED.items()
            )
            super().__init__(connection, connection.sql(rows))


def _columns(*, attempt: bool) -> str:
    """Return the columns of an exported file, computed from a row."""
    cost = "json_extract_string(metadata, '$.usage.cost_usd')"
    expressions = {
        "session_id": _DECODE_TEXT_SQL.format("session_id"),
        "id": _DECODE_TEXT_SQL.format("id"),
        "seq": "seq",
        "attempt": str(attempt).lower(),
        "at": "make_timestamptz(created_at)",
        "raw": "CAST(json_extract(metadata, '$.usage.raw') AS VARCHAR)",
        # A cost that the column would round raises an error; see `export`.
        "cost_usd": f"CASE WHEN regexp_full_match({cost}, '[0-9]+([.][0-9]{{1,{PLACES}}})?|[0-9.]+[Ee][+-]?[0-9]+')"
        f" IS NOT FALSE THEN CAST({cost} AS {DECIMAL}) ELSE error('a cost of too many digits') END",
        # A value that is not a list or map counts as none, as in the canonical form.
        **dict.fromkeys(COUNTS, ""),
    }
    for name, duckdb_type in COLUMNS.items():
        if not expressions.get(name):
            path = quote_literal(f"$.{name}" if name in METADATA_FIELDS else f"$.usage.{name}")
            extracted = "json_extract_string" if duckdb_type == "VARCHAR" else "json_extract"
            expressions[name] = f"CAST({extracted}(metadata, {path}) AS {duckdb_type})"
    return ", ".join(f"{expressions[name]} AS {quote_identifier(name)}" for name in COLUMNS)


def _attach(connection: DuckDBPyConnection, url: str) -> str:
    """Attach the database and return the schema of its tables. Does not repeat DuckDB's message: it may hold a
    password.
    """
    import duckdb

    try:
        parts = sa.make_url(url)
    except ArgumentError:
        raise ConfigurationError("name a store by its URL, such as sqlite:///chats.db") from None
    kind, schema_query = _BACKENDS.get(parts.get_backend_name(), (None, ""))
    if kind is None or (kind == "sqlite" and not parts.database):
        raise ConfigurationError("a report needs a store in a SQLite file or on PostgreSQL")
    location = url.replace(parts.drivername, "postgresql", 1)
    if kind == "sqlite":
        location = str(parts.database)
        if not Path(location).is_file():
            raise ConfigurationError(f"there is no store {location!r:.200}")
    _load(connection, kind)
    try:
        connection.execute(f"ATTACH {quote_literal(location)} AS {_CATALOG} (TYPE {kind}, READ_ONLY)")
        ((schema,),) = connection.sql(schema_query).fetchall()
        tables = f"{_CATALOG}.{quote_identifier(schema)}"
        ((version,),) = connection.sql(f"SELECT version_num FROM {tables}.{VERSION_TABLE}").fetchall()
    except (duckdb.Error, RuntimeError, ValueError):  # DuckDB's extensions raise RuntimeError
        raise StoreError("DuckDB finds no store there, or may not read it") from None
    if version != HEAD:
        raise StoreVersionError(
            f"the store is of version {version!r:.20}, not {HEAD}: Store(url) migrates an older one"
        )
    return tables


def _load(connection: DuckDBPyConnection, kind: str) -> None:
    import duckdb

    connection.execute("SET autoinstall_known_extensions = false")
    name, version = _EXTENSION.format(kind), duckdb.__version__
    package, files = find_spec(f"duckdb_extension_{name}"), list[Path]()
    if package is not None and package.origin is not None:
        files = sorted(Path(package.origin).parent.glob(f"extensions/v{version}/*.duckdb_extension"))
    for extension in (*map(str, files), name):
        with suppress(duckdb.Error):
            connection.load_extension(extension)
            return
    raise MissingExtraError(
        f"DuckDB {version} has no extension {name}: run duckdb.sql('INSTALL {kind}') once, or export the store, which"
        " needs no extension (dragoman store export)"
    )
