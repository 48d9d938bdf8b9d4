"""Opens a database: creates missing tables, migrates older ones, and refuses newer ones."""

import re
from importlib.resources import files

from sqlalchemy import Connection, inspect, text

from dragoman.store.database import Database, store_errors
from dragoman.store.errors import StoreError, StoreVersionError
from dragoman.store.schema import HEAD, VERSION_TABLE, metadata

_ADVISORY_LOCK = 0x647261676F6D616E
"""PostgreSQL's lock for one migration at a time: an arbitrary number that other programs are unlikely to use."""


def migrate(database: Database) -> None:
    """Migrate the database. If several programs open it at once, the first one migrates and the others wait.

    Raises StoreVersionError if a newer version wrote it, and StoreError if another program did.
    """
    if database.read(_version) != HEAD:
        database.write(_upgrade)


def _upgrade(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    version = _version(connection)
    if version == HEAD:
        return
    if version is None:
        _refuse_foreign(connection)
    with store_errors("the store could not be migrated, and is unchanged"):
        _run_migrations(connection)


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


def _refuse_foreign(connection: Connection) -> None:
    existing = sorted(set(metadata.tables) & set(inspect(connection).get_table_names()))
    if existing:
        raise StoreError(
            f"the database has tables of another program ({', '.join(existing)}): give the store a database, or a"
            " PostgreSQL schema, of its own. Nothing was changed"
        )


def _run_migrations(connection: Connection) -> None:
    # Imported here: the import is slow, and an up-to-date database does not need it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("dragoman.store") / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
