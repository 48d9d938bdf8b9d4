"""Stores and exported sessions of every version open forever, without loss."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ThinkingBlock, UnknownBlock
from dragoman.canonical.message import Message, MessageStatus, write_message
from dragoman.store import Store
from dragoman.store.schema import HEAD, VERSION_TABLE
from tests.compatibility.test_messages import is_contained
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url
from tests.store.load import integrity
from tests.store.turns import rows

FOLDER = Path(__file__).parent / "stores"
DIGESTS = {
    "v0001.db": "b6cbaa7e0146b3be",
    "v0001.sql": "f47c24fba6ae33ce",
    "v0002.db": "56f1bcfb9e976d24",
    "v0002.sql": "ae13d6f8eb8d498d",
    "lines_v1.jsonl": "a53a9b981facae12",
    "lines_newer.jsonl": "bbefd6c6ae25abe2",
}
"""The first 16 hex digits of each file's SHA-256: a fixture never changes."""
CALL, WAITING = "tu_01M7YJFK7P2ZFT4X2CGGZPP000", "tu_01M7YJFK7P2ZFT4X2CGGZPP001"


@pytest.mark.parametrize("name", DIGESTS)
def test_fixture_is_unchanged(name: str) -> None:
    """A failure here has found an edit, not a bug: add a file instead."""
    assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest().startswith(DIGESTS[name])


def test_every_file_is_a_known_fixture() -> None:
    """Unread files prove nothing."""
    assert {path.name for path in FOLDER.iterdir()} == set(DIGESTS)


@pytest.fixture(params=sorted(name for name in DIGESTS if not name.endswith(".jsonl")))
def migrated_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A migrated copy."""
    with _copy(FOLDER / request.param, tmp_path) as url, Store(url) as store:
        yield store


@contextmanager
def _copy(fixture: Path, folder: Path) -> Iterator[str]:
    if fixture.suffix == ".db":
        shutil.copy(fixture, folder / "sessions.db")
        yield f"sqlite:///{folder / 'sessions.db'}"
        return
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as url:
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.connection.cursor().execute(fixture.read_text(encoding="utf-8"))
        engine.dispose()
        yield url


def test_a_migrated_store_has_the_newest_version(migrated_store: Store) -> None:
    assert rows(migrated_store, f"SELECT version_num FROM {VERSION_TABLE}") == [(HEAD,)]


def test_an_older_store_opens_and_migrates(migrated_store: Store) -> None:
    assert {record.id for record in migrated_store.list().sessions} == {"sess_first", "sess_fork", "sess_empty"}
    found = migrated_store.load("sess_first")
    record = found.record
    assert (record.version, record.model, record.title) == (2, "openai:gpt-6.1-sol", "Files")
    assert (record.workspace, record.metadata, record.routing_policy) == ("C:\\work", {"tags": ["a"]}, {"rules": []})
    assert (record.user_id, record.team_id) == ("usr_1", "team_1")
    question, call_message, answer, done, future, cut = found.messages
    assert question.text == "Lies die Datei auf der Straße 😀 \0 天気"
    assert question.created_at.isoformat() == "2026-11-21T08:00:01.123456+00:00"
    assert call_message.content[0] == ThinkingBlock(text="Read it.", signature="EqQB")
    assert call_message.metadata.provider_raw == {"sealed_prefix": {"frame": "9f2c", "length": 12, "items": "aa01"}}
    assert answer.tool_results[0].tool_use_id == call_message.tool_uses[0].id == CALL
    assert done.usage is not None
    assert done.usage.cost_usd == Decimal("0.000654")
    assert isinstance(future.content[0], UnknownBlock)
    assert cut.metadata.status is MessageStatus.CANCELLED
    assert found.extensions == {question.id: {"labels": ["secret"]}}
    assert [attempt.metadata.status for attempt in found.attempts] == [MessageStatus.ERROR]
    ids = ToolIdMap.load(found.tool_ids)
    assert ids.native_id(CALL, "anthropic") == "toolu_01A09q90qw90lq917835lq9"
    assert set(ids.dump()["sent"]["openai"]) == {CALL}
    fork = migrated_store.load("sess_fork")
    assert (fork.inherited, len(fork.messages), fork.record.parent_message_id) == (2, 2, call_message.id)


def test_an_older_store_can_be_continued(migrated_store: Store) -> None:
    """Searches find its content, calls get their results, and it can be deleted."""
    assert {(hit.session_id, hit.seq) for hit in migrated_store.search("STRASSE")} == {
        ("sess_first", 0),
        ("sess_fork", 0),
    }
    migrated_store.append("sess_first", [Message.tool(WAITING, "ran")], expected_version=2)
    query = "SELECT id, status FROM tool_calls WHERE session_id = 'sess_first' ORDER BY seq"
    assert rows(migrated_store, query) == [(CALL, "succeeded"), (WAITING, "succeeded")]
    assert integrity.faults(migrated_store) == []
    migrated_store.delete("sess_first")
    assert len(migrated_store.search("straße")) == 1


def test_exported_lines_are_read(migrated_store: Store) -> None:
    """All of their content, as in the store of that time."""
    lines = (FOLDER / "lines_v1.jsonl").read_text(encoding="utf-8").splitlines()
    with Store("sqlite://") as store:
        store.import_lines(lines)
        found = store.load("sess_first")
    assert found == migrated_store.load("sess_first")
    for message, line in zip(found.messages, lines[1:7], strict=True):
        assert is_contained(json.loads(write_message(message)), json.loads(line)["message"])


def test_lines_of_a_newer_version_are_read() -> None:
    """With roles, statuses, reasons and sources that this version does not know: each is stored and exported again."""
    lines = (FOLDER / "lines_newer.jsonl").read_text(encoding="utf-8").splitlines()
    with Store("sqlite://") as store:
        store.import_lines(lines)
        exported = [json.loads(line) for line in store.export("sess_newer")]
        assert [str(bill.metadata.status) for bill in store.billed_replies()] == ["superseded", "superseded"]
        assert str(store.total_spend()) == "at least $0.001308"
    for line, written in zip(lines[1:], exported[1:], strict=True):
        assert is_contained(written["message"], json.loads(line)["message"])
