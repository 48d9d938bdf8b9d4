"""Cases of the runbook that no other test shows: `python -m tests.gateway.loaded.runbook` has all."""

import os

import pytest

from tests.gateway.loaded import runbook
from tests.store.databases import SKIP_REASON, postgres_url
from tests.unit.limits.redis_server import redis_url


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name == "nt", reason="the system has no such signals")
@pytest.mark.parametrize("case", ["backup", "drain"])
def test_a_case_of_the_runbook_looks_as_it_says(case: str) -> None:
    postgres = postgres_url()
    if postgres is None:
        pytest.skip(SKIP_REASON)
    assert [row for row in runbook.rows(postgres, redis_url(), [case]) if not row.holds] == []
