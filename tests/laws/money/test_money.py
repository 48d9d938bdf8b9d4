"""The law of money, in one process and in two processes on one PostgreSQL."""

import logging
from collections.abc import Iterator

import pytest

from tests.laws.money.machine import Money, run, world
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Estimates are logged, and here most replies are estimated."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_what_is_delivered_is_booked_and_an_honest_caller_pays_what_is_reported() -> None:
    """Nobody reads more than is booked, and one token a request; a whole reply costs what its provider reported."""
    with world() as Money.world:
        run(Money, runs=6, steps=8)


@pytest.mark.exhaustive
def test_it_holds_for_two_processes_on_one_postgresql() -> None:
    """In whichever of them a request is asked."""
    if (server := postgres_url()) is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as place, world(place, processes=2) as Money.world:
        run(Money, runs=30, steps=10)
