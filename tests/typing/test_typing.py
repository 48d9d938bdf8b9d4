"""The public names, as type checkers see them."""

import json
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
CHECKOUT = FOLDER.parents[1]
READ = ("api.py", "sessions.py")

ALONE = "# mypy alone"
"""The mark of a line that only mypy refuses."""


def test_the_public_names_have_their_types() -> None:
    """mypy, in the strict mode of pyproject.toml, agrees with every line."""
    pytest.importorskip("mypy")
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", *(str(FOLDER / name) for name in READ)],
        cwd=CHECKOUT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stdout + completed.stderr


DOORS = ("dragoman", "dragoman.blocks", "dragoman.errors", "dragoman.events", "dragoman.messages", "dragoman.policy")


def test_type_checkers_find_every_name(tmp_path: Path) -> None:
    """A name that is loaded on use is no surprise for mypy; a name that does not exist is an error (api.py)."""
    pytest.importorskip("mypy")
    program = tmp_path / "every_name.py"
    imports = (f"from {door} import {name} as {name}" for door in DOORS for name in import_module(door).__all__)
    program.write_text("\n".join(imports) + "\n", encoding="utf-8")
    completed = subprocess.run(
        [sys.executable, "-m", "mypy", str(program)], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


@pytest.mark.exhaustive
def test_pyright_agrees(tmp_path: Path) -> None:
    """In its strict mode it refuses the lines that are marked as wrong, and no other."""
    checker = shutil.which("basedpyright", path=Path(sys.executable).parent) or shutil.which("basedpyright")
    if checker is None:
        pytest.skip("basedpyright is not installed: it is pyright with all that it needs in its package")
    settings = tmp_path / "pyrightconfig.json"
    settings.write_text(
        json.dumps(
            {
                "include": [str(FOLDER / name) for name in READ],
                "typeCheckingMode": "strict",
                "enableTypeIgnoreComments": False,
                "extraPaths": [str(CHECKOUT / "src"), str(CHECKOUT / "adapters")],
            }
        )
    )
    command = [checker, "--outputjson", "--pythonpath", sys.executable, "--project", str(settings)]
    report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    assert report["summary"]["filesAnalyzed"] == len(READ)
    refused = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in report["generalDiagnostics"]}
    assert refused == {line for name in READ for line in _wrong(name)}, report["generalDiagnostics"]


def _wrong(name: str) -> set[tuple[str, int]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return {(name, number) for number, line in enumerate(lines, 1) if "  # type: ignore[" in line and ALONE not in line}
