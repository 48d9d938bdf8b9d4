"""What each road does with each ending is what is recorded: what it spends, reserves, reports, sends and keeps."""

import logging
import signal
from dataclasses import replace
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.attempts.endings import ENDINGS
from tests.attempts.recording import FOLDER, RoadFile, problems, stale_marks
from tests.attempts.roads import ROADS
from tests.attempts.table import TableCell, cells
from tests.gateway.replicas.relay import Relay
from tests.unit.limits.redis_server import redis_url

CELLS = cells()
read = cache(RoadFile.read)
"""A file has all cells of its road, and is read once."""


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="a caller who presses Ctrl-C needs signals of threads")
@pytest.mark.parametrize(
    "cell",
    [pytest.param(each, id=f"{each.road}: {each.ending}, {each.way}") for road in CELLS.values() for each in road],
)
def test_a_road_ends_as_it_is_recorded(cell: TableCell, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A cell that is wrong is recorded as it is, with what it should be: when it is mended, this fails and says so."""
    caplog.set_level(logging.CRITICAL)
    found = problems(cell.road, cell.ending, cell.way, cell.walk(tmp_path), read(cell.road))
    assert not found, "\n".join([*found, "to record what happens: python -m tests.attempts --write"])


@pytest.mark.parametrize("road", CELLS)
def test_every_record_is_of_a_cell_and_every_mark_is_open(road: str) -> None:
    """No file keeps a cell that nothing walks, or a mark that is fulfilled."""
    recorded = read(road)
    assert sorted(recorded.cells) == sorted((each.ending, each.way) for each in CELLS[road])
    assert not list(stale_marks(recorded))


def test_every_file_is_of_a_road() -> None:
    assert set(FOLDER.iterdir()) == {read(road).path for road in CELLS}


@pytest.mark.parametrize("ending", ["counters gone before", "counters gone after"])
@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("road", ["ask", "stream", "embed", "batch", "bulk"])
def test_counters_in_redis_go_as_the_recorded_ones(
    road: str, way: str, ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The counters of the table are in this process and fail on purpose; a server that is gone does the same."""
    caplog.set_level(logging.CRITICAL)
    server = urlsplit(redis_url())
    with Relay(server.hostname or "127.0.0.1", server.port or 6379) as relay:
        walked = replace(ROADS[road], watches={**ROADS[road].watches, "relay": relay})
        actual = walked.walk(ENDINGS[ending], way, tmp_path)
    assert problems(road, ending, way, actual, read(road)) == []
