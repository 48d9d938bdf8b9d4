"""Programs that are killed in turns; `python -m tests.hardening.kills` kills 500 of them at random moments."""

from functools import partial
from pathlib import Path

import pytest

from tests.hardening import kills
from tests.packaging.systems import needs_fork

MOMENTS = 24
"""Enough for a turn with tools: before and after each of its transactions, and of its calls."""


@pytest.mark.exhaustive
@needs_fork
def test_nothing_is_lost_and_no_call_runs_twice(lasting_place: str, tmp_path: Path) -> None:
    """Nothing is lost and no call runs twice after SIGKILL at each moment of a turn."""
    row = kills.measure("any", lasting_place, tmp_path, partial(kills.kill_at_moments, MOMENTS), seed=3)
    assert row.enough, row
    assert (row.kills, row.interrupted > 0) == (MOMENTS, True)
