"""Reads SQLite files of any program without changing them, or leaving files next to them; creates private ones."""

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from dragoman.private_files import open_private

Result = TypeVar("Result")

_MAGIC = b"SQLite format 3\0"
_HEADER_SIZE = 20
_READ_VERSION = 19
_WAL = 2
"""The value of the header's byte for reading if the file has a write-ahead log."""
_FILES = ("", "-wal", "-shm", "-journal")
"""The ends of the names of a database and of what SQLite keeps next to it."""
_ATTEMPTS = 20
_PAUSE = 0.02


class _FileState(NamedTuple):
    identity: tuple[int, ...]
    is_at_rest: bool
    """Whether the file has a write-ahead log, and no program has changes in it."""


def is_sqlite_file(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def connect_read_only(path: Path, **arguments: Any) -> sqlite3.Connection:
    """Return a connection that changes neither the file nor its folder. Use it inside `read_unchanged`.

    ``arguments`` are those of `sqlite3.connect`. Raises sqlite3.Error, and OSError if the file cannot be read.
    """
    path = path.resolve()
    if _file_state(path).is_at_rest:
        # SQLite would create a log and its index for a reader, too, and a reader cannot remove them.
        mode = "mode=ro&immutable=1"
    else:
        mode = "mode=ro"
        if _log_size(path) and not path.with_name(f"{path.name}-shm").exists():
            raise sqlite3.OperationalError(
                f"changes are waiting in {path.name}-wal: open the database once with the program that wrote them"
            )
    connection: sqlite3.Connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True, **arguments)
    return connection


def read_unchanged(path: Path, read: Callable[[], Result]) -> Result:
    """Return the result of ``read``, which opens a connection with `connect_read_only` and closes it.

    SQLite does not lock a file that it reads as immutable, so ``read`` runs again if a program wrote in the meantime.
    """
    path = path.resolve()
    for _ in range(_ATTEMPTS):
        before = _file_state(path)
        try:
            result = read()
        except Exception:
            if not before.is_at_rest or _file_state(path) == before:
                raise
        else:
            if not before.is_at_rest or _file_state(path) == before:
                return result
        time.sleep(_PAUSE)
    raise sqlite3.OperationalError("other programs keep changing the file")


def table_names(path: Path, timeout: float = 5.0) -> frozenset[str]:
    """Return the names of the tables of a file. Raises sqlite3.Error, and OSError if the file cannot be read."""

    def read(database: sqlite3.Connection) -> frozenset[str]:
        rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return frozenset(name for (name,) in rows if isinstance(name, str) and not name.startswith("sqlite_"))

    return read_database(path, read, timeout=timeout)


def read_database(path: Path, read: Callable[[sqlite3.Connection], Result], **arguments: Any) -> Result:
    """Return the result of ``read``, which gets a connection that leaves no trace; see `connect_read_only`."""

    def use() -> Result:
        with closing(connect_read_only(path, **arguments)) as database:
            return read(database)

    return read_unchanged(path, use)


def create_private_database(_: Any, __: Any, arguments: Sequence[Any], settings: Mapping[str, Any]) -> None:
    """Create a missing database for its owner only, before SQLite does: its log and its journal get the same rights.

    This is a listener of SQLAlchemy's event ``do_connect``.
    """
    name = os.fsdecode(arguments[0])
    if settings.get("uri") and name.startswith("file:"):
        parts = urlsplit(name)
        if parse_qs(parts.query).get("mode", ["rwc"]) != ["rwc"]:  # in memory, or a file that must exist
            return
        name = unquote(parts.path)
    path = os.path.realpath(name)
    # A file that exists is not opened: closing it would release the locks that this process has on it.
    if name not in ("", ":memory:"):
        with suppress(OSError):  # SQLite says why a file cannot be created
            os.close(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def database_files(path: Path) -> list[Path]:
    """Return the file of a database, and those that SQLite keeps next to it at present."""
    return [each for end in _FILES if (each := path.with_name(path.name + end)).is_file()]


def _file_state(path: Path) -> _FileState:
    with path.open("rb") as file:
        header = file.read(_HEADER_SIZE)
    status = path.stat()
    has_log = header.startswith(_MAGIC) and header[_READ_VERSION:] == bytes([_WAL])
    return _FileState(
        (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns), has_log and not _log_size(path)
    )


def _log_size(path: Path) -> int:
    try:
        return path.with_name(f"{path.name}-wal").stat().st_size
    except FileNotFoundError:
        return 0
