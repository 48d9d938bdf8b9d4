"""The public names, as type checkers see them."""

from importlib import import_module
from pathlib import Path

import pytest

from tests.typing.checkers import run_mypy, run_pyright

FOLDER = Path(__file__).resolve().parent
READ = ("api.py", "sessions.py")

pytestmark = pytest.mark.exhaustive  # `uv run mypy` and the hooks before a commit check the library by default

ALONE = "# mypy alone"
"""The mark of a line that only mypy refuses."""


def test_the_public_names_have_their_types() -> None:
    """mypy, in the strict mode of pyproject.toml, agrees with every line."""
    assert run_mypy(*(FOLDER / name for name in READ)) == ""


DOORS = ("dragoman", "dragoman.blocks", "dragoman.errors", "dragoman.events", "dragoman.messages", "dragoman.policy")


def test_type_checkers_find_every_name(tmp_path: Path) -> None:
    """A name that is loaded on use is no surprise for mypy; a name that does not exist is an error (api.py)."""
    program = tmp_path / "every_name.py"
    imports = (f"from {door} import {name} as {name}" for door in DOORS for name in import_module(door).__all__)
    program.write_text("\n".join(imports) + "\n", encoding="utf-8")
    assert run_mypy(program) == ""


def test_pyright_agrees(tmp_path: Path) -> None:
    """In its strict mode it refuses the lines that are marked as wrong, and no other."""
    reported = run_pyright([FOLDER / name for name in READ], tmp_path, "strict")
    refused = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in reported}
    assert refused == {line for name in READ for line in _wrong(name)}, reported


def _wrong(name: str) -> set[tuple[str, int]]:
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    return {(name, number) for number, line in enumerate(lines, 1) if "  # type: ignore[" in line and ALONE not in line}
