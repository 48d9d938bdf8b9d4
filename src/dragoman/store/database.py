"""One database and its transactions. Hides the differences between SQLite and PostgreSQL.

A transaction is a function of a connection. It is run again from its beginning if other writers blocked it, so it must
do nothing but use that connection.
"""

import random
import selectors
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from enum import Enum, auto
from pathlib import Path
from typing import Any, Literal, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError, SQLAlchemyError
from sqlalchemy.pool import NullPool, StaticPool

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, mask_secrets
from dragoman.canonical.forks import reset_after_fork
from dragoman.private_files import create_private_folder
from dragoman.sqlite_files import connect_read_only, create_private_database, read_unchanged
from dragoman.store.errors import StoreBusyError, StoreError

Result = TypeVar("Result")
Synchronous = Literal["full", "normal"]

_WRITES = "dragoman_writes"
_MIN_SQLITE_VERSION = (3, 35)
"""The first version with RETURNING."""
_BUSY_TIMEOUT = 0.1
"""Seconds that SQLite itself waits for a lock, before the loop here retries."""
_MAX_PAUSE = 0.02
_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_POSTGRES_RETRY_CODES = {"40001", "40P01"}
"""Serialization failure and deadlock: run the transaction again."""
_POSTGRES_LOCK_TIMEOUT = "55P03"


_QUOTED = " with text "
"""What SQLite's driver writes before the content of a column that is not UTF-8."""


class Mode(Enum):
    """The kind of a transaction."""

    READ = auto()
    WRITE = auto()
    STATEMENT = auto()
    """A transaction whose first statement is the only one that writes."""


