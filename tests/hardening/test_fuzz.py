"""Hostile values at the doors of the library, a sample of them; `python -m tests.hardening` tries fifty thousand."""

import contextlib
import logging
import random
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import Message, Session
from dragoman.store import Store, StoreError, UnreadableError
from tests.hardening import fuzz


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


@pytest.mark.parametrize(
    ("column", "stored_as", "value"),
    [
        ("content_json", "TEXT", b'["a-text-of-the-conversation\xff"]'),
        ("cost_usd", "TEXT", "{}"),
        ("cost_usd", "BLOB", b"0.1"),
    ],
)
def test_changed_columns_that_the_driver_reads(tmp_path: Path, column: str, stored_as: str, value: object) -> None:
    """Bytes that are not text, which SQLite's driver quotes, and amounts that are not numbers."""
    path, door = tmp_path / "store.db", fuzz.Door("")
    fuzz._write_store(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE messages SET {column} = CAST(? AS {stored_as})", (value,))
        connection.commit()
    fuzz._use_store(door, path)
    assert door.refused > 2
    assert door.enough, (door.bare, door.quoting)
    with Store(f"sqlite:///{path}") as store, pytest.raises(StoreError) as raised:
        store.load("s0")
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("column", ["next_seq", "version"])
def test_a_count_that_is_no_whole_number(tmp_path: Path, column: str) -> None:
    """SQLite reads 1e999 as infinity, in a column of numbers too. Nothing is appended."""
    path, door = tmp_path / "store.db", fuzz.Door("")
    fuzz._write_store(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE sessions SET {column} = '1e999'")
        connection.commit()
        before = connection.execute("SELECT count(*) FROM messages").fetchone()
        fuzz._use_store(door, path)
        with Store(f"sqlite:///{path}") as store, pytest.raises(StoreError, match="restore a backup"):
            store.append("s0", [Message.user("Hi")], expected_version=None)
        kept = connection.execute("SELECT count(*) FROM messages WHERE session_id = 's0'").fetchone()
    assert door.enough, (door.bare, door.quoting)
    assert (before[0], kept[0]) == (9, 3)


@pytest.mark.filterwarnings("ignore")
def test_settings_and_arguments() -> None:
    door = fuzz.settings(random.Random(1), 10_000)
    assert door.enough, (door.bare, door.quoting)
    assert door.tried > 1_000


def test_redirects_and_addresses() -> None:
    door = fuzz.redirects(random.Random(2), 400)
    assert door.enough, (door.bare, door.quoting)


def test_damaged_stores() -> None:
    for door in fuzz.stores(random.Random(3), 150):
        assert door.enough, (door.bare, door.quoting)


def test_an_error_of_the_store_does_not_quote_the_conversation() -> None:
    """It says which field is invalid, and why."""
    with Store("sqlite://") as store:
        with pytest.raises(StoreError) as raised:
            store.create("a:m", title=[fuzz.CONTENT])  # type: ignore[arg-type]
        assert "title: string_type" in str(raised.value)
        store.create("a:m", session_id="s", title=fuzz.CONTENT)
        exported = [line.replace('"title":"', '"title":7,"x":"') for line in store.export("s")]
        with pytest.raises(UnreadableError) as unreadable:
            store.import_lines(exported, session_id="t")
    assert fuzz.CONTENT not in str(raised.value) + str(unreadable.value)


def test_prompts_that_no_message_holds() -> None:
    """Prompts that are none."""
    door = fuzz.Door("")
    door.attempt("", lambda: Session(fuzz.MODEL).ask(7))  # type: ignore[arg-type]
    door.attempt("", lambda: Session(fuzz.MODEL).ask("\ud800"))
    assert (door.refused, door.bare) == (2, [])
