"""Each test that takes ``driver`` runs twice: without await, and with."""

from collections.abc import Iterator

import pytest

from tests.unit.session.drivers import AsyncDriver, Driver, SyncDriver


@pytest.fixture(params=["sync", "async"])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    if request.param == "sync":
        yield SyncDriver()
        return
    async_driver = AsyncDriver()
    with async_driver.runner:
        yield async_driver
