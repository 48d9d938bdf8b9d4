"""One database, its tables and its transactions. Hides the differences between SQLite and PostgreSQL.

Missing tables are created and older ones migrated; newer ones and those of other programs are refused.

A transaction is a function of a connection. It is run again from its beginning if other writers blocked it, so it must
do nothing but use that connection.
"""

import random
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from dragoman.adapter.errors import ConfigurationError, mask_secrets
from dragoman.canonical.forks import reset_after_fork
from dragoman.private_files import create_private_folder
from dragoman.sql import (
    LOCK_TIMEOUT_CODE,
    RETRY_CODES,
    WRITES,
    Synchronous,
    create_postgres_engine,
    create_reading_engine,
    create_sqlite_engine,
    is_busy,
    is_sqlite,
    lock_for_migration,
    parse_url,
    run_migrations,
    sqlite_file,
    sqlstate,
    user_database,
)
from dragoman.sqlite_files import read_unchanged, table_names
from dragoman.store.errors import StoreBusyError, StoreError, StoreVersionError
from dragoman.store.schema import HEAD, VERSION_TABLE, metadata

Result = TypeVar("Result")

_BUSY_TIMEOUT = 0.1
"""Seconds that SQLite itself waits for a lock, before the loop here retries."""
_MAX_PAUSE = 0.02
_QUOTED = " with text "
"""What SQLite's driver writes before the content of a column that is not UTF-8."""


class Mode(Enum):
    """The kind of a transaction; the value is its options on PostgreSQL."""

    READ = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}  # noqa: RUF012
    WRITE = dict[str, Any]()  # noqa: RUF012
    STATEMENT = {"isolation_level": "AUTOCOMMIT"}  # noqa: RUF012
    """A transaction whose first statement is the only one that writes."""


class Database:
    """``timeout`` is the total of seconds that a transaction may wait for others.

    ``read_only``: nothing is written, also not by SQLite itself. The query ``mode=ro`` of a SQLite URL means the same.
    """

    def __init__(
        self, url: str | sa.URL, *, timeout: float, synchronous: Synchronous, pool_size: int, read_only: bool = False
    ) -> None:
        self.url, read_only_url = split_mode(parse_url(url, "the store"))
        self.read_only = read_only or read_only_url
        self.timeout = timeout
        self.is_sqlite = is_sqlite(self.url)
        self.file = sqlite_file(self.url)
        """The file of a SQLite database."""
        busy_timeout = min(_BUSY_TIMEOUT, timeout)
        if not self.is_sqlite:
            self.engine = create_postgres_engine(self.url, timeout=timeout, pool_size=pool_size)
            sa.event.listen(self.engine, "connect", lambda connection, _: _limit_locks(connection, timeout))
        elif not self.read_only:
            self.engine = create_sqlite_engine(
                self.url, timeout=timeout, busy_timeout=busy_timeout, synchronous=synchronous, pool_size=pool_size
            )
        elif self.file is not None and self.file.is_file():
            self.engine = create_reading_engine(self.file, busy_timeout=busy_timeout)
        else:
            raise ConfigurationError(f"there is no store {self.url.database or 'in memory'!r:.200}")
        # Nothing of the engine refers to this object. One that nobody closes is collected with its connections.
        weakref.finalize(self, self.engine.dispose).atexit = False
        self._lock = threading.RLock()
        reset_after_fork(self)

    def read(self, work: Callable[[sa.Connection], Result]) -> Result:
        """Run a read-only transaction on a snapshot of the database, and return its result."""
        if self.read_only and self.file is not None:
            try:
                return read_unchanged(self.file, lambda: self._run(work, Mode.READ))
            except (OSError, sqlite3.Error) as error:
                raise StoreError(f"the store cannot be read: {error}") from error
        return self._run(work, Mode.READ)

    def write(self, work: Callable[[sa.Connection], Result], *, single_statement: bool = False) -> Result:
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

    def _run(self, work: Callable[[sa.Connection], Result], mode: Mode) -> Result:
        deadline, pause, reconnected = time.monotonic() + self.timeout, 0.001, False
        while True:
            try:
                # SQLite has one writer at a time: threads of one process queue here instead of polling the file's
                # lock. A database in memory has one connection.
                is_serial = self.is_sqlite and (self.file is None or mode is not Mode.READ)
                with self._lock if is_serial else nullcontext():
                    return self._run_once(work, mode)
            except DBAPIError as error:
                if error.connection_invalidated and not reconnected:
                    reconnected = True  # the server had closed this pooled connection
                    continue
                if _QUOTED in str(error.orig):
                    raise _to_store_error(error) from None
                if not _is_transient(error):
                    raise _to_store_error(error) from error
                if time.monotonic() >= deadline or sqlstate(error.orig) == LOCK_TIMEOUT_CODE:
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

    def _run_once(self, work: Callable[[sa.Connection], Result], mode: Mode) -> Result:
        sent = False  # whether the database may have committed it already
        try:
            with self.engine.connect() as connection:
                connection.execution_options(**({WRITES: mode is not Mode.READ} if self.is_sqlite else mode.value))
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


def _limit_locks(connection: Any, timeout: float) -> None:
    # Not an option of libpq's, as the gateway's time-outs are: a store may be behind a pooler, which refuses options.
    connection.execute(f"SET lock_timeout = {max(1, int(1000 * timeout))}")
    connection.commit()


