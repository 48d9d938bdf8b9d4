"""One gateway for all clients of a process, before a scripted provider."""

from collections.abc import Iterator

import pytest

from tests.gateway.scripted import Upstream, gateway_before, says


@pytest.fixture(scope="package")
def _served() -> Iterator[tuple[str, Upstream]]:
    upstream = Upstream()
    with gateway_before(upstream) as address:
        yield address, upstream


@pytest.fixture
def upstream(_served: tuple[str, Upstream]) -> Upstream:
    _, found = _served
    found.requests.clear()
    found.script = says("It rains in Bern.")
    return found


@pytest.fixture
def address(_served: tuple[str, Upstream], upstream: Upstream) -> str:
    return _served[0]