_POSTGRES_OPTIONS: dict[Mode, dict[str, Any]] = {
    Mode.READ: {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    Mode.WRITE: {},
    Mode.STATEMENT: {"isolation_level": "AUTOCOMMIT"},
}


class Database:
    """``timeout`` is the total of seconds that a transaction may wait for others.

    ``read_only``: nothing is written, also not by SQLite itself. The query ``mode=ro`` of a SQLite URL means the same.
    """

    def __init__(
        self, url: str | URL, *, timeout: float, synchronous: Synchronous, pool_size: int, read_only: bool = False
    ) -> None:
        self.url, read_only_url = split_mode(parse_url(url))
        self.read_only = read_only or read_only_url
        self.timeout = timeout
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self._in_memory = self.is_sqlite and self.url.database in (None, "", ":memory:")
        self.file = Path(str(self.url.database)) if self.is_sqlite and not self._in_memory else None
        """The file of a SQLite database."""
        self.engine = (
            self._create_sqlite_engine(synchronous, pool_size)
            if self.is_sqlite
            else self._create_postgres_engine(pool_size)
        )
        # Nothing of the engine refers to this object. One that nobody closes is collected with its connections.
        weakref.finalize(self, self.engine.dispose).atexit = False
        self._lock = threading.RLock()
        reset_after_fork(self)

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run a read-only transaction on a snapshot of the database, and return its result."""
        if self.read_only and self.file is not None:
            try:
                return read_unchanged(self.file, lambda: self._run(work, Mode.READ))
            except (OSError, sqlite3.Error) as error:
                raise StoreError(f"the store cannot be read: {error}") from error
        return self._run(work, Mode.READ)

    def write(self, work: Callable[[Connection], Result], *, single_statement: bool = False) -> Result:
        """Run a transaction that is committed as a whole, or not at all if this raises, and return its result.

        ``single_statement``: only the first statement writes. PostgreSQL makes a statement atomic anyway, which saves
        two round trips.

        Raises StoreBusyError, and StoreError if the database fails or is opened read-only.
        """
        if self.read_only:
            raise StoreError("the store is opened read-only: nothing was changed")
        return self._run(work, Mode.STATEMENT if single_statement else Mode.WRITE)

    def close(self) -> None:
        with self._lock:
            self.engine.dispose()

    def after_fork(self) -> None:
        """Reset in a child process, which must use neither the connections nor the locks of its parent."""
        self._lock = threading.RLock()
        self.engine.dispose(close=False)

    def _run(self, work: Callable[[Connection], Result], mode: Mode) -> Result:
        deadline, pause, reconnected = time.monotonic() + self.timeout, 0.001, False
        while True:
            try:
                with self._write_lock(mode):
                    return self._run_once(work, mode)
            except DBAPIError as error:
                if error.connection_invalidated and not reconnected:
                    reconnected = True  # the server had closed this pooled connection
                    continue
                if _QUOTED in str(error.orig):
                    raise _to_store_error(error) from None
                if not _is_transient(error):
                    raise _to_store_error(error) from error
                if time.monotonic() >= deadline or _sqlstate(error) == _POSTGRES_LOCK_TIMEOUT:
                    raise StoreBusyError(
                        f"other programs locked the database for more than {self.timeout:g} s: set a longer timeout "
                        "for the store"
                    ) from error
            except SQLAlchemyError as error:
                raise _to_store_error(error) from error
            except (UnicodeDecodeError, ArithmeticError):  # bytes that are not text, amounts that are not numbers
                raise StoreError("the database holds values that cannot be read: restore a backup") from None
            time.sleep(random.uniform(0, pause))
            pause = min(2 * pause, _MAX_PAUSE)

    def _run_once(self, work: Callable[[Connection], Result], mode: Mode) -> Result:
        sent = False  # whether the database may have committed it already
        try:
            with self.engine.connect() as connection:
                connection.execution_options(**self._options(mode))
                with connection.begin():
                    sent = mode is Mode.STATEMENT
                    result = work(connection)
                    sent = True
                return result
        except DBAPIError as error:
            if sent and error.connection_invalidated:
                raise StoreError(
                    "the connection broke while the turn was being stored: load the session to see whether it was"
                ) from error
            raise

    def _write_lock(self, mode: Mode) -> AbstractContextManager[Any]:
        """SQLite has one writer at a time: threads of one process queue here instead of polling the file's lock."""
        return self._lock if self._in_memory or (self.is_sqlite and mode is not Mode.READ) else nullcontext()

    def _options(self, mode: Mode) -> dict[str, Any]:
        return {_WRITES: mode is not Mode.READ} if self.is_sqlite else _POSTGRES_OPTIONS[mode]

    def _create_sqlite_engine(self, synchronous: Synchronous, pool_size: int) -> Engine:
        if sqlite3.sqlite_version_info < _MIN_SQLITE_VERSION:
            raise ConfigurationError(f"the store needs SQLite 3.35 or newer; this Python has {sqlite3.sqlite_version}")
        if self.read_only:
            return self._create_reading_engine()
        on_disk = {"pool_size": pool_size, "max_overflow": 0, "pool_timeout": self.timeout}
        pool: dict[str, Any] = {"poolclass": StaticPool} if self._in_memory else on_disk
        engine = create_engine(
            self.url,
            hide_parameters=True,
            connect_args={"timeout": min(_BUSY_TIMEOUT, self.timeout), "check_same_thread": False},
            **pool,
        )
        timeout = self.timeout
        event.listen(engine, "do_connect", create_private_database)
        event.listen(engine, "connect", lambda connection, _: _configure_sqlite(connection, synchronous, timeout))
        event.listen(engine, "begin", _begin_transaction)
        return engine

    def _create_reading_engine(self) -> Engine:
        """Create an engine with a connection for each transaction: see `read_unchanged`."""
        file = self.file
        if file is None or not file.is_file():
            raise ConfigurationError(f"there is no store {self.url.database or 'in memory'!r:.200}")

        timeout = min(_BUSY_TIMEOUT, self.timeout)

        def connect() -> sqlite3.Connection:
            return connect_read_only(file, timeout=timeout, check_same_thread=False, isolation_level=None)

        engine = create_engine("sqlite://", hide_parameters=True, creator=connect, poolclass=NullPool)
        event.listen(engine, "begin", _begin_transaction)
        return engine

    def _create_postgres_engine(self, pool_size: int) -> Engine:
        try:
            engine = create_engine(
                self.url,
                hide_parameters=True,
                pool_size=pool_size,
                max_overflow=0,
                pool_timeout=self.timeout,
            )
        except ImportError:
            raise MissingExtraError('PostgreSQL needs psycopg: pip install "dragoman[postgres]"') from None
        timeout = self.timeout
        event.listen(engine, "connect", lambda connection, _: _limit_locks(connection, timeout))
        event.listen(engine, "checkout", _check_connection_open)
        return engine


def _configure_sqlite(connection: Any, synchronous: Synchronous, timeout: float) -> None:
    connection.isolation_level = None  # `Database` begins transactions, not the driver
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * min(_BUSY_TIMEOUT, timeout))}")
    deadline = time.monotonic() + timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            # If two programs open a new file at once, this statement does not wait for the lock.
            if not _is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(0, _MAX_PAUSE))
    connection.execute(f"PRAGMA synchronous = {synchronous.upper()}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA secure_delete = ON")


