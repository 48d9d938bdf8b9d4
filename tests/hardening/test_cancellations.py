"""Cancellations at random moments, a few of them; `python -m tests.hardening` makes a thousand for each engine."""

import pytest

from tests.hardening import cancellations
from tests.unit.transport.drivers import requires

_QUICK = "httpx"
CASES = [
    pytest.param(name, marks=[requires(name)] if name == _QUICK else [requires(name), pytest.mark.exhaustive])
    for name in cancellations.ENGINES
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", CASES)
def test_nothing_is_left_of_cancelled_streams(engine: str) -> None:
    """A cancelled stream leaves no task, no connection and no file descriptor."""
    row = cancellations.measure(engine, 40, seed=1)
    assert row.enough, row
