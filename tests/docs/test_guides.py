"""What the pages import: public names alone, and for adapters stable ones."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.api.documented import PACKAGE, parse_api_page
from tests.docs.snippets import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
_BLOCK = re.compile(r"^```py(?:thon)?[^\n]*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEAD = 20


def imports(code: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of the library, and the names in them, that a program imports."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == PACKAGE:
            yield from ((str(node.module), each.name) for each in node.names)
        elif isinstance(node, ast.Import):
            yield from ((each.name, "") for each in node.names if each.name.split(".")[0] == PACKAGE)


def internal(code: str) -> set[str]:
    """Return what a program imports that no page promises. A promised module may be imported as a name."""
    promised = parse_api_page()
    return {
        f"{module}.{name}".rstrip(".")
        for module, name in imports(code)
        if (module not in promised if not name else name not in promised.get(module, ()))
        and f"{module}.{name}" not in promised
    }


def blocks(page: Path) -> list[str]:
    return [found["code"] for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


def test_no_page_imports_an_internal_name() -> None:
    """What a reader copies goes on to work."""
    found = {page.relative_to(ROOT).as_posix(): set[str]().union(*map(internal, blocks(page))) for page in PAGES}
    found |= {path.relative_to(ROOT).as_posix(): internal(path.read_text(encoding="utf-8")) for path in EXAMPLES}
    assert {name: names for name, names in found.items() if names} == {}


def test_the_guide_of_adapters_imports_stable_names(tmp_path: Path) -> None:
    """A package of another house is not broken by a minor release."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    page = tmp_path / "stable.md"
    page.write_text(text.partition("## Provisional")[0], encoding="utf-8")
    stable = parse_api_page(page)
    imported = {pair for code in blocks(ROOT / "docs" / "adapters.md") for pair in imports(code)}
    assert len(imported) > 50
    assert {pair for pair in imported if pair[1] not in stable.get(pair[0], ())} == set()


def test_the_guide_begins_with_an_adapter_of_twenty_lines() -> None:
    """The guide begins with an adapter of twenty lines from the class to its registration, without the empty ones."""
    first = blocks(ROOT / "docs" / "adapters.md")[0]
    adapter = first[first.index("class ") : first.index("def repeat")]
    assert "register_adapter(" in adapter
    assert len([line for line in adapter.splitlines() if line.strip()]) <= _HEAD


@pytest.mark.parametrize("code", ["from dragoman.adapter.wire_adapter import WireAdapter", "import dragoman.canonical"])
def test_an_internal_import_is_found(code: str) -> None:
    assert internal(code)
