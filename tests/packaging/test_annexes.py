"""The core stands without its annexes: rooms that a program reaches by handing something over, or by a lazy import."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.attempts.provider import Provider
from tests.packaging.wheel import ROOT

PROGRAM = Path(__file__).with_name("core_program.py")
ANNEXES = (
    "answers", "batch", "bulk", "cli", "embeddings", "events", "formats", "policy", "pricing/analytics", "routing",
    "configuration/file", "services.py", "store", "testing", "local", "view",
)  # fmt: skip


def run_without(folder: Path, annexes: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """Run the program on a copy of the library that lacks these rooms."""
    shutil.copytree(ROOT / "src", folder / "src")
    shutil.copytree(ROOT / "adapters", folder / "src", dirs_exist_ok=True)
    shutil.copytree(ROOT / "pricing", folder / "pricing")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for annex in annexes:
        room = folder / "src" / "dragoman" / annex
        room.unlink() if room.is_file() else shutil.rmtree(room)
    with Provider().serve() as server:
        return subprocess.run(
            [sys.executable, "-P", PROGRAM, server.url],
            env={**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def test_the_core_runs_without_any_annex(tmp_path: Path) -> None:
    """All of them together: sessions, tools, swaps, streams, budgets and costs need none."""
    ended = run_without(tmp_path, ANNEXES)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert Path(ended.stdout).is_relative_to(tmp_path)
