"""The one set-up of a database, SQLite or PostgreSQL: its URL, its engine and its migrations. The store, bulk runs and
the gateway use it; each decides itself how long a transaction waits, and when it runs again.
"""

import random
import selectors
import sqlite3
import time
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.pool import NullPool, StaticPool
from sqlalchemy.types import TypeDecorator, TypeEngine

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.sqlite_files import connect_read_only, create_private_database

Synchronous = Literal["full", "normal"]

WRITES = "dragoman_writes"
"""The execution option of a connection whose transaction writes: SQLite locks the file at its beginning."""
RETRY_CODES = frozenset({"40001", "40P01"})
"""PostgreSQL's codes of a serialization failure and of a deadlock: run the transaction again."""
LOCK_TIMEOUT_CODE = "55P03"
"""PostgreSQL's code of a lock that was not free in time."""
MAX_ID = 200
"""The maximum of characters of an id: what PostgreSQL can index, in any script."""
_MIN_SQLITE_VERSION = (3, 35)
"""The first version with RETURNING."""
_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_MAX_PAUSE = 0.02


class ExactDecimal(TypeDecorator[Decimal]):
    """Money: NUMERIC if the database has it, and text on SQLite, which would use a float."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(sa.Text() if dialect.name == "sqlite" else sa.Numeric())

    def process_bind_param(self, value: Decimal | None, dialect: sa.Dialect) -> Any:
        return format(value, "f") if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> Decimal | None:
        if isinstance(value, bytes):
            # A damaged row. Decimal would raise TypeError, as it does for a mistake of this program.
            raise InvalidOperation("an amount is stored as bytes")
        return None if value is None else Decimal(value)


def insert_into(connection: sa.Connection, table: sa.Table) -> Any:
    """Return an insert of the connection's database, which may say what happens to rows that exist."""
    return (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)


def parse_url(url: str | sa.URL, what: str) -> sa.URL:
    """Return the parsed URL of ``what``, such as "the store".

    Raises ConfigurationError if it is not a URL of a supported database. The message does not show the URL: it may hold
    a password.
    """
    try:
        parsed = sa.make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "this is not a database URL: write sqlite:///chats.db, sqlite:// (in memory) or postgresql://host/name"
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise ConfigurationError(f"{what} supports sqlite and postgresql, not {parsed.drivername!r:.80}")
    return parsed


def is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def sqlite_file(url: sa.URL) -> Path | None:
    """Return the file of a SQLite database; None in memory, and for PostgreSQL."""
    return Path(url.database) if is_sqlite(url) and url.database not in (None, "", ":memory:") else None


def user_database(name: str) -> sa.URL:
    """Return the URL of a SQLite file in the user's data folder."""
    from platformdirs import user_data_path

    return sa.URL.create("sqlite", database=str(user_data_path("dragoman", appauthor=False) / name))


def create_sqlite_engine(
    url: sa.URL, *, timeout: float, busy_timeout: float, synchronous: Synchronous, pool_size: int, max_overflow: int = 0
) -> sa.Engine:
    """Create an engine for a SQLite file, or for one database in memory.

    ``timeout`` is the number of seconds that a connection of the pool may take, and ``busy_timeout`` those that SQLite
    itself waits for a lock. Raises ConfigurationError for a SQLite that is too old.
    """
    if sqlite3.sqlite_version_info < _MIN_SQLITE_VERSION:
        raise ConfigurationError(f"SQLite 3.35 or newer is needed; this Python has {sqlite3.sqlite_version}")
    pool: dict[str, Any] = {"poolclass": StaticPool}
    if sqlite_file(url) is not None:
        pool = {"pool_size": pool_size, "max_overflow": max_overflow, "pool_timeout": timeout}
    connect_args = {"timeout": busy_timeout, "check_same_thread": False}
    engine = sa.create_engine(url, hide_parameters=True, connect_args=connect_args, **pool)
    sa.event.listen(engine, "do_connect", create_private_database)
    sa.event.listen(engine, "connect", lambda connection, _: _configure_sqlite(connection, synchronous, timeout))
    sa.event.listen(engine, "begin", _begin)
    return engine


def create_reading_engine(file: Path, *, busy_timeout: float) -> sa.Engine:
    """Create an engine that changes neither a SQLite file nor its folder, with a connection for each transaction: see
    `dragoman.sqlite_files.read_unchanged`.
    """

    def connect() -> sqlite3.Connection:
        return connect_read_only(file, timeout=busy_timeout, check_same_thread=False, isolation_level=None)

    engine = sa.create_engine("sqlite://", hide_parameters=True, creator=connect, poolclass=NullPool)
    sa.event.listen(engine, "begin", _begin)
    return engine


def create_postgres_engine(
    url: sa.URL, *, timeout: float, pool_size: int, max_overflow: int = 0, connect_args: Mapping[str, Any] | None = None
) -> sa.Engine:
    """Create an engine for PostgreSQL. ``timeout`` is the number of seconds that a connection of the pool may take, and
    ``connect_args`` are libpq's. Raises MissingExtraError without psycopg.
    """
    try:
        engine = sa.create_engine(
            url,
            hide_parameters=True,
            pool_size=pool_size,
            max_overflow=max_overflow,
            pool_timeout=timeout,
            connect_args=dict(connect_args or {}),
        )
    except ImportError:
        raise MissingExtraError('PostgreSQL needs psycopg: pip install "dragoman[postgres]"') from None
    sa.event.listen(engine, "checkout", _check_connection_open)
    return engine


def lock_for_migration(connection: sa.Connection, key: int) -> None:
    """Wait, on PostgreSQL, until no other program changes these tables, and keep the others out until the transaction
    ends. ``key`` is an arbitrary number that other programs are unlikely to use. SQLite has one writer anyway.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": key})


def run_migrations(connection: sa.Connection, package: str) -> None:
    """Run Alembic's migrations of the package, up to the newest one, in the connection's transaction."""
    # Imported here: the import is slow, and an up-to-date database does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files(package) / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def sqlstate(error: Any) -> Any:
    """Return PostgreSQL's code of a driver's error, None for SQLite's."""
    return getattr(error, "sqlstate", None)


def is_busy(error: Any) -> bool:
    """Whether a driver's error says that SQLite waited too long for a lock."""
    # The low byte is the kind; the other bytes are the reason.
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _SQLITE_BUSY


def _configure_sqlite(connection: Any, synchronous: Synchronous, timeout: float) -> None:
    connection.isolation_level = None  # `_begin` begins transactions, not the driver
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # If two programs open a new file at once, this statement does not wait for the lock.
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0, _MAX_PAUSE))
    connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _begin(connection: sa.Connection) -> None:
    # A transaction that reads first and writes then could not wait for the lock: what it has read may be outdated.
    writes = connection.get_execution_options().get(WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_connection_open(connection: Any, _: Any, __: Any) -> None:
    """Detect a connection that the server has closed, so that the pool replaces it. This costs nothing; a statement
    sent into a closed connection may look like one that was committed.
    """
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if selector.select(0):
            raise DisconnectionError("the server has closed the connection")
