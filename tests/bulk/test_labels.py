"""The labels of rows stay with their answers, in the manifest and in what a run writes."""

import csv
import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pytest

from dragoman import Client
from dragoman.bulk import bulk
from dragoman.bulk.manifest.manifest import Manifest
from dragoman.policy.plugins import Finding, Redaction
from tests.bulk.provider import HAIKU, SONNET, Provider, error_reply
from tests.unit.batch.handwritten_provider import Provider as BatchProvider
from tests.unit.batch.handwritten_provider import serve_provider

ROWS = [{"prompt": f"question {n}", "secrecy": ["pii"] if n % 2 else []} for n in range(4)]
MUSEUM = Path(__file__).parents[1] / "compatibility" / "manifests" / "v0001.sql"


def find_zero(text: str) -> list[Finding]:
    start = text.find("question 0")
    return [] if start < 0 else [Finding(start, start + 10, "zero")]


def client() -> Client:
    return Client(policy=[Redaction(find_zero, label="redacted")])


def run(provider: Provider, manifest: Path | str, **settings: Any) -> list[dict[str, Any]]:
    settings = {"client": client(), "labels": "secrecy", "model": HAIKU, **settings}
    with bulk(ROWS, manifest=manifest, providers=provider.settings, **settings) as report:
        return list(report)


def shown(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [row["security_labels"] for row in rows]


def test_rows_show_the_labels_of_their_answers(tmp_path: Path) -> None:
    """Those of the row, and those that a plugin added, also when a later process reads the manifest."""
    provider = Provider()
    expected = [["redacted"], ["pii"], [], ["pii"]]
    assert shown(run(provider, tmp_path / "m")) == expected
    assert shown(run(provider, tmp_path / "m")) == expected
    assert shown(run(provider, tmp_path / "m", labels=None)) == expected
    assert provider.requests == 4


def test_a_failed_row_keeps_its_labels(tmp_path: Path) -> None:
    """What is known of it may quote the prompt."""
    provider = Provider(lambda prompt, times: error_reply(400, "invalid_request_error"))
    run(provider, tmp_path / "m")
    assert shown(run(provider, tmp_path / "m", labels=None))[1] == ["pii"]


def test_a_run_without_labels_has_no_such_column() -> None:
    """Its output is as it was."""
    assert "security_labels" not in run(Provider(), "sqlite://", labels=None, client=None)[0]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_files_hold_labels_that_another_run_reads(tmp_path: Path, suffix: str) -> None:
    """The column names the labels of the next run."""
    first = tmp_path / f"first{suffix}"
    again = {"labels": "security_labels", "template": "more {prompt}", "prefix": "next_"}
    bulk(ROWS, HAIKU, to=first, providers=Provider().settings, client=client(), labels="secrecy").close()
    with bulk(first, HAIKU, providers=Provider().settings, client=client(), **again) as report:
        rows = list(report)
    assert [sorted(row["next_security_labels"]) for row in rows] == [["redacted"], ["pii"], [], ["pii"]]
    if suffix == ".csv":
        with first.open(newline="", encoding="utf-8") as file:
            assert [json.loads(row["security_labels"]) for row in csv.DictReader(file)][1] == ["pii"]
    if suffix == ".parquet":
        kinds = duckdb.sql(f"DESCRIBE SELECT security_labels FROM '{first}'").fetchall()
        assert kinds[0][1] == "VARCHAR[]"


def test_a_batch_keeps_the_labels_of_its_rows(tmp_path: Path) -> None:
    """From the process that submits it to the one that fetches it."""
    with serve_provider(BatchProvider(polls=2)) as url:
        settings = {"providers": {"anthropic": {"base_url": url, "api_key": "none"}}, "manifest": tmp_path / "m"}
        settings |= {"client": client(), "batch": True, "poll_every": 0.001}
        bulk(ROWS, HAIKU, labels="secrecy", wait=False, **settings).close()
        for _ in range(2):
            with bulk(ROWS, HAIKU, **settings) as report:
                assert shown(list(report)) == [["redacted"], ["pii"], [], ["pii"]]


def write_old_manifest(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(MUSEUM.read_text(encoding="utf-8"))
    connection.close()


def test_a_manifest_from_before_labels_is_continued(tmp_path: Path) -> None:
    """Its rows show the labels that they have now, and nothing is sent twice."""
    write_old_manifest(tmp_path / "m")
    provider = Provider()
    rows = run(provider, tmp_path / "m")
    assert [row["answer"] for row in rows] == ["re: question 0", None, "re: question 2", "re: question 3"]
    assert shown(rows) == [[], ["pii"], [], ["pii"]]
    assert provider.requests == 1
    assert shown(run(provider, tmp_path / "m", labels=None)) == [[], [], [], ["pii"]]


def test_an_older_version_continues_a_manifest_with_labels(tmp_path: Path) -> None:
    """The older version does not know the column. What it writes there counts, and other rows keep their labels."""
    run(Provider(), tmp_path / "m", model=[HAIKU])
    connection = sqlite3.connect(tmp_path / "m")
    names = [row[1] for row in connection.execute("PRAGMA table_info(bulk_answers)") if row[1] != "labels"]
    columns = ", ".join(names)
    values = ", ".join("1" if name == "model_no" else name for name in names)
    with connection:
        connection.execute("UPDATE bulk_runs SET models = ?", (json.dumps([HAIKU, SONNET]),))
        connection.execute(f"INSERT INTO bulk_answers ({columns}) SELECT {values} FROM bulk_answers WHERE row_no < 2")
    connection.close()
    provider = Provider()
    rows = run(provider, tmp_path / "m", model=[HAIKU, SONNET])
    assert provider.requests == 2
    assert [row["security_labels"] for row in rows if row["model"] == SONNET] == [[], ["pii"], [], ["pii"]]
    assert [row["security_labels"] for row in rows if row["model"] == HAIKU] == [["redacted"], ["pii"], [], ["pii"]]


def test_two_processes_can_open_a_manifest_from_before_labels(tmp_path: Path) -> None:
    """The second one finds the column."""
    write_old_manifest(tmp_path / "m")
    for _ in range(2):
        Manifest(tmp_path / "m").close()
