"""Fixtures of all tests of the gateway."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from dragoman_gateway.database import Database
from tests.gateway.keyed import Start, keyed
from tests.gateway.upstream import PATIENCE


@pytest.fixture(autouse=True, scope="package")
def _patient() -> Iterator[None]:
    """Let replies and transactions take long: on a busy machine, httpx would give up after 5 seconds, and a gateway
    would answer with 503 after 2. Tests of these time-outs name their own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "read", "write", "pool"):
            patch.setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, name, PATIENCE)
        patch.setitem(Database.__init__.__kwdefaults__, "timeout", PATIENCE)
        yield


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with keyed(tmp_path) as start:
        yield start


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What a test opens, such as an SDK's client; closed at its end."""
    with ExitStack() as stack:
        yield stack
