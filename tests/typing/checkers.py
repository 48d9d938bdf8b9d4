"""mypy, basedpyright and pyrefly as programs, for the tests of types. A test skips if its checker is not installed."""

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
    checker = _find("basedpyright")  # pyright with all that it needs in its package
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


def run_pyrefly(files: Iterable[Path], folder: Path) -> list[dict[str, Any]]:
    """Return what pyrefly reports, also for lines with a ``type: ignore``. Its settings are written into the folder."""
    checker = _find("pyrefly")
    settings = folder / "pyrefly.toml"
    lists = {
        "project-includes": [str(file) for file in files],
        "search-path": [str(CHECKOUT / name) for name in ("src", "adapters")],
        "enabled-ignores": [],
    }
    lines = [f"{name} = {json.dumps(values)}" for name, values in lists.items()]
    lines.append(f"python-interpreter-path = {json.dumps(sys.executable)}")
    settings.write_text("\n".join(lines), encoding="utf-8")
    command = [checker, "check", "--config", str(settings), "--output-format", "json"]
    completed = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    errors: list[dict[str, Any]] = json.loads(completed.stdout)["errors"]
    return errors


def _find(program: str) -> str:
    found = shutil.which(program, path=Path(sys.executable).parent) or shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found