def _limit_locks(connection: Any, timeout: float) -> None:
    connection.execute(f"SET lock_timeout = {max(1, int(1000 * timeout))}")
    connection.commit()


def parse_url(url: str | URL) -> URL:
    """Return the parsed URL. Raises ConfigurationError if it is not a URL of a supported database. The message does not
    show the URL: it may hold a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            "this is not a database URL: write sqlite:///chats.db, sqlite:// (in memory) or postgresql://host/name"
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise ConfigurationError(f"the store supports sqlite and postgresql, not {parsed.drivername!r:.80}")
    return parsed


def split_mode(url: URL) -> tuple[URL, bool]:
    """Return the URL without the mode of a SQLite file, and whether it is read-only. Raises ConfigurationError."""
    mode = url.query.get("mode") if url.get_backend_name() == "sqlite" else None
    if mode is None:
        return url, False
    if mode not in ("ro", "rwc"):
        raise ConfigurationError("the mode of a SQLite URL is ro (read-only), or rwc, which is the default")
    return url.difference_update_query(["mode"]), mode == "ro"


def default_url(*, create_folder: bool = True) -> URL:
    """Return the file sessions.db in the user's data folder. Creates a missing folder for that user only."""
    from platformdirs import user_data_path

    folder = Path(user_data_path("dragoman", appauthor=False))
    if create_folder:
        try:
            create_private_folder(folder)
        except OSError as error:
            raise StoreError(f"the data folder {folder} cannot be created: {error.strerror}") from None
    return URL.create("sqlite", database=str(folder / "sessions.db"))


@contextmanager
def store_errors(message: str) -> Iterator[None]:
    """Convert database errors to StoreError with the given message."""
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, DBAPIError) and _is_transient(error):
            raise
        raise StoreError(f"{message}: {_database_message(error)}") from error


def _begin_transaction(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_connection_open(connection: Any, _: Any, __: Any) -> None:
    """Detect a connection that the server has closed, so that the pool replaces it. This costs nothing; a statement
    sent into a closed connection may look like one that was committed.
    """
    with getattr(selectors, "PollSelector", selectors.SelectSelector)() as selector:
        selector.register(connection.fileno(), selectors.EVENT_READ)
        if selector.select(0):
            raise DisconnectionError("the server has closed the connection")


def _sqlstate(error: DBAPIError) -> Any:
    return getattr(error.orig, "sqlstate", None)


def _is_busy(error: Any) -> bool:
    # The low byte is the kind; the other bytes are the reason.
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _SQLITE_BUSY


def _is_transient(error: DBAPIError) -> bool:
    return _is_busy(error.orig) or _sqlstate(error) in {*_POSTGRES_RETRY_CODES, _POSTGRES_LOCK_TIMEOUT}


def _database_message(error: SQLAlchemyError) -> str:
    """Return the first line of the database's message; it never contains the parameters, which hold the
    conversation."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return mask_secrets(lines[0].partition(_QUOTED)[0] if lines else type(error).__name__)


def _to_store_error(error: SQLAlchemyError) -> StoreError:
    return StoreError(f"the database failed, and nothing was changed: {_database_message(error)}")
