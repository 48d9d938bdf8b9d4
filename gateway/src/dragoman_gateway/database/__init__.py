"""The gateway's own database, which its replicas share: keys, spend, stored responses, owners of ids.

Transactions of SQLite or PostgreSQL run away from the event loop, and never hang. A transaction is a function of a
connection. It may be run again from its beginning, so it does nothing but use that connection. One that waits too long
for a lock or for its turn fails alone. A server that does not answer is asked again a moment later, and says so once.
"""

import asyncio
import contextlib
import threading
import time
import weakref
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, event, inspect, select, text
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError, SQLAlchemyError

from dragoman.errors import ConfigurationError, DragomanError
from dragoman.private_files import create_private_folder
from dragoman.sql import (
    LOCK_TIMEOUT_CODE,
    RETRY_CODES,
    WRITES,
    create_postgres_engine,
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
from dragoman_gateway.database.tables import HEAD, OLDEST, VERSION_TABLE, counters
from dragoman_gateway.outage import Outage

Result = TypeVar("Result")

_ADVISORY_LOCK = 0x67617465776179
"""PostgreSQL's lock for one migration at a time: an arbitrary number that other programs are unlikely to use."""
_BUSY_CODES = {*RETRY_CODES, LOCK_TIMEOUT_CODE, "57014"}
"""PostgreSQL's codes of a wait for others; the last one is that of a statement that took too long."""
_MAX_TRIES = 5
_IDLE_TIMES = 5
"""The number of time-outs for which a transaction may be idle: that of a stopped process would hold its locks
forever."""
_SERVER_SHARE = 0.75
"""The part of the time-out after which the server itself gives up: its error shows whether a lock or an outage is the
cause."""
END_SECONDS = 10.0
"""How long a gateway that ends waits for a database that does not answer."""
_RETRY_SECONDS = 1.0


class Lane(StrEnum):
    """The purpose of a transaction. Each purpose has threads and connections of its own, so that a queue for one does
    not delay another."""

    KEYS = "keys"
    LEDGER = "ledger"
    RESPONSES = "responses"


LANES = {Lane.KEYS: 2, Lane.LEDGER: 2, Lane.RESPONSES: 4}
"""The threads of each lane, which is the number of its connections."""
_CONNECTIONS = sum(LANES.values())


class DatabaseUnavailableError(DragomanError):
    """The database does not answer. The message shows neither its address nor what was to be stored."""


class DatabaseRejectedError(DatabaseUnavailableError):
    """The database refuses what was to be stored, but accepts other data."""


class DatabaseBusyError(DatabaseUnavailableError):
    """The database answers, and this transaction waited too long: ``wait`` is the cause, ``lock`` or ``place``."""

    def __init__(self, wait: str) -> None:
        self.wait = wait
        reason = "other transactions hold what it needs" if wait == "lock" else "too many others wait"
        super().__init__(f"the gateway's database is busy: {reason}")


class _Run:
    """One transaction on its way through a thread."""

    __slots__ = ("asked_at", "has_begun", "is_left")

    def __init__(self) -> None:
        self.has_begun = self.is_left = False
        """``is_left``: whether its caller has stopped waiting, and may have tried again."""
        self.asked_at: float | None = None
        """The time since which the server has not answered; None while no answer is due."""


class Database:
    """``timeout`` is the number of seconds that a transaction may wait for its turn, and then take; ``pause`` is the
    number of seconds for which no further one is tried after an outage, so that a frozen server does not hold up each
    request in turn.

    Creates missing tables when it is first used. Raises ConfigurationError for a URL of another kind of database.
    """

    def __init__(self, url: str, *, timeout: float = 2.0, pause: float = 1.0) -> None:
        self._url = parse_url(url, "the gateway's database")
        self._timeout = timeout
        self.outage = Outage("the gateway's database", "what is to be stored waits", pause=pause)
        self._is_sqlite = is_sqlite(self._url)
        self.busy: Counter[tuple[Lane, str]] = Counter()
        """Transactions that waited too long, by their lane, and by whether it was for a lock or a place."""
        self._engine = self._create_engine()
        event.listen(self._engine, "before_cursor_execute", _note_question)
        event.listen(self._engine, "after_cursor_execute", _note_answer)
        weakref.finalize(self, self._engine.dispose).atexit = False  # for one that nobody closes
        self._writes = threading.RLock()
        """SQLite has one writer at a time: threads queue here instead of polling the file's lock."""
        self._is_serial = self._is_sqlite and sqlite_file(self._url) is None
        self._threads = {lane: ThreadPoolExecutor(LANES[lane], thread_name_prefix=f"gateway-{lane}") for lane in LANES}
        self._is_migrated = False

    async def read(self, work: Callable[[Connection], Result], lane: Lane = Lane.KEYS) -> Result:
        """Run a transaction in another thread. Raises DatabaseUnavailableError, DatabaseBusyError included."""
        return await self._run_in_thread(work, lane, writes=False)

    async def write(self, work: Callable[[Connection], Result], lane: Lane = Lane.KEYS) -> Result:
        """Run a transaction that is committed as a whole or not at all. Raises as `read` does."""
        return await self._run_in_thread(work, lane, writes=True)

    def run(self, work: Callable[[Connection], Result], *, writes: bool = True) -> Result:
        """Do what `write` does, in this thread: for commands. Raises as `write` does."""
        try:
            return self._run(work, _Run(), writes=writes)
        except SQLAlchemyError as error:
            raise _as_known(error) from None

    def close(self) -> None:
        for threads in self._threads.values():
            threads.shutdown(cancel_futures=True)  # a transaction ends within the time-out
        self._engine.dispose()

    async def _run_in_thread(self, work: Callable[[Connection], Result], lane: Lane, *, writes: bool) -> Result:
        if not self.outage.may_ask:
            raise DatabaseUnavailableError("the gateway's database does not answer")
        loop, run = asyncio.get_running_loop(), _Run()

        def wanted(connection: Connection) -> Result:
            result = work(connection)
            if run.is_left:
                raise DatabaseUnavailableError("nobody waits for this transaction any more")
            return result

        def begin(limit: asyncio.Timeout) -> Result:
            run.has_begun = True
            loop.call_soon_threadsafe(self._give_time, run, limit)
            return self._run(wanted, run, writes=writes)

        try:
            async with asyncio.timeout(self._timeout) as limit:
                result = await loop.run_in_executor(self._threads[lane], begin, limit)
        except (TimeoutError, SQLAlchemyError) as error:
            raise self._failed(error, run, lane) from None
        finally:
            run.is_left = True
        self.outage.answer()
        return result

    def _give_time(self, run: _Run, limit: asyncio.Timeout) -> None:
        """Begin the time of a transaction, now that a thread has it."""
        if not run.is_left and not limit.expired():
            limit.reschedule(asyncio.get_running_loop().time() + self._timeout)

    def _failed(self, error: Exception, run: _Run, lane: Lane) -> DatabaseUnavailableError:
        """Return what a transaction fails with. An outage is an error of the connection, or a server that has not
        answered for longer than its own time-out."""
        if isinstance(error, SQLAlchemyError):
            known, is_outage = _as_known(error), isinstance(error, OperationalError | InterfaceError)
        elif run.asked_at is not None and time.monotonic() - run.asked_at >= self._timeout * _SERVER_SHARE:
            message = f"the gateway's database did not answer within {self._timeout:g} s"
            known, is_outage = DatabaseUnavailableError(message), True
        else:
            known, is_outage = DatabaseBusyError("lock" if run.has_begun else "place"), False
        if isinstance(known, DatabaseBusyError):
            self.busy[lane, known.wait] += 1
        elif is_outage:
            self.outage.fail(known)
        return known

    def _run(self, work: Callable[[Connection], Result], run: _Run, *, writes: bool) -> Result:
        if not self._is_migrated:
            with self._writes:
                if not self._is_migrated and (self._run_once(_read_version, _Run(), writes=False) or "") < HEAD:
                    self._run_once(_upgrade, _Run(), writes=True)
                self._is_migrated = True
        for _ in range(_MAX_TRIES - 1):
            try:
                return self._run_once(work, run, writes=writes)
            except DBAPIError as error:
                if sqlstate(error.orig) not in RETRY_CODES and not error.connection_invalidated:
                    raise
        return self._run_once(work, run, writes=writes)

    def _run_once(self, work: Callable[[Connection], Result], run: _Run, *, writes: bool) -> Result:
        lock = self._writes if self._is_serial or (self._is_sqlite and writes) else contextlib.nullcontext()
        with lock:
            run.asked_at = time.monotonic()
            with self._engine.connect() as connection:
                connection = connection.execution_options(gateway_run=run, **{WRITES: writes})
                with connection.begin():
                    run.asked_at = None
                    result = work(connection)
                    run.asked_at = time.monotonic()
            run.asked_at = None
        return result

    def _create_engine(self) -> Engine:
        given_up = self._timeout * _SERVER_SHARE
        # One connection more than threads is for what runs in another thread, such as a reload.
        pool: dict[str, Any] = {"timeout": self._timeout, "pool_size": _CONNECTIONS, "max_overflow": 1}
        if self._is_sqlite:
            if (file := sqlite_file(self._url)) is not None:
                folder = file.expanduser().parent
                try:
                    create_private_folder(folder)
                except OSError as error:
                    raise ConfigurationError(
                        f"the gateway cannot create the folder {folder} for its database ({error.strerror}): set"
                        " `database` under [gateway] to a file that it may write"
                    ) from error
            return create_sqlite_engine(self._url, busy_timeout=given_up, synchronous="normal", **pool)
        milliseconds, server = int(self._timeout * 1000), int(given_up * 1000)
        named = self._url.query.get("options", "")
        options = named if isinstance(named, str) else " ".join(named)
        return create_postgres_engine(
            self._url,
            connect_args={
                "connect_timeout": max(2, round(self._timeout)),  # libpq waits for 2 seconds at least
                "tcp_user_timeout": milliseconds,
                "options": f"{options} -c statement_timeout={server} -c lock_timeout={server}"
                f" -c idle_in_transaction_session_timeout={_IDLE_TIMES * milliseconds}",
            },
            **pool,
        )


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


def default_url() -> str:
    """Return the URL of the file gateway.db in the user's data folder."""
    return str(user_database("gateway.db"))


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
    lock_for_migration(connection, _ADVISORY_LOCK)
    if (_read_version(connection) or "") < HEAD:
        run_migrations(connection, "dragoman_gateway.database")


def _as_known(error: SQLAlchemyError) -> DatabaseUnavailableError:
    """The database's own message stays out: it may hold an address, a statement or a value."""
    cause = getattr(error, "orig", None)
    code = sqlstate(cause)
    if code in _BUSY_CODES or is_busy(cause):
        return DatabaseBusyError("lock")
    kind = DatabaseRejectedError if isinstance(error, DataError | IntegrityError) else DatabaseUnavailableError
    return kind(f"the gateway's database failed: {type(error).__name__}" + (f" ({code})" if code else ""))


def _note_question(connection: Connection, *_: Any) -> None:
    if (run := connection.get_execution_options().get("gateway_run")) is not None:
        run.asked_at = time.monotonic()


def _note_answer(connection: Connection, *_: Any) -> None:
    if (run := connection.get_execution_options().get("gateway_run")) is not None:
        run.asked_at = None
