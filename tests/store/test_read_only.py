"""A store that is opened read-only changes nothing; and only a store's own database gets its tables."""

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.sqlite_files import connect_read_only, read_unchanged, table_names
from dragoman.store import Store, StoreError, StoreVersionError
from dragoman.store.schema import VERSION_TABLE
from tests.store.turns import change

OLD_STORE = Path(__file__).parents[1] / "compatibility" / "stores" / "v0001.db"


def folder_state(folder: Path) -> dict[str, str]:
    """Each file of a folder with the digest of its bytes."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "chats.db"
    path.parent.mkdir()
    with Store(f"sqlite:///{path}") as store:
        store.create(session_id="sess_kept", messages=[Message.user("Will it rain?")])
    return path


@pytest.mark.parametrize("query", ["?mode=ro", ""])
def test_a_read_only_store_changes_no_byte(file: Path, query: str) -> None:
    """A read only store changes no byte, not even by the files that SQLite creates next to a database."""
    before = folder_state(file.parent)
    with Store(f"sqlite:///{file}{query}", read_only=not query) as store:
        assert [record.id for record in store.list().sessions] == ["sess_kept"]
        assert store.load("sess_kept").messages[0].text == "Will it rain?"
        assert len(store.search("rain")) == 1
        for write in (store.create, lambda: store.append("sess_kept", [Message.user("x")], expected_version=1)):
            with pytest.raises(StoreError, match="opened read-only"):
                write()
    assert folder_state(file.parent) == before


def test_a_read_only_store_reads_with_a_server_too(lasting_place: str) -> None:
    with Store(lasting_place) as store:
        store.create(session_id="sess_kept")
    with Store(lasting_place, read_only=True) as store:
        assert store.record("sess_kept").version == 0
        with pytest.raises(StoreError, match="opened read-only"):
            store.delete("sess_kept")


def test_a_read_only_store_sees_the_turns_of_a_running_program(file: Path) -> None:
    """Those before it was opened, and those after."""
    with Store(f"sqlite:///{file}", read_only=True) as reader:
        assert reader.record("sess_kept").version == 1
        with Store(f"sqlite:///{file}") as writer:
            writer.append("sess_kept", [Message.user("and")], expected_version=1)
            assert reader.record("sess_kept").version == 2
        assert reader.record("sess_kept").version == 2


def test_a_read_runs_again_if_a_program_wrote_in_the_meantime(file: Path) -> None:
    """SQLite holds no lock on a file that it reads as immutable."""
    counts: list[int] = []

    def read() -> int:
        with closing(connect_read_only(file)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM sessions").fetchone()
        if not counts:
            with Store(f"sqlite:///{file}") as writer:
                writer.create()
        counts.append(count)
        return int(count)

    assert read_unchanged(file, read) == 2
    assert counts == [1, 2]


def test_a_log_without_its_index_is_named(file: Path, tmp_path: Path) -> None:
    """Reading it would create the index."""
    copy = tmp_path / "copy" / "chats.db"
    copy.parent.mkdir()
    with Store(f"sqlite:///{file}") as writer:
        writer.create()
        for suffix in ("", "-wal"):
            shutil.copy(f"{file}{suffix}", f"{copy}{suffix}")
    before = folder_state(copy.parent)
    with pytest.raises(StoreError, match=r"chats\.db-wal: open the database once"):
        Store(f"sqlite:///{copy}", read_only=True)
    assert folder_state(copy.parent) == before


def test_what_is_no_store_is_not_opened_read_only(tmp_path: Path) -> None:
    """A missing file, a database in memory, another program's database, an older store."""
    for url in (f"sqlite:///{tmp_path}/none.db", f"sqlite:///{tmp_path}", "sqlite://", "sqlite:///:memory:?mode=ro"):
        with pytest.raises(ConfigurationError, match="there is no store"):
            Store(url, read_only=True)
    with pytest.raises(ConfigurationError, match="mode of a SQLite URL"):
        Store(f"sqlite:///{tmp_path}/none.db?mode=memory")
    make_other(tmp_path / "other.db")
    shutil.copy(OLD_STORE, tmp_path / "old.db")
    before = folder_state(tmp_path)
    with pytest.raises(StoreError, match="not a store of dragoman"):
        Store(f"sqlite:///{tmp_path}/other.db?mode=ro")
    with pytest.raises(StoreVersionError, match=r"version 0001.*migrates"):
        Store(f"sqlite:///{tmp_path}/old.db", read_only=True)
    assert folder_state(tmp_path) == before


def make_other(path: Path, statement: str = "CREATE TABLE birds (name TEXT)") -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute(statement)
        other.commit()


@pytest.mark.parametrize("journal", ["WAL", "DELETE"])
def test_the_database_of_another_program_gets_no_tables_without_a_yes(tmp_path: Path, journal: str) -> None:
    """Its bytes stay as they are. With the yes, both programs use it."""
    path = tmp_path / "other.db"
    make_other(path)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA journal_mode = {journal}")
    before = folder_state(tmp_path)
    with pytest.raises(StoreError, match=r"another program \(birds\).*allow_other_tables=True"):
        Store(f"sqlite:///{path}")
    assert folder_state(tmp_path) == before
    with Store(f"sqlite:///{path}", allow_other_tables=True) as store:
        store.create(session_id="sess_kept")
    assert {"birds", "sessions", VERSION_TABLE} <= table_names(path)
    with Store(f"sqlite:///{path}") as store:
        assert store.record("sess_kept").version == 0


def test_a_yes_overwrites_no_table(tmp_path: Path) -> None:
    """A table with the name of one of ours is refused in any case."""
    make_other(tmp_path / "other.db", "CREATE TABLE sessions (cookie TEXT)")
    before = folder_state(tmp_path)
    with pytest.raises(StoreError, match=r"another program \(sessions\)"):
        Store(f"sqlite:///{tmp_path}/other.db", allow_other_tables=True)
    assert folder_state(tmp_path) == before


def test_a_server_asks_for_the_yes_too(server_place: str) -> None:
    """A server asks for it too, for the tables of the schema that the URL names."""
    with Store(server_place) as store:
        change(store, f"DROP TABLE {VERSION_TABLE}")
        for table in ("turns", "tool_calls", "messages", "attempts", "tool_ids", "retention_records", "sessions"):
            change(store, f"DROP TABLE {table} CASCADE")
        change(store, "CREATE TABLE birds (name TEXT)")
    with pytest.raises(StoreError, match="allow_other_tables=True"):
        Store(server_place)
    with Store(server_place, allow_other_tables=True) as store:
        assert store.create().version == 0


@pytest.mark.parametrize("damage", [lambda data: data[:50], lambda data: data[:4096] + b"\xff" * 4096])
def test_a_damaged_file_is_a_store_error(file: Path, damage: Callable[[bytes], bytes]) -> None:
    """A file that was written halfway, too."""
    file.write_bytes(damage(file.read_bytes()))
    before = folder_state(file.parent)
    with pytest.raises(StoreError):
        Store(f"sqlite:///{file}", read_only=True).list()
    assert folder_state(file.parent) == before