def split_mode(url: sa.URL) -> tuple[sa.URL, bool]:
    """Return the URL without the mode of a SQLite file, and whether it is read-only. Raises ConfigurationError."""
    mode = url.query.get("mode") if is_sqlite(url) else None
    if mode is None:
        return url, False
    if mode not in ("ro", "rwc"):
        raise ConfigurationError("the mode of a SQLite URL is ro (read-only), or rwc, which is the default")
    return url.difference_update_query(["mode"]), mode == "ro"


def default_url(*, create_folder: bool = True) -> sa.URL:
    """Return the file sessions.db in the user's data folder. Creates a missing folder for that user only."""
    url = user_database("sessions.db")
    folder = Path(str(url.database)).parent
    if create_folder:
        try:
            create_private_folder(folder)
        except OSError as error:
            raise StoreError(f"the data folder {folder} cannot be created: {error.strerror}") from None
    return url


@contextmanager
def store_errors(message: str) -> Iterator[None]:
    """Convert database errors to StoreError with the given message."""
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, DBAPIError) and _is_transient(error):
            raise
        raise StoreError(f"{message}: {_database_message(error)}") from error


def _is_transient(error: DBAPIError) -> bool:
    return is_busy(error.orig) or sqlstate(error.orig) in {*RETRY_CODES, LOCK_TIMEOUT_CODE}


def _database_message(error: SQLAlchemyError) -> str:
    """Return the first line of the database's message; it never contains the parameters, which hold the
    conversation."""
    lines = str(getattr(error, "orig", None) or error).splitlines()
    return mask_secrets(lines[0].partition(_QUOTED)[0] if lines else type(error).__name__)


def _to_store_error(error: SQLAlchemyError) -> StoreError:
    return StoreError(f"the database failed, and nothing was changed: {_database_message(error)}")


_ADVISORY_LOCK = 0x647261676F6D616E
"""PostgreSQL's lock for one migration at a time: an arbitrary number that other programs are unlikely to use."""
_TABLES_OF_BULK_RUNS = frozenset({"bulk_runs", "bulk_answers", "bulk_lost", "bulk_batches"})
"""The manifest of a bulk run may be in the same database."""
_GATEWAY_PREFIX = "gateway_"
"""The tables of a gateway may be in the same database."""
_MAX_NAMED = 5


def migrate(database: Database, *, allow_other_tables: bool) -> None:
    """Migrate the database. If several programs open it at once, the first one migrates and the others wait.

    Raises StoreVersionError if a newer version wrote it, and StoreError if another program did.
    """
    if database.file is not None and database.file.is_file():
        # Checked before it is opened for writing, because opening turns on its write-ahead log.
        with suppress(sqlite3.Error, OSError, UnicodeDecodeError):  # opening it reports the reason
            names = table_names(database.file, database.timeout)
            if VERSION_TABLE not in names:
                _refuse_foreign(names, allow_other_tables)

    def upgrade(connection: sa.Connection) -> None:
        lock_for_migration(connection, _ADVISORY_LOCK)
        version = _version(connection)
        if version == HEAD:
            return
        if version is None:
            _refuse_foreign(sa.inspect(connection).get_table_names(), allow_other_tables)
        with store_errors("the store could not be migrated, and is unchanged"):
            run_migrations(connection, "dragoman.store")

    if database.read(_version) != HEAD:
        database.write(upgrade)


def stored_version(database: Database) -> str | None:
    """Return the version of the database; None if it is not a store. Raises StoreVersionError if it is a newer one."""
    return database.read(_version)


def check_version(database: Database) -> None:
    """Raise StoreError if a database that is not to be migrated is not a store, and StoreVersionError if it is an older
    or newer one.
    """
    version = database.read(_version)
    if version is None:
        raise StoreError(
            f"this is not a store of dragoman: {database.url.render_as_string(hide_password=True)} has no table"
            f" {VERSION_TABLE}"
        )
    if version != HEAD:
        raise StoreVersionError(
            f"the store is of version {version}, not {HEAD}: run dragoman store migrate, or open it once with"
            " Store(url), which migrates it"
        )


def _version(connection: sa.Connection) -> str | None:
    """Return the database's migration; None without our tables. Raises StoreVersionError."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    with store_errors(f"the table {VERSION_TABLE} cannot be read"):
        rows = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
    version = str(rows[0]) if len(rows) == 1 else ""
    if not re.fullmatch("[0-9]{4}", version):
        raise StoreVersionError("the store does not say which version wrote it: restore it from a backup")
    if version > HEAD:
        raise StoreVersionError(
            f"the store is of version {version}, but this dragoman supports versions up to {HEAD}: upgrade "
            "dragoman to open"
            " it. Nothing was changed"
        )
    return version


def _refuse_foreign(names: Iterable[str], allow_other_tables: bool) -> None:
    others = set(names) - _TABLES_OF_BULK_RUNS
    existing = sorted(name for name in others if not name.startswith(_GATEWAY_PREFIX))
    if taken := sorted(set(metadata.tables) & set(existing)):
        raise StoreError(
            f"the database has tables of another program ({', '.join(taken)}): give the store a database, or a"
            " PostgreSQL schema, of its own. Nothing was changed"
        )
    if existing and not allow_other_tables:
        named = ", ".join(existing[:_MAX_NAMED]) + (" and others" if len(existing) > _MAX_NAMED else "")
        raise StoreError(
            f"the database has tables of another program ({named:.200}), and is not a store yet: give the store a"
            " database of its own, or create its tables next to them with Store(url, allow_other_tables=True)."
            " Nothing was changed"
        )
