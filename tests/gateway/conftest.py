"""Fixtures of all tests of the gateway."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.gateway.keyed import Start, keyed


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with keyed(tmp_path) as start:
        yield start


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test opens, such as an SDK's client; closed at its end."""
    with ExitStack() as stack:
        yield stack
