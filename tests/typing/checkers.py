"""mypy and basedpyright as programs, for the tests of types. A test skips if its checker is not installed."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def run_mypy(*arguments: str | Path) -> str:
    """Return what mypy reports; an empty string if it accepts everything."""
    pytest.importorskip("mypy")
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", *arguments], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    if completed.returncode == 0:
        return ""
    return completed.stdout + completed.stderr or f"mypy ended with {completed.returncode} and no report"


def run_pyright(files: Iterable[Path], folder: Path, mode: str) -> list[dict[str, Any]]:
    """Return what basedpyright reports in this mode. Its settings are written into the folder."""
    checker = shutil.which("basedpyright", path=Path(sys.executable).parent) or shutil.which("basedpyright")
    if checker is None:
        pytest.skip("basedpyright is not installed: it is pyright with all that it needs in its package")
    included = [str(file) for file in files]
    settings = folder / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "include": included,
                "typeCheckingMode": mode,
                "enableTypeIgnoreComments": False,
                "extraPaths": [str(CHECKOUT / "src"), str(CHECKOUT / "adapters")],
            }
        ),
        encoding="utf-8",
    )
    command = [checker, "--outputjson", "--pythonpath", sys.executable, "--project", str(settings)]
    completed = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    report = json.loads(completed.stdout)
    assert report["summary"]["filesAnalyzed"] == len(included)
    diagnostics: list[dict[str, Any]] = report["generalDiagnostics"]
    return diagnostics
