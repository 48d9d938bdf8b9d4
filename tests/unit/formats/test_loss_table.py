"""The page on formats says what each format can carry, and it is right."""

import logging
from pathlib import Path

import pytest

from dragoman.formats.registry import FORMATS
from tests.unit.formats.loss_table import table

PAGE = Path(__file__).resolve().parents[3] / "docs" / "formats.md"


def test_the_table_of_the_page_is_current(caplog: pytest.LogCaptureFixture) -> None:
    """`python -m tests.unit.formats.loss_table` prints a new one."""
    caplog.set_level(logging.CRITICAL, "dragoman")
    assert table() in PAGE.read_text(encoding="utf-8")


def test_the_page_names_every_format() -> None:
    """Those with a name of their own."""
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in FORMATS if f"| `{name}` |" not in page] == []
