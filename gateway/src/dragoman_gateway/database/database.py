"""The database of the gateway: transactions of SQLite or PostgreSQL, away from the event loop, that never hang.

A transaction is a function of a connection. It may be run again from its beginning, so it does nothing but use that
connection.
"""

import asyncio
import contextlib
import sqlite3
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, make_url, select, text
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from dragoman.errors import ConfigurationError, DragomanError, MissingExtraError
from dragoman.private_files import create_private_folder
from dragoman.sqlite_files import create_private_database
from dragoman_gateway.database.tables import HEAD, OLDEST, VERSION_TABLE, counters

Result = TypeVar("Result")

_ADVISORY_LOCK = 0x67617465776179
"""PostgreSQL's lock for one migration at a time: an arbitrary number that other programs are unlikely to use."""
_THREADS = 4
_RETRY_CODES = {"40001", "40P01"}
"""PostgreSQL's codes of a serialization failure and of a deadlock: run the transaction again."""
_MAX_TRIES = 5
END_SECONDS = 10.0
"""How long a gateway that ends waits for a database that does not answer."""
_RETRY_SECONDS = 1.0
_OF_VALUES = (DataError, IntegrityError)
"""Errors of one transaction, which say nothing about the database."""


class DatabaseUnavailableError(DragomanError):
    """The database does not answer. The message shows neither its address nor what was to be stored."""


class Database:
    """``timeout`` is the number of seconds that a transaction may take; ``pause`` is the number of seconds for which no
    further one is tried after that, so that a frozen server does not hold up each request in turn.

    Creates missing tables when it is first used. Raises ConfigurationError for a URL of another kind of database.
    """

    def __init__(self, url: str, *, timeout: float = 2.0, pause: float = 1.0) -> None:
        self._url = _parse_url(url)
        self._timeout = timeout
        self._pause = pause
        self._retry_at = 0.0
        self._is_sqlite = self._url.get_backend_name() == "sqlite"
        in_memory = self._is_sqlite and self._url.database in (None, "", ":memory:")
        self.is_shared = not self._is_sqlite
        """Whether several machines can use it."""
        self._engine = self._create_engine(in_memory)
        weakref.finalize(self, self._engine.dispose).atexit = False  # for one that nobody closes
        self._writes = threading.RLock()
        """SQLite has one writer at a time: threads queue here instead of polling the file's lock."""
        self._is_serial = in_memory
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gateway-database")
        self._is_migrated = False

    @property
    def is_available(self) -> bool:
        """Whether the last transaction was answered, or the pause after it is over."""
        return time.monotonic() >= self._retry_at

    async def read(self, work: Callable[[Connection], Result]) -> Result:
        """Run a transaction in another thread. Raises DatabaseUnavailableError."""
        return await self._run_in_thread(work, writes=False)

    async def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run a transaction that is committed as a whole or not at all. Raises DatabaseUnavailableError."""
        return await self._run_in_thread(work, writes=True)

    def run(self, work: Callable[[Connection], Result], *, writes: bool = True) -> Result:
        """As `write`, in this thread: for commands. Raises DatabaseUnavailableError."""
        try:
            return self._run(work, writes=writes)
        except SQLAlchemyError as error:
            raise _unavailable(error) from None

    def close(self) -> None:
        self._threads.shutdown(cancel_futures=True)  # a transaction ends within the time-out
        self._engine.dispose()

    async def _run_in_thread(self, work: Callable[[Connection], Result], *, writes: bool) -> Result:
        if not self.is_available:
            raise DatabaseUnavailableError("the gateway's database does not answer")
        is_left = threading.Event()

        def wanted(connection: Connection) -> Result:
            result = work(connection)
            if is_left.is_set():  # its caller may have tried again
                raise DatabaseUnavailableError("nobody waits for this transaction any more")
            return result

        running = asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._run(wanted, writes=writes))
        try:
            async with asyncio.timeout(self._timeout):
                return await running
        except TimeoutError:
            self._retry_at = time.monotonic() + self._pause
            raise DatabaseUnavailableError(
                f"the gateway's database did not answer within {self._timeout:g} s"
            ) from None
        except SQLAlchemyError as error:
            if not isinstance(error, _OF_VALUES):
                self._retry_at = time.monotonic() + self._pause
            raise _unavailable(error) from None
        finally:
            is_left.set()

    def _run(self, work: Callable[[Connection], Result], *, writes: bool) -> Result:
        if not self._is_migrated:
            self._migrate()
        for _ in range(_MAX_TRIES - 1):
            try:
                return self._run_once(work, writes=writes)
            except DBAPIError as error:
                code = getattr(error.orig, "sqlstate", None)
                if code not in _RETRY_CODES and not error.connection_invalidated:
                    raise
        return self._run_once(work, writes=writes)

    def _run_once(self, work: Callable[[Connection], Result], *, writes: bool) -> Result:
        lock = self._writes if self._is_serial or (self._is_sqlite and writes) else contextlib.nullcontext()
        with lock, self._engine.connect() as connection:
            connection = connection.execution_options(gateway_writes=writes)
            with connection.begin():
                return work(connection)

    def _migrate(self) -> None:
        with self._writes:
            if self._is_migrated:
                return
            if (self._run_once(_read_version, writes=False) or "") < HEAD:
                self._run_once(_upgrade, writes=True)
            self._is_migrated = True

    def _create_engine(self, in_memory: bool) -> Engine:
        if not self._is_sqlite:
            return self._create_postgres_engine()
        pool: dict[str, Any] = {"poolclass": StaticPool} if in_memory else {"pool_size": _THREADS, "max_overflow": 0}
        if not in_memory:
            _create_folder(Path(str(self._url.database)).expanduser().parent)
        engine = create_engine(
            self._url,
            hide_parameters=True,
            connect_args={"timeout": self._timeout, "check_same_thread": False},
            **pool,
        )
        event.listen(engine, "do_connect", create_private_database)
        event.listen(engine, "connect", _configure_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine

    def _create_postgres_engine(self) -> Engine:
        milliseconds = int(self._timeout * 1000)
        named = self._url.query.get("options", "")
        options = named if isinstance(named, str) else " ".join(named)
        try:
            return create_engine(
                self._url,
                hide_parameters=True,
                pool_size=_THREADS,
                max_overflow=0,
                pool_timeout=self._timeout,
                connect_args={
                    "connect_timeout": max(2, round(self._timeout)),  # libpq waits for 2 seconds at least
                    "tcp_user_timeout": milliseconds,
                    "options": f"{options} -c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
                },
            )
        except ImportError:
            raise MissingExtraError('PostgreSQL needs psycopg: pip install "dragoman[postgres]"') from None


async def retry_for(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    """Try until the database answers. Raises DatabaseUnavailableError if it does not in that time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await work()
        except DatabaseUnavailableError:
            if time.monotonic() + _RETRY_SECONDS > deadline:
                raise
        await asyncio.sleep(_RETRY_SECONDS)


