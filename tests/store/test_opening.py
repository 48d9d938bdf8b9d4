"""Opening creates or migrates a database, and leaves others alone."""

import gc
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Engine, create_engine, inspect, make_url, text
from sqlalchemy.event import listen, remove
from sqlalchemy.pool import NullPool

import dragoman.store
from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.canonical.message import Message
from dragoman.store import Store, StoreBusyError, StoreError, StoreVersionError
from dragoman.store.schema import HEAD, SEARCH_TABLE, VERSION_TABLE, metadata
from tests.store.load.writers import FORK_CONTEXT
from tests.store.turns import change, everything, rows, tool_turn


def test_the_migrations_end_at_the_current_tables(place: str) -> None:
    """The result of the steps is what the code expects, except for SQLite's numbered rows and its index."""
    with Store(place) as store, store._database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        found = [(change[0], _named(change)) for change in compare_metadata(context, metadata)]
        keys = {table.name: [column.name for column in table.primary_key] for table in metadata.sorted_tables}
        if not store._database.is_sqlite:
            assert found == []
            ask = inspect(connection)
            assert {name: ask.get_pk_constraint(name)["constrained_columns"] for name in keys} == keys
        else:
            assert {change for change in found if SEARCH_TABLE not in change[1]} == _ON_SQLITE


_KEYS = ("messages_in_order", "attempts_in_order", "tool_ids_once")
_ON_SQLITE = {
    *(("remove_constraint", name) for name in _KEYS), ("remove_column", "messages.number"),
    ("remove_column", "attempts.number"),
}  # fmt: skip


def _named(change: Any) -> str:
    if change[0] == "remove_column":
        return f"{change[2]}.{change[3].name}"
    return str(getattr(change[1], "name", change))


def test_the_newest_step_is_the_last_one() -> None:
    """The shortcut without Alembic knows where the steps end."""
    config = Config()
    config.set_main_option("script_location", str(Path(dragoman.store.__file__).parent / "migrations"))
    assert ScriptDirectory.from_config(config).get_heads() == [HEAD]


def test_reopening_finds_the_content(lasting_place: str) -> None:
    with Store(lasting_place) as store:
        session = store.create(messages=[Message.user("hi")])
        before = everything(store)
    with Store(lasting_place) as store:
        assert everything(store) == before
        assert store.load(session.id).messages[0].text == "hi"


@pytest.mark.parametrize("found", [f"{int(HEAD) + 1:04}", "9999", "", "junk", "0001'; DROP TABLE sessions; --"])
def test_a_newer_database_is_refused(lasting_place: str, found: str) -> None:
    """The error says what to do, and nothing changes."""
    with Store(lasting_place) as store:
        store.create(session_id="kept")
        change(store, f"UPDATE {VERSION_TABLE} SET version_num = :found", found=found[:32])
    with pytest.raises(StoreVersionError, match="upgrade dragoman" if found.isdigit() else "which version"):
        Store(lasting_place)
    engine = create_engine(make_url(lasting_place))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT id FROM sessions").scalars().all() == ["kept"]
    engine.dispose()


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    """Although a table has the same name."""
    file = tmp_path / "other.db"
    other = sqlite3.connect(file)
    other.execute("CREATE TABLE sessions (cookie TEXT)")
    other.commit()
    with pytest.raises(StoreError, match="tables of another program \\(sessions\\)"):
        Store(f"sqlite:///{file}")
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("sessions",)]
    other.close()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """And does not change."""
    file = tmp_path / "notes.txt"
    file.write_text("Dear diary, " * 100)
    with pytest.raises(StoreError, match="not a database"):
        Store(f"sqlite:///{file}")
    assert file.read_text() == "Dear diary, " * 100
    with pytest.raises(StoreError, match="unable to open"):
        Store(f"sqlite:///{tmp_path}/nowhere/a.db")


@pytest.mark.parametrize(
    "url", ["", "chats.db", "mysql://root:hunter2@h/x", "sqlite+aiosqlite:///x", "http://[", "a:b"]
)
def test_a_wrong_url_is_refused(url: str) -> None:
    """The error does not repeat the password that it may hold."""
    with pytest.raises(ConfigurationError) as refused:
        Store(url)
    assert "hunter2" not in str(refused.value)


def test_a_missing_server_is_a_store_error() -> None:
    """One class for all database errors; the password is not shown."""
    with pytest.raises(StoreError, match="the database failed") as refused:
        Store("postgresql://ann:hunter2@127.0.0.1:1/x", timeout=1)
    assert "hunter2" not in str(refused.value)


def test_a_store_shows_its_place_without_a_password(tmp_path: Path) -> None:
    store = Store("sqlite://")
    assert repr(store) == "Store('sqlite://')"
    store._database.url = make_url("postgresql://ann:hunter2@h/x")
    assert repr(store) == "Store('postgresql://ann:***@h/x')"
    store.close()


def test_the_default_is_a_file_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_data_path", lambda *names, **_: tmp_path / "data" / names[0])
    with Store() as store:
        session = store.create()
    assert (tmp_path / "data" / "dragoman" / "sessions.db").exists()
    with Store() as store:
        assert store.record(session.id) == session


def test_sqlite_is_configured_to_keep_acknowledged_turns(tmp_path: Path) -> None:
    """WAL, foreign keys, a busy timeout, and a sync with each commit unless that was turned off."""
    for synchronous, number in (("full", 2), ("normal", 1)):
        with Store(f"sqlite:///{tmp_path}/a.db", synchronous=synchronous) as store:  # type: ignore[arg-type]
            assert rows(store, "PRAGMA journal_mode") == [("wal",)]
            assert rows(store, "PRAGMA foreign_keys") == [(1,)]
            assert rows(store, "PRAGMA synchronous") == [(number,)]
            assert rows(store, "PRAGMA busy_timeout")[0][0] > 0


