"""Files of other libraries that are SQLite databases: they are read without a trace."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from dragoman.formats import FormatError
from dragoman.formats.importers.agent_frameworks import from_google_adk_file
from dragoman.formats.importers.langchain_runs import from_langgraph_file

HANDWRITTEN = {
    from_langgraph_file: "create table checkpoints (thread_id, checkpoint_ns, checkpoint_id, type, checkpoint)",
    from_google_adk_file: "create table events (session_id text, timestamp text, event_data text)",
}
"""The tables that each reader asks for, without rows."""


@pytest.mark.parametrize("read", HANDWRITTEN, ids=lambda read: read.__name__)
def test_a_file_with_a_write_ahead_log_is_read_without_a_trace(
    read: Callable[[Path], list[object]], tmp_path: Path
) -> None:
    """SQLite itself would leave a log and its index beside the file."""
    path = tmp_path / "sessions.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(HANDWRITTEN[read])
        database.commit()
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert set(before) == {"sessions.sqlite"}
    assert read(path) == []
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before


@pytest.mark.parametrize("read", HANDWRITTEN, ids=lambda read: read.__name__)
def test_another_database_is_refused(read: Callable[[Path], list[object]], tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table other (name)")
    with pytest.raises(FormatError, match="this is not a file of"):
        read(path)
