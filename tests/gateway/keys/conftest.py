"""A database of the gateway, on SQLite and on PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman_gateway.database import Database
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'gateway.db'}"
        return
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as place:
        yield place


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()