def _without_fts5(*event: Any) -> tuple[str, Any]:
    _, _, statement, parameters, _, _ = event
    return statement.replace("USING fts5(", "USING fts_unknown("), parameters


def test_without_full_text_search_the_store_works() -> None:
    """A SQLite without FTS5 has no index, and every search reads the texts."""
    listen(Engine, "before_cursor_execute", _without_fts5, retval=True)
    try:
        with Store("sqlite://") as store:
            assert rows(store, "SELECT name FROM sqlite_master WHERE name LIKE :like", like=f"{SEARCH_TABLE}%") == []
            session = store.create(messages=[Message.user("a needle in it")])
            assert [hit.session_id for hit in store.search("Needle")] == [session.id]
            store.delete(session.id)
    finally:
        remove(Engine, "before_cursor_execute", _without_fts5)


def test_a_locked_database_is_busy(tmp_path: Path) -> None:
    """A locked database is busy after the time limit of the store, and never as an error of the database."""
    file = tmp_path / "a.db"
    with Store(f"sqlite:///{file}", timeout=0.2) as store:
        session = store.create()
        holder = sqlite3.connect(file, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusyError, match=r"more than 0\.2 s"):
            store.append(session.id, [Message.user("x")], expected_version=0)
        assert store.load(session.id).version == 0  # reading still works
        holder.execute("ROLLBACK")
        holder.close()
        assert store.append(session.id, [Message.user("x")], expected_version=0) == 1


def test_a_locked_row_is_busy(server_place: str) -> None:
    Store(server_place).close()  # concurrent tests may be creating their tables, and one waits for the other
    with Store(server_place, timeout=0.2) as store:
        session = store.create()
        with store._database.engine.begin() as holder:
            holder.exec_driver_sql("UPDATE sessions SET title = 'held'")
            with pytest.raises(StoreBusyError, match=r"more than 0\.2 s"):
                store.append(session.id, [Message.user("x")], expected_version=0)


def _named_connections(place: str) -> URL:
    """A name for its connections that no concurrent test has."""
    return make_url(place).update_query_dict({"application_name": f"cut {uuid4()}"})


def _cut(store: Store) -> None:
    """Closes pooled connections as a restart of the server or a proxy does. They are closed on return."""
    url = store._database.url
    engine = create_engine(url.update_query_dict({"application_name": "other"}), poolclass=NullPool)
    with engine.connect() as connection:
        named = text("SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE application_name = :name")
        assert all(connection.execute(named, {"name": url.query["application_name"]}).scalars())


def test_a_closed_connection_is_replaced(server_place: str) -> None:
    """Nobody has to know how long a server keeps them."""
    with Store(_named_connections(server_place), pool_size=1) as store:
        session = store.create()
        _cut(store)
        assert store.append(session.id, [Message.user("x")], expected_version=0) == 1


def test_a_store_that_nobody_closes_leaves_no_open_connection(tmp_path: Path) -> None:
    """Python 3.13 warns of each."""
    store = Store(f"sqlite:///{tmp_path}/chats.db")
    with store._database.engine.connect() as pooled:
        connection: Any = pooled.connection.dbapi_connection
    del store, pooled
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("moment", "turn"),
    [("commit", tool_turn().messages), ("before_cursor_execute", [Message.user("x")])],
    ids=["commit", "statement"],
)
def test_a_connection_that_breaks_in_the_commit_is_reported_as_doubt(
    server_place: str, moment: str, turn: list[Message]
) -> None:
    """Nobody can know whether the turn was stored, so the error does not claim that it was not."""
    with Store(_named_connections(server_place), pool_size=1) as store:
        session = store.create()

        def cut(*_: Any) -> None:
            _cut(store)

        listen(store._database.engine, moment, cut)
        with pytest.raises(StoreError, match="to see whether it was"):
            store.append(session.id, turn, expected_version=0)
        remove(store._database.engine, moment, cut)
        assert store.record(session.id).version == 0


def test_without_sqlalchemy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("dragoman.store")]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.split(".")[0] == "sqlalchemy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [_Without("sqlalchemy"), *sys.meta_path])
    with pytest.raises(MissingExtraError, match=r"dragoman\[store\]"):
        __import__("dragoman.store")


class _Without:
    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, *_: object) -> None:
        if name.split(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _open(url: str, barrier: object, outcomes: object) -> None:
    barrier.wait()  # type: ignore[attr-defined]
    try:
        with Store(url) as store:
            outcomes.put(store.create().version)  # type: ignore[attr-defined]
    except Exception as error:
        outcomes.put(repr(error))  # type: ignore[attr-defined]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_programs_may_open_a_new_database_at_once(lasting_place: str) -> None:
    """One of them creates the tables, and all of them can use it."""
    barrier, outcomes = FORK_CONTEXT.Barrier(4), FORK_CONTEXT.Queue()
    programs = [FORK_CONTEXT.Process(target=_open, args=(lasting_place, barrier, outcomes)) for _ in range(4)]
    for program in programs:
        program.start()
    assert [outcomes.get(timeout=120) for _ in programs] == [0, 0, 0, 0]
    for program in programs:
        program.join()
    with Store(lasting_place) as store:
        assert len(store.list().sessions) == 4


def test_a_store_shares_its_database_with_a_gateway(tmp_path: Path) -> None:
    """The tables of a gateway are not those of a foreign program."""
    path = tmp_path / "shared.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE gateway_keys (id TEXT)")
    with Store(f"sqlite:///{path}") as store:
        assert store.list().sessions == ()
