"""Fixtures of all tests of the gateway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.keyed import Start, keyed


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with keyed(tmp_path) as start:
        yield start
