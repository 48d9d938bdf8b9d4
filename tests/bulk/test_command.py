"""The command `dragoman bulk`, and a run whose process is killed."""

import json
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.bulk import Progress
from dragoman.cli.app import app
from dragoman.cli.bulk import progress_line
from tests.bulk.mock_provider import mock_provider
from tests.bulk.scale import run_disturbed, write_rows


def test_the_command_writes_answers_and_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget stops it with exit code 3; the same command with a larger budget finishes."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    write_rows(tmp_path / "rows.jsonl", 40)
    with mock_provider() as url:
        command = ["bulk", str(tmp_path / "rows.jsonl"), "-m", "anthropic:claude-haiku-4-5", "--base-url", url]
        command += ["--max-output-tokens", "20", "--system", "for row {id}"]
        poor = CliRunner().invoke(app, [*command, "--budget", "0.001"])
        assert poor.exit_code == 3, poor.output
        assert "not finished" in poor.output
        rich = CliRunner().invoke(app, [*command, "--budget", "1"])
    assert rich.exit_code == 0, rich.output
    assert "$0.002600" in rich.output
    lines = (tmp_path / "rows.answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [f"answer {n}" for n in range(40)]


def test_progress_is_one_line() -> None:
    """What is not known yet is left out."""
    early = Progress(total=1200, done=0, errors=0, in_flight=4, rate=None, cost_usd=None, projected_cost_usd=None,
                     seconds_left=None, stopped=None)  # fmt: skip
    assert progress_line(early) == "0 of 1,200"
    later = replace(early, done=300, errors=2, rate=12.0, cost_usd=Decimal("0.5"), projected_cost_usd=Decimal(2),
                    seconds_left=75.0)  # fmt: skip
    shown = "300 of 1,200 · 2 errors · 12.0 per second · $0.5000 · about $2.0000 at the end · 1:15 left"
    assert progress_line(later) == shown


def test_answers_obey_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row is asked again as often as --output-retries says, and is an error then."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    write_rows(tmp_path / "rows.jsonl", 1)
    (tmp_path / "schema.json").write_text('{"type": "object"}', encoding="utf-8")
    with mock_provider() as url:
        command = ["bulk", str(tmp_path / "rows.jsonl"), "-m", "anthropic:claude-haiku-4-5", "--base-url", url]
        command += ["--schema", str(tmp_path / "schema.json"), "--output-retries", "2"]
        done = CliRunner().invoke(app, command)
    assert "1 error:" in done.output
    assert done.exit_code == 4
    (line,) = (tmp_path / "rows.answers.jsonl").read_text().splitlines()
    assert json.loads(line)["error"].startswith("the answer does not have the requested type")


@pytest.mark.exhaustive
def test_a_killed_run_loses_nothing(tmp_path: Path) -> None:
    """Signal 9 at a random moment: no row is missing, and each row that was requested twice is recorded with a cost."""
    run = run_disturbed(tmp_path, 80, 1, random.Random(7), 0.02)
    assert run.faults == []
    assert run.unpriced == 0
