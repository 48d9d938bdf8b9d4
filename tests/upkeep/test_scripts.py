"""Every script of the tree can still be started, although most of them are run by hand and rarely.

One that parses arguments prints its help. Any other is imported, which finds the names that have moved away from it.
"""

import ast
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman.testing import block_network
from tests.upkeep.repository import ROOT, current_files

FOLDERS = ("adapters", "cassettes", "examples", "gateway", "pricing", "src", "tests")
GUARD = "__name__ == '__main__'"
OURS = ("dragoman", "dragoman_adapters", "dragoman_gateway", "tests")
"""Packages that are always there. A script that needs another one, such as a peer to compare with, is skipped."""


def is_script(text: str) -> bool:
    """Whether a file has a part that runs only if it is started."""
    return any(isinstance(each, ast.If) and ast.unparse(each.test) == GUARD for each in ast.parse(text).body)


SCRIPTS = {path: text for folder in FOLDERS for path, text in current_files(folder, ".py") if is_script(text)}


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # imported by another script
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_can_be_started(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has every name that it imports, and needs no network for that."""
    path, has_help = ROOT / name, "ArgumentParser(" in SCRIPTS[name]
    code: object = None
    run_name = "__main__" if has_help else "imported"
    monkeypatch.setattr(sys, "argv", [path.name, "--help"])
    for variable in ("BASE", "MODEL"):  # read by programs that a test starts
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(sys, "path", [*sys.path, str(path.parent)])  # of the files beside it
    try:
        with block_network():
            if name.startswith("tests/"):
                runpy.run_module(name.removesuffix(".py").replace("/", "."), run_name=run_name)
            else:
                runpy.run_path(str(path), run_name=run_name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] in OURS:
            raise
        pytest.skip(f"{missing.name} is not installed")
    except SystemExit as done:
        code = done.code
    assert code == (0 if has_help else None)
    assert capsys.readouterr().out.startswith("usage:") is has_help


SHELL = [
    path
    for folder in (".ci", "cassettes/server")
    for path in sorted((ROOT / folder).iterdir())
    if path.suffix in ("", ".sh")
]


@pytest.mark.skipif(sys.platform == "win32" or shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_a_shell_script_can_be_read_and_names_scripts_that_exist(path: Path) -> None:
    subprocess.run(["bash", "-n", path], check=True)
    text = path.read_text(encoding="utf-8")
    modules = [name.replace(".", "/") for name in re.findall(r"python3? -m (tests[\w.]+)", text)]
    files = re.findall(r"(?:^|[\s\"'])((?:\.ci|cassettes|pricing|tests)/[\w/]+\.(?:py|sh))\b", text, re.MULTILINE)
    for name in modules:
        assert (ROOT / name).with_suffix(".py").is_file() or (ROOT / name / "__main__.py").is_file(), name
    for name in files:
        assert (ROOT / name).is_file(), name
