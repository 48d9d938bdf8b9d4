"""The Python snippets of the documentation, as type checkers see them: a reader's editor shows no error in a copy."""

import os
import re
from pathlib import Path

import pytest

from tests.docs.snippets import PAGES, ROOT, snippets
from tests.typing.checkers import run_mypy, run_pyright

pytestmark = pytest.mark.exhaustive
SETTINGS = Path(__file__).with_name("mypy_snippets.ini")


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Path]:
    """The page of each module in ``tmp_path``. A module is a snippet whose lines keep their numbers on the page."""
    pages = {}
    for page in (ROOT / "README.md", *PAGES):
        for snippet in snippets(page):
            name = f"{page.stem.replace('-', '_')}_{snippet.start_line}.py"
            (tmp_path / name).write_text("\n" * snippet.start_line + snippet.source, encoding="utf-8")
            pages[name] = page.relative_to(ROOT)
    return pages


def test_mypy_accepts_every_snippet(modules: dict[str, Path], tmp_path: Path) -> None:
    """Mypy accepts every snippet in its strict mode, except that functions need no annotations."""
    options = ("--config-file", SETTINGS, "--cache-dir", os.devnull, "--scripts-are-modules", "--no-error-summary")
    reported = run_mypy(*options, *(tmp_path / name for name in modules))
    by_page = re.sub(r"(?m)^.*?(\w+\.py)(?=:\d)", lambda found: str(modules.get(found[1], found[0])), reported)
    assert by_page == ""


def test_pyright_accepts_every_snippet(modules: dict[str, Path], tmp_path: Path) -> None:
    """In its standard mode, which is that of most editors."""
    reported = run_pyright([tmp_path / name for name in modules], tmp_path, "standard")
    assert [
        f"{modules[Path(each['file']).name]}:{each['range']['start']['line'] + 1}: {each['message']}"
        for each in reported
    ] == []
