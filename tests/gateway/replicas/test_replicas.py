"""Three gateways that share PostgreSQL and Redis; `python -m tests.gateway.replicas` kills them more often."""

import os

import pytest

from tests.gateway.replicas import report, rolling
from tests.store.databases import SKIP_REASON, postgres_url
from tests.unit.limits.redis_server import redis_url

KILLS = 3


@pytest.fixture
def servers() -> tuple[str, str]:
    postgres = postgres_url()
    if postgres is None:
        pytest.skip(SKIP_REASON)
    return postgres, redis_url()


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name == "nt", reason="the system has no such signals")
def test_what_was_acknowledged_holds_over_kills_and_partitions(servers: tuple[str, str]) -> None:
    """Conversations, budgets, limits and revocations, on any replica, whatever happened to another one."""
    broken = [row for row in report.rows(*servers, replicas=3, number=KILLS, seed=3) if not row.holds]
    assert broken == []


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name == "nt", reason="the system has no such signals")
def test_two_versions_serve_during_an_update(servers: tuple[str, str]) -> None:
    """The next version migrates the database while the older one serves, and is started again."""
    broken = [row for row in rolling.rows(*servers) if not row.holds]
    assert broken == []
