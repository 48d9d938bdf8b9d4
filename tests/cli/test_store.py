"""`dragoman store`: an export, the report over it, and the SQL for a cluster."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import TokenUsage
from dragoman.cli.app import app
from dragoman.pricing import price_table
from dragoman.store import Store, citus_statements
from dragoman.store.schema import HEAD

pytest.importorskip("duckdb", reason="the extra `report` is not installed")

NOON = datetime(2026, 11, 19, 12, tzinfo=UTC)
SONNET, O3 = "anthropic:claude-sonnet-4-6", "openai:o3"


def reply(model: str, day: int, team: str) -> Message:
    at = NOON + timedelta(days=day)
    usage = price_table().price(model, TokenUsage(input_tokens=1000 * (day + 1), output_tokens=7), at)
    metadata = MessageMetadata(model=model, provider=model.partition(":")[0], team_id=team, usage=usage)
    return Message.assistant("a secret", metadata=metadata, created_at=at)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "chats.db"
    with Store(f"sqlite:///{path}") as store:
        store.create(SONNET, [Message.user("Hi"), reply(SONNET, 0, "red"), reply(O3, 1, "blue"), reply(O3, 2, "red")])
    return path


def run(*words: object) -> Result:
    done = CliRunner().invoke(app, list(map(str, words)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done


def costs(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("cost", *words, "--json").stdout)
    return found


def test_an_export_costs_what_the_store_does(database: Path, tmp_path: Path) -> None:
    """An export costs what the store does by day and team, at other prices, and over a part of the time."""
    folder = tmp_path / "replies"
    assert "3 days written, with 3 replies" in run("store", "export", folder, "--store", database).stdout
    assert "0 days written, with 0 replies, 3 unchanged" in run("store", "export", folder, "-s", database).stdout
    for how in (
        ("--by", "day", "--by", "team"),
        ("--as-model", "openai:gpt-4.1", "--by", "team"),
        ("--since", "2026-11-20", "--until", "2026-11-21"),
        ("--since", "2026-11-20T12:00:00", "--reprice"),
    ):
        assert costs(folder, *how) == costs(database, *how)
    assert costs(folder, "--until", "2026-11-20")["total"]["replies"] == 1
    assert "as recorded" in run("cost", folder).output


def test_only_requested_days_are_written(database: Path, tmp_path: Path) -> None:
    """A day that lost its replies is removed."""
    folder = tmp_path / "replies"
    run("store", "export", folder, "--store", f"sqlite:///{database}", "--since", "2026-11-20", "--text")
    assert sorted(path.name for path in folder.iterdir()) == ["day=2026-11-20", "day=2026-11-21"]
    with Store(f"sqlite:///{database}") as store:
        store.delete(store.list().sessions[0].id)
    output = run("store", "export", folder, "--store", database, "--until", "2026-11-21").stdout
    assert "0 days written, with 0 replies, 0 unchanged, 1 removed" in output


def test_a_missing_store_creates_nothing(tmp_path: Path) -> None:
    """No store, and no folder of an export."""
    for name in (tmp_path / "none.db", f"sqlite:///{tmp_path / 'none.db'}"):
        with pytest.raises(ConfigurationError, match="no store"):
            run("store", "export", tmp_path / "replies", "--store", name)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigurationError, match="no exported replies"):
        run("cost", tmp_path)
    (tmp_path / "day=2026-11-20").mkdir()
    (tmp_path / "day=2026-11-20" / "part-0.parquet").write_text("no parquet")
    with pytest.raises(RequestError, match="cannot be read"):
        run("cost", tmp_path)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "messages"])
def test_a_time_range_applies_to_every_source(tmp_path: Path, kind: str) -> None:
    """To usages and messages as well as to stores: the first moment is included, the last one is not."""
    path = tmp_path / f"replies.{'csv' if kind == 'csv' else 'jsonl'}"
    replies = [reply(O3, day, "red") for day in range(3)]
    if kind == "messages":
        path.write_text("\n".join(message.model_dump_json() for message in replies))
    else:
        rows = [
            {"model": O3, "at": each.created_at.isoformat(), "input_tokens": 1, "output_tokens": 1} for each in replies
        ]
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(lines if kind == "csv" else map(json.dumps, rows)))
    assert costs(path)["total"]["replies"] == 3
    assert costs(path, "--since", "2026-11-20T12:00:00")["total"]["replies"] == 2
    assert costs(path, "--since", "2026-11-20", "--until", "2026-11-21T12:00:00")["total"]["replies"] == 1


def test_the_sql_of_a_cluster_is_printed() -> None:
    assert run("store", "citus").stdout == "".join(f"{statement};\n" for statement in citus_statements())


def test_a_store_is_migrated_explicitly(tmp_path: Path) -> None:
    """`--check` changes nothing."""
    path = tmp_path / "old.db"
    shutil.copy(Path(__file__).parents[1] / "compatibility" / "stores" / "v0001.db", path)
    before = path.read_bytes()
    check = CliRunner().invoke(app, ["store", "migrate", "--store", str(path), "--check"])
    assert (check.exit_code, path.read_bytes()) == (1, before)
    assert "0001" in check.output
    assert f"0001 -> {HEAD}" in run("store", "migrate", "--store", path).output
    assert "already" in run("store", "migrate", "--store", path).output
    with pytest.raises(ConfigurationError):
        run("store", "migrate", "--store", tmp_path / "none.db")


def test_a_users_data_is_deleted_after_a_question(tmp_path: Path) -> None:
    """With what was deleted, and what was not."""
    path = tmp_path / "chats.db"
    with Store(f"sqlite:///{path}") as store:
        store.create(SONNET, [Message.user("Hi")], user_id="usr_ann")
        store.create(SONNET, [Message.user("Hi")], user_id="usr_bob")
    refused = CliRunner().invoke(app, ["store", "delete-user", "usr_ann", "--store", str(path)], input="n\n")
    assert refused.exit_code == 1
    done = run("store", "delete-user", "usr_ann", "--store", path, "--yes")
    assert "1 sessions with 1 messages" in done.output
    with Store(f"sqlite:///{path}") as store:
        assert [record.user_id for record in store.list().sessions] == ["usr_bob"]
