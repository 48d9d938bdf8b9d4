"""The test suite of `docs/testing.md` is copied from the page and run as the page says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.testing.cassettes.file import dumps, loads
from tests.cassettes.plugin.loading import LOADING

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
_FILE = re.compile(r"^`([\w./]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("suite")
    for name, text in _FILE.findall(PAGE.read_text(encoding="utf-8")):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    keyless = {name: value for name, value in os.environ.items() if not name.endswith(("_KEY", "_URL"))}
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", *LOADING, *options]
    return subprocess.run(command, cwd=folder, env=keyless, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.exhaustive  # by default, test_plugin.py tests what the page describes
def test_the_suite_of_the_page_runs_offline(suite: Path) -> None:
    """The suite of the page runs offline with one command, no key and no network."""
    assert sorted(path.name for path in suite.rglob("*.*")) == ["capital.yaml", "test_capital.py"]
    done = run(suite, "--block-network")
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert done.returncode == 0


def test_the_recording_of_the_page_is_as_the_library_writes_it(suite: Path) -> None:
    text = (suite / "cassettes" / "capital.yaml").read_text(encoding="utf-8")
    assert dumps(loads(text)) == text