def _create_folder(folder: Path) -> None:
    try:
        create_private_folder(folder)
    except OSError as error:
        message = f"the gateway cannot create the folder {folder} for its database ({error.strerror}): "
        raise ConfigurationError(message + "set `database` under [gateway] to a file that it may write") from error


def default_url() -> str:
    """Return the URL of the file gateway.db in the user's data folder."""
    from platformdirs import user_data_path

    return str(URL.create("sqlite", database=str(user_data_path("dragoman", appauthor=False) / "gateway.db")))


def _parse_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # the URL is not shown: it may hold a password
        raise ConfigurationError(
            "this is not a database URL: write sqlite:///gateway.db or postgresql://host/name"
        ) from None
    if parsed.drivername in ("postgres", "postgresql"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql+psycopg"):
        raise ConfigurationError(f"the gateway's database is sqlite or postgresql, not {parsed.drivername!r:.80}")
    return parsed


def _configure_sqlite(connection: Any, _: Any) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, not the driver
    with contextlib.suppress(sqlite3.OperationalError):  # another program is opening the new file, and sets it
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA secure_delete = ON")


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("gateway_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _read_version(connection: Connection) -> str | None:
    """Return the database's migration; None without the tables. Raises ConfigurationError if a newer version has
    changed what this one reads.
    """
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    version = str(connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar())
    oldest = connection.execute(select(counters.c.value).where(counters.c.name == OLDEST)).scalar()
    if oldest is not None and oldest > int(HEAD):
        raise ConfigurationError(
            f"a newer gateway wrote this database (version {version}, not {HEAD}): upgrade dragoman-gateway"
        )
    return version


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    if (_read_version(connection) or "") >= HEAD:
        return
    # Imported here: the import is slow, and an up-to-date database does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    folder = files("dragoman_gateway.database") / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _unavailable(error: SQLAlchemyError) -> DatabaseUnavailableError:
    """The database's own message stays out: it may hold an address, a statement or a value."""
    code = getattr(getattr(error, "orig", None), "sqlstate", None)
    return DatabaseUnavailableError(
        f"the gateway's database failed: {type(error).__name__}" + (f" ({code})" if code else "")
    )
