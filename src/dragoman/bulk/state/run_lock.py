"""Locks a run: with two processes, requests in flight would be counted as lost.

The system, or the database, releases the lock when the process ends, however it ends.
"""

from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Connection, text

from dragoman.adapter.errors import ConfigurationError
from dragoman.private_files import create_private_folder, open_private
from dragoman.store.database import Database
from dragoman.store.errors import StoreError


class RunLock:
    """Raises ConfigurationError if another process works on the run, and StoreError if its file cannot be written."""

    def __init__(self, database: Database, name: str) -> None:
        self._file: IO[bytes] | None = None
        self._connection: Connection | None = None
        if not database.is_sqlite:
            self._lock_database(database, name)
        elif database.url.database not in (None, "", ":memory:"):
            self._lock_file(Path(f"{database.url.database}.lock"), name)

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._connection is not None:
            with suppress(Exception):  # a broken connection holds no lock
                self._connection.execute(text("SELECT pg_advisory_unlock_all()"))  # a server closes connections late
            with suppress(Exception):
                self._connection.detach()  # close it instead of returning it to the pool: it may hold the lock
                self._connection.close()
            self._connection = None

    def _lock_file(self, path: Path, name: str) -> None:
        try:
            import fcntl
        except ModuleNotFoundError:  # Windows has no such lock: the caller must not start a run twice
            return
        try:
            create_private_folder(path.parent)
            self._file = open(path, "ab", opener=open_private)  # noqa: SIM115 -- `release` closes it
        except OSError as error:
            raise StoreError(f"the run cannot be kept at {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.release()
            raise _locked_error(name) from None

    def _lock_database(self, database: Database, name: str) -> None:
        database.read(lambda _: None)  # raises StoreError if the server cannot be reached
        connection: Any = database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._connection = connection
        # These locks are those of the whole database: a run of the same name in another schema is another run.
        place = f"{connection.execute(text('SELECT current_schema()')).scalar_one()}.{name}"
        key = int.from_bytes(blake2b(place.encode(), digest_size=8, person=b"dragoman-bulk").digest(), signed=True)
        if not connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": key}).scalar_one():
            self.release()
            raise _locked_error(name)


def _locked_error(name: str) -> ConfigurationError:
    return ConfigurationError(
        f"another process is working on the run {name!r}: wait for it, or give this run another name"
    )
