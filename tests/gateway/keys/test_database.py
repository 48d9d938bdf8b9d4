"""The gateway's database: its tables, its versions, and what it says when it fails."""

import asyncio
import threading
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from dragoman.errors import ConfigurationError
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import VERSION_TABLE, metadata
from dragoman_gateway.keys.key_store import KeyStore


def test_the_migrations_end_at_the_current_tables(database: Database) -> None:
    """The result of the steps is what the code expects."""

    def differences(connection: Connection) -> list[Any]:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    assert database.run(differences) == []


@pytest.mark.exhaustive
def test_two_replicas_create_the_tables_once(url: str) -> None:
    """Replicas that start at the same time on an empty database both work."""
    databases = [Database(url, timeout=20) for _ in range(4)]
    failures: list[BaseException] = []

    def use(database: Database) -> None:
        try:
            KeyStore(database).create()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(KeyStore(databases[0]).all()) == 4
    for database in databases:
        database.close()


def test_a_newer_gateway_s_database_is_refused_unchanged(url: str) -> None:
    """A replica of an older version does not touch what a newer one wrote."""
    newer = Database(url, timeout=10)
    newer.run(lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    newer.close()
    older = Database(url, timeout=10)
    with pytest.raises(ConfigurationError, match="newer gateway"):
        older.run(lambda connection: connection.execute(text("SELECT 1")))
    older.close()


def test_an_address_is_never_shown() -> None:
    """Neither a wrong URL nor a server that fails shows a password, an address or a statement."""
    for wrong in ("mysql://root:hunter2@db/x", "not a url hunter2", "postgresql://u:hunter2@[::1"):
        with pytest.raises(ConfigurationError) as raised:
            Database(wrong)
        assert "hunter2" not in str(raised.value)
    gone = Database("postgresql://u:hunter2@127.0.0.1:1/nothing", timeout=2)
    with pytest.raises(DatabaseUnavailableError) as failed:
        gone.run(lambda connection: connection.execute(text("SELECT 1")))
    assert not [word for word in ("hunter2", "127.0.0.1", "SELECT") if word in str(failed.value)]
    gone.close()


def test_a_database_that_failed_is_not_asked_for_a_moment(database: Database) -> None:
    """After a failure, requests fail at once instead of each waiting in turn, and later the database is asked again."""
    asked = 0

    def fail(connection: Connection) -> None:
        nonlocal asked
        asked += 1
        raise OperationalError("SELECT", {}, Exception("gone"))

    async def scenario() -> None:
        for _ in range(5):
            with pytest.raises(DatabaseUnavailableError):
                await database.read(fail)
        assert (asked, database.is_available) == (1, False)
        database._retry_at = 0
        await database.read(lambda connection: connection.execute(text("SELECT 1")))
        assert database.is_available

    asyncio.run(scenario())
