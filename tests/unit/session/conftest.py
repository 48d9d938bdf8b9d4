"""Each test of a session that takes a `way` runs twice: without await, and with."""

from collections.abc import Iterator

import pytest

from tests.unit.session.actors import AsyncWay, SyncWay, Way


@pytest.fixture(params=["sync", "async"])
def way(request: pytest.FixtureRequest) -> Iterator[Way]:
    if request.param == "sync":
        yield SyncWay()
        return
    made = AsyncWay()
    with made.runner:
        yield made
