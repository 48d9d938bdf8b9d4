"""One gateway and one scripted provider for all cases of a process; each case begins with a fresh script."""

from collections.abc import Iterator

import pytest

from tests.gateway.cases.talk import Talk
from tests.gateway.scripted import Upstream, gateway_before, says


@pytest.fixture(scope="package")
def _served() -> Iterator[tuple[str, Upstream]]:
    upstream = Upstream()
    with gateway_before(upstream) as address:
        yield address, upstream


@pytest.fixture
def talk(_served: tuple[str, Upstream]) -> Iterator[Talk]:
    address, upstream = _served
    upstream.requests.clear()
    upstream.left.clear()
    upstream.script = says("It rains in Bern.")
    with Talk(address, upstream) as found:
        yield found
