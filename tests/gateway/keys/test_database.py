"""The gateway's database: its tables, its versions, and what it says when it fails."""

import asyncio
import gc
import sqlite3
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, insert, inspect, select, text
from sqlalchemy.exc import OperationalError

from dragoman.errors import ConfigurationError
from dragoman_gateway.database import Database, DatabaseUnavailableError
from dragoman_gateway.database.tables import OLDEST, VERSION_TABLE, counters, metadata
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.ledger import Ledger
from dragoman_gateway.keys.ledger_entries import Amount
from tests.gateway.keyed import total_spend
from tests.gateway.upstream import PATIENCE


def test_the_migrations_end_at_the_current_tables(database: Database) -> None:
    """The result of the steps is what the code expects."""

    def differences(connection: Connection) -> list[Any]:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))

    assert database.run(differences) == []


def test_migrations_only_add() -> None:
    """What an older version reads and writes stays as it was: two versions use one database during an update."""
    config = Config()
    config.set_main_option("script_location", str(files("dragoman_gateway.database") / "migrations"))
    before: dict[tuple[str, str], Any] = {}
    engine = create_engine("sqlite://")
    for step in reversed(list(ScriptDirectory.from_config(config).walk_revisions())):
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, step.revision)
            found = inspect(connection)
            now = {
                (table, column["name"]): (str(column["type"]), column["nullable"], column["default"])
                for table in found.get_table_names()
                for column in found.get_columns(table)
            }
        tables = {table for table, _ in before}
        assert {place: now.get(place) for place in before} == before, step.revision
        for (table, name), (_, nullable, default) in now.items():
            is_new = table in tables and (table, name) not in before
            assert not is_new or nullable or default is not None, f"{step.revision}: {table}.{name}"
        before = now
    engine.dispose()


def test_an_older_version_books_beside_a_newer_one(database: Database) -> None:
    """Its rows lack the newer columns, and both add up in one row."""
    day, row = 20_000, "INSERT INTO gateway_spend (scope, day, usd, tokens, requests) VALUES ('team:a', 20000, 2, 7, 1)"
    database.run(lambda connection: connection.execute(text(row)))

    async def book() -> Amount:
        ledger = Ledger(database, lambda: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=day))
        ledger.book("one", ["team:a"], Amount(Decimal(3), 2, estimated_usd=Decimal("0.5")))
        await ledger.flush()
        spent = await total_spend(ledger, "team:a")
        await ledger.close()
        return spent

    assert asyncio.run(book()) == Amount(Decimal(5), 9, estimated_usd=Decimal("0.5"))


@pytest.mark.exhaustive
def test_two_replicas_create_the_tables_once(url: str) -> None:
    """Replicas that start at the same time on an empty database both work."""
    databases = [Database(url) for _ in range(4)]
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


def test_an_older_gateway_uses_what_a_newer_one_has_added(url: str) -> None:
    """Migrations add, so both versions serve during an update, and the older one may be started again."""
    newer = Database(url)
    KeyStore(newer).create(name="before")
    newer.run(lambda connection: connection.execute(text("ALTER TABLE gateway_keys ADD COLUMN colour TEXT")))
    newer.run(lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    older = Database(url)
    KeyStore(older).create(name="after")
    assert {key.name for key in KeyStore(newer).all()} == {"before", "after"}
    version = text(f"SELECT version_num FROM {VERSION_TABLE}")
    assert older.run(lambda connection: connection.execute(version).scalar()) == "9999"
    newer.close()
    older.close()


def test_a_database_that_says_so_is_refused_unchanged(url: str) -> None:
    """A migration that changes what older versions read names the oldest one that may still use the database."""
    newer = Database(url)
    newer.run(lambda connection: connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")))
    newer.run(lambda connection: connection.execute(insert(counters).values(name=OLDEST, value=9999)))
    newer.close()
    older = Database(url)
    with pytest.raises(ConfigurationError, match="newer gateway"):
        older.run(lambda connection: connection.execute(text("SELECT 1")))
    older.close()


def test_a_transaction_that_nobody_waits_for_any_more_stores_nothing(database: Database) -> None:
    """After the time-out its caller was told that it failed, and may try again."""
    answers = threading.Event()

    def hang(connection: Connection) -> None:
        connection.execute(insert(counters).values(name="late", value=1))
        answers.wait(PATIENCE)

    async def scenario() -> None:
        await database.read(lambda connection: None)
        database._timeout = 0.05
        with pytest.raises(DatabaseUnavailableError):
            await database.write(hang)
        answers.set()

    asyncio.run(scenario())
    late = select(counters.c.value).where(counters.c.name == "late")
    assert database.run(lambda connection: connection.execute(late).first()) is None


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
        database.outage.pause = 600
        for _ in range(5):
            with pytest.raises(DatabaseUnavailableError):
                await database.read(fail)
        assert (asked, database.outage.may_ask) == (1, False)
        database.outage.retry_at = 0
        await database.read(lambda connection: connection.execute(text("SELECT 1")))
        assert database.outage.may_ask

    asyncio.run(scenario())


def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="set `database` under") as caught:
        Database(f"sqlite:///{tmp_path}/file/gateway.db")
    assert str(tmp_path / "file") in str(caught.value)


def test_a_database_that_nobody_closes_leaves_no_open_connection(tmp_path: Path) -> None:
    """Python 3.13 warns of each."""
    database = Database(f"sqlite:///{tmp_path}/gateway.db")
    pooled: Any = database.run(lambda connection: connection.connection.dbapi_connection)
    del database
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        pooled.execute("SELECT 1")
