"""The output of commands depends on the terminal, so these tests set its size."""

import pytest


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 120 columns. Tests of narrow ones set their own width."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("LINES", raising=False)
