"""The public names, as type checkers see them."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.typing.checkers import run_mypy, run_pyrefly, run_pyright

FOLDER = Path(__file__).resolve().parent
READ = ("api.py", "sessions.py")

pytestmark = pytest.mark.exhaustive  # `uv run mypy` and the hooks before a commit check the library by default

NOT_PYRIGHT = "# not pyright"
"""The mark of a wrong line that pyright accepts."""


def test_the_public_names_have_their_types() -> None:
    """mypy, in the strict mode of pyproject.toml, agrees with every line."""
    assert run_mypy(*(FOLDER / name for name in READ)) == ""


DOORS = ("dragoman", "dragoman.blocks", "dragoman.errors", "dragoman.events", "dragoman.messages", "dragoman.policy")


def test_type_checkers_find_every_name(tmp_path: Path) -> None:
    """A name that is loaded on use is not a surprise for mypy; a name that does not exist is an error (api.py)."""
    program = tmp_path / "every_name.py"
    imports = (f"from {door} import {name} as {name}" for door in DOORS for name in import_module(door).__all__)
    program.write_text("\n".join(imports) + "\n", encoding="utf-8")
    assert run_mypy(program) == ""


def test_pyright_agrees(tmp_path: Path) -> None:
    """In its strict mode it refuses the lines that are marked as wrong, and no other."""
    reported = run_pyright([FOLDER / name for name in READ], tmp_path, "strict")
    refused = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in reported}
    assert refused == _wrong(NOT_PYRIGHT), reported


def test_pyrefly_agrees(tmp_path: Path) -> None:
    """A checker with a type inference of its own: it refuses the lines that are marked as wrong, and no other."""
    reported = run_pyrefly([FOLDER / name for name in READ], tmp_path)
    assert {(Path(each["path"]).name, each["line"]) for each in reported} == _wrong(), reported


def _wrong(*exceptions: str) -> set[tuple[str, int]]:
    """The lines that no type checker should accept, except those with one of these marks."""
    return {
        (name, number)
        for name in READ
        for number, line in enumerate((FOLDER / name).read_text(encoding="utf-8").splitlines(), 1)
        if "  # type: ignore[" in line and not any(mark in line for mark in exceptions)
    }
