"""The public names, as a type checker sees them."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


def test_the_public_names_have_their_types() -> None:
    """mypy, in the strict mode of pyproject.toml, agrees with every line of api.py."""
    pytest.importorskip("mypy")
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "tests/typing/api.py"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
