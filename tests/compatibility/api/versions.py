"""The kept lists, one per version, and their differences."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tests.compatibility.api.documented import ROOT, parse_api_page
from tests.compatibility.api.surface import surface

FOLDER = Path(__file__).parent
ADVICE = """If this is meant, say in CHANGELOG.md what it changes for users, and write the list again:
    uv run python -m tests.compatibility.api"""


def version() -> str:
    """The version in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["version"])


def now() -> dict[str, str]:
    """The public surface of this checkout."""
    return surface(ROOT / "src", parse_api_page())


def read(name: str) -> dict[str, str]:
    """The list of a version. Raises FileNotFoundError if none is kept."""
    kept: dict[str, str] = json.loads((FOLDER / f"{name}.json").read_bytes())
    return kept


def write(name: str, lines: Mapping[str, str]) -> Path:
    """Keeps a list as that version's."""
    file = FOLDER / f"{name}.json"
    file.write_text(json.dumps(dict(sorted(lines.items())), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """What was removed, changed and added, in this order; an added or removed class is one line."""
    gone = [f"- {path}: {before[path]}" for path in _outermost(before, after)]
    changed = [
        line
        for path in sorted(before.keys() & after.keys())
        if before[path] != after[path]
        for line in (f"~ {path}: {before[path]}", f"  {' ' * len(path)}  {after[path]}")
    ]
    return gone + changed + [f"+ {path}: {after[path]}" for path in _outermost(after, before)]


def _outermost(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    only = here.keys() - there.keys()
    return sorted(path for path in only if path.rpartition(".")[0] not in only)
