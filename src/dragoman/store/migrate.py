"""Opens a database: creates missing tables, migrates older ones, and refuses newer ones and those of others."""

import re
import sqlite3
from collections.abc import Iterable
from functools import partial

from sqlalchemy import Connection, inspect, text

from dragoman.sql import lock_for_migration, run_migrations
from dragoman.sqlite_files import table_names
from dragoman.store.database import Database, store_errors
from dragoman.store.errors import StoreError, StoreVersionError
from dragoman.store.schema import HEAD, VERSION_TABLE, metadata

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
    _refuse_foreign_file(database, allow_other_tables)
    if database.read(_version) != HEAD:
        database.write(partial(_upgrade, allow_other_tables=allow_other_tables))


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


def _upgrade(connection: Connection, *, allow_other_tables: bool) -> None:
    lock_for_migration(connection, _ADVISORY_LOCK)
    version = _version(connection)
    if version == HEAD:
        return
    if version is None:
        _refuse_foreign(inspect(connection).get_table_names(), allow_other_tables)
    with store_errors("the store could not be migrated, and is unchanged"):
        run_migrations(connection, "dragoman.store")


def _version(connection: Connection) -> str | None:
    """Return the database's migration; None without our tables. Raises StoreVersionError."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    with store_errors(f"the table {VERSION_TABLE} cannot be read"):
        rows = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalars().all()
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


def _refuse_foreign_file(database: Database, allow_other_tables: bool) -> None:
    """Check a SQLite file before it is opened for writing, because opening turns on its write-ahead log."""
    if database.file is None or not database.file.is_file():
        return
    try:
        names = table_names(database.file, database.timeout)
    except (sqlite3.Error, OSError, UnicodeDecodeError):
        return  # opening it reports the reason
    if VERSION_TABLE not in names:
        _refuse_foreign(names, allow_other_tables)


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
