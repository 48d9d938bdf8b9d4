"""What a run says of itself: at its start, when it is interrupted, and by its exit code."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.bulk import Progress, bulk
from dragoman.cli.app import app
from dragoman.errors import ConfigurationError
from tests.bulk.mock_provider import mock_provider
from tests.bulk.provider import HAIKU, Provider
from tests.bulk.scale import request_counts, write_rows


def test_a_template_with_an_unknown_column_stops_before_the_first_row() -> None:
    """A column that only a later row has is not unknown."""
    provider = Provider()
    rows = [{"city": "Bern"}, {"city": "Basel", "canton": "BS"}]
    for settings in (
        {"template": "Where is {cty}?"},
        {"template": "{city}", "system": "for {cty}"},
    ):
        with pytest.raises(ConfigurationError, match="no row has the column 'cty'; did you mean 'city'"):
            bulk(rows, HAIKU, providers=provider.settings, **settings)  # type: ignore[arg-type]
    assert provider.requests == 0
    with bulk(rows, HAIKU, template="{city} {canton}", providers=provider.settings) as report:
        assert (report.errors, provider.requests) == (1, 1)


def test_a_resumed_run_says_what_was_there(tmp_path: Path) -> None:
    """In the report, and to the callback of the progress before anything is sent."""
    rows, provider = [f"row {n}" for n in range(3)], Provider()
    manifest = tmp_path / "m"
    with bulk(rows[:2], HAIKU, manifest=manifest, providers=provider.settings) as report:
        assert report.resumed == 0
    seen: list[Progress] = []
    with bulk(rows, HAIKU, manifest=manifest, providers=provider.settings, progress=seen.append) as report:
        assert report.resumed == 2
    assert (seen[0].resumed, seen[0].done, seen[0].total) == (2, 2, 3)


def test_a_changed_prompt_names_the_ways_out(tmp_path: Path) -> None:
    given = {"manifest": tmp_path / "m", "providers": Provider().settings}
    bulk([{"a": "1"}], HAIKU, template="{a}", **given).close()  # type: ignore[arg-type]
    for rows, template in (([{"a": "1"}], "{a}!"), ([{"a": "2"}], "{a}")):
        with pytest.raises(ConfigurationError, match=r"to=, or -o of the command.*name=, --name"):
            bulk(rows, HAIKU, template=template, **given)  # type: ignore[arg-type]


def test_the_exit_code_tells_failed_rows_from_rows_that_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """4 if every row has an outcome and some are errors; the second run says what was there."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    (tmp_path / "rows.csv").write_text("prompt\nrow 1\n\nrow 2\n \n", encoding="utf-8")
    with mock_provider() as url:
        command = ["bulk", str(tmp_path / "rows.csv"), "-m", "anthropic:claude-haiku-4-5", "--base-url", url]
        first, second = (CliRunner().invoke(app, command) for _ in range(2))
    assert first.exit_code == second.exit_code == 4, first.output
    assert "1 error: --retry-errors" in first.output
    assert "continues a run: 3 of 3 answers were there, 1 error among them" in second.output


def test_an_option_in_place_of_the_file_is_answered(tmp_path: Path) -> None:
    """``-o`` is the output file here, and an option in `dragoman ask`."""
    write_rows(tmp_path / "rows.jsonl", 1)
    command = ["bulk", str(tmp_path / "rows.jsonl"), "-m", "anthropic:claude-haiku-4-5", "-o", "temperature=0"]
    done = CliRunner().invoke(app, command)
    assert "write --option temperature=0" in str(done.exception)


@pytest.mark.skipif(os.name == "nt", reason="a process there gets no Ctrl-C of its own")
def test_ctrl_c_says_where_the_run_is(tmp_path: Path) -> None:
    """And the same command continues it."""
    write_rows(tmp_path / "rows.jsonl", 40)
    with mock_provider(0.2) as url:
        words = [sys.executable, "-c", "from dragoman.cli import main; main()"]
        words += [
            "bulk",
            str(tmp_path / "rows.jsonl"),
            "-m",
            "anthropic:claude-haiku-4-5",
            "--base-url",
            url,
            "--concurrency",
            "2",
        ]
        environment = {**os.environ, "ANTHROPIC_API_KEY": "none"}
        accept = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell ignores it in the background
        process = subprocess.Popen(
            words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=accept
        )
        deadline = time.monotonic() + 30
        while request_counts(url)["requests"] < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "interrupted: " in said
    assert "of 40" in said
    assert "the same command continues" in said
