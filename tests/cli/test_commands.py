"""The command line: real processes where exit codes count, with recordings of a real server."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli import main
from dragoman.cli.app import app
from dragoman.pricing import price_table
from dragoman.testing.faults.server import FaultyServer, sse_reply
from tests.cli.conftest import USER_FOLDERS

run = CliRunner().invoke


_INHERITED = ("PYTHONPATH", *USER_FOLDERS)
"""Where these tests find the library, and where commands keep what belongs to the user."""


def command(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from dragoman.cli import main; main()", *words],
        capture_output=True, encoding="utf-8", timeout=120, check=False, stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "120", **_inherited(), **environ},
    )  # fmt: skip


def _inherited() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


HANDWRITTEN_STREAM = [
    {"type": "message_start", "message": {"id": "m", "role": "assistant", "model": "claude-sonnet-4-6", "content": [],
                                          "usage": {"input_tokens": 8, "output_tokens": 0}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Good day."}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 42}},
    {"type": "message_stop"},
]  # fmt: skip


def check_refused(code: object, stderr: str, message: str) -> None:
    assert code == 2
    assert message in stderr
    assert "Traceback" not in stderr
    assert len(stderr.strip().splitlines()) <= 2


class TestErrors:
    def test_a_missing_key_is_one_line_and_exit_code_2(self) -> None:
        done = command("ask", "anthropic:claude-opus-5-5", "Hi")
        check_refused(done.returncode, done.stderr, "ANTHROPIC_API_KEY")

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("ask", "antropic:claude-opus-5-5", "Hi"), "did you mean 'anthropic'"),
            (("ask", "claude", "Hi"), "provider:model"),
            (("prices", "anthropic:no-such-model"), "no price is known"),
            (("prices", "vercel:any"), "reported_cost_usd"),
            (("prices", "keep"), "--kept FOLDER"),
            (("prices", "check", "--version", "2020-01-01+00000000"), "is not found"),
            (("models", "nowhere"), "nowhere"),
            (("ask", "local:smollm2-135m", "  "), "the prompt is empty"),
        ],
    )
    def test_errors_are_one_line_and_exit_code_2(
        self,
        words: tuple[str, ...],
        message: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A misspelt provider or an unknown model never shows a traceback."""
        monkeypatch.setattr(sys, "argv", ["dragoman", *words])
        monkeypatch.setattr(sys, "stdin", None)
        monkeypatch.setenv("LINES", "40")  # with columns alone, a terminal that is called dumb has 80 of them
        with pytest.raises(SystemExit) as ended:
            main()
        check_refused(ended.value.code, capsys.readouterr().err, message)


class TestAsk:
    def test_the_answer_goes_to_stdout_and_its_price_to_stderr(self) -> None:
        """So an answer can be piped."""
        frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in HANDWRITTEN_STREAM]
        with FaultyServer(sse_reply(*frames)) as server:
            words = ("ask", "anthropic:claude-sonnet-4-6", "Hello", "--base-url", server.url)
            done = command(*words, ANTHROPIC_API_KEY="a-key-for-tests")
        assert done.stdout == "Good day.\n"
        assert "8 in, 42 out" in done.stderr
        assert "$0.000654" in done.stderr


class TestModels:
    def test_all_models_are_listed_with_their_capabilities(self) -> None:
        done = run(app, ["models"])
        assert done.exit_code == 0
        assert re.search(r"anthropic:claude-opus-5-5 .*yes", done.output)
        assert "local:smollm2-135m" in done.output

    def test_one_model_shows_its_evidence(self) -> None:
        done = run(app, ["models", "anthropic:claude-opus-5-5"])
        assert "forced_tool_choice" in done.output
        assert "recorded exchanges" in done.output


class TestPrices:
    def test_a_price_has_a_source_and_a_version(self) -> None:
        done = run(app, ["prices", "anthropic:claude-sonnet-4-6"])
        assert done.exit_code == 0
        assert re.search(r"standard\s+3\s+15\s", done.output)
        assert "source http" in done.output
        assert re.search(r"price table \d{4}-\d\d-\d\d\+[0-9a-f]{8}", done.output)

    def test_the_table_is_valid(self) -> None:
        """`dragoman prices check` finds nothing."""
        done = run(app, ["prices", "check"])
        assert done.exit_code == 0
        assert "no problems" in done.output

    def test_a_table_is_stored_and_used_again(self, tmp_path: Path) -> None:
        """A table is stored and used again under its version, listed, and loaded by it."""
        version = price_table().version
        assert f"{version}.zip" in run(app, ["prices", "keep", "--kept", str(tmp_path)]).output
        assert version in run(app, ["prices", "versions", "--kept", str(tmp_path)]).output
        shown = run(app, ["prices", "anthropic:claude-sonnet-4-6", "--version", version, "--kept", str(tmp_path)])
        assert f"price table {version}" in shown.output
