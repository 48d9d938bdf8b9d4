"""The files that the pages name exist."""

import re
from pathlib import Path

import pytest

from tests.packaging.wheel import ROOT

_PAGES = ROOT / "docs"
_PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)`")
_FOLDERS = ("", "src/dragoman", "adapters/dragoman_adapters", "gateway/src/dragoman_gateway")


@pytest.mark.parametrize("page", sorted(_PAGES.rglob("*.md")), ids=lambda page: page.relative_to(_PAGES).as_posix())
def test_a_page_names_files_that_exist(page: Path) -> None:
    """A path in backticks is that of a file, from the root of the project or of one of its packages."""
    named = set(_PATH.findall(page.read_text("utf-8")))
    assert not {path for path in named if not any((ROOT / folder / path).is_file() for folder in _FOLDERS)}
