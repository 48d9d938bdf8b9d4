"""What docs/api.md promises: modules, and names in them."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "dragoman"

_ROW = re.compile(r"^\| (?P<names>`[^|]+) \| (?P<text>[^|]+) \|$")
_NAME = re.compile(r"`(\w+)`")
_MODULE = re.compile(r"`(dragoman(?:\.\w+)+)`")


def parse_api_page(page: Path = ROOT / "docs" / "api.md") -> dict[str, tuple[str, ...]]:
    """The names that the page lists, by module, in its order."""
    names: dict[str, list[str]] = {PACKAGE: []}
    for first, cell in _rows(page.read_text(encoding="utf-8")):
        module = _MODULE.fullmatch(first)
        if module is None:
            names[PACKAGE] += _NAME.findall(first)
        else:
            names.setdefault(module[1], []).extend(_NAME.findall(cell.partition(":")[0] if ": " in cell else cell))
    return {module: tuple(found) for module, found in names.items()}


def _rows(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        if (row := _ROW.match(line)) is not None:
            yield row["names"].strip(), row["text"]
