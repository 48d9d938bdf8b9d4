"""Each test that uses `store` or `place` runs on every database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.store import Store
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@pytest.fixture(params=["sqlite", "memory", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database."""
    yield from _place(request.param, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def lasting_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty database that several programs can open."""
    yield from _place(request.param, tmp_path)


@pytest.fixture
def server_place(tmp_path: Path) -> Iterator[str]:
    """The URL of an empty schema on PostgreSQL."""
    yield from _place("postgresql", tmp_path)


def _place(kind: str, tmp_path: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{tmp_path / 'sessions.db'}"
    elif kind == "memory":
        yield "sqlite://"
    else:
        server = postgres_url()
        if server is None:
            pytest.skip(SKIP_REASON)
        with postgres_place(server) as url:
            yield url


@pytest.fixture
def store(place: str) -> Iterator[Store]:
    with Store(place, synchronous="normal") as opened:
        yield opened


@pytest.fixture
def lasting_store(lasting_place: str) -> Iterator[Store]:
    """For long tests that do the same in memory as on disk."""
    with Store(lasting_place, synchronous="normal") as opened:
        yield opened
