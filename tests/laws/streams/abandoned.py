"""The ledger's rows for abandoned streams: the waves of `test_stream_connections`, counted."""

import time
from collections.abc import Iterator

from tests.laws.streams.ledger import LawRow
from tests.laws.streams.test_stream_connections import (
    ASYNC,
    POOL,
    WAVES,
    test_three_hundred_streams_abandoned_by_async_callers,
)

ENDINGS = ("stall", "reset", "error status", "whole and on")


def rows() -> Iterator[LawRow]:
    """One row for each way of abandoning a stream: over a thousand streams, twenty at a time on a pool of twenty.

    A wave after which a connection is lost fails with all of its streams. Nothing is random, so there is no seed.
    """
    for leave in ASYNC:
        row = LawRow("left streams", leave.__name__)
        started = time.process_time()
        for ending in ENDINGS:
            row.streams += 1
            row.tried += WAVES * POOL
            try:
                test_three_hundred_streams_abandoned_by_async_callers(ending, leave)
            except AssertionError as error:
                row.failed += WAVES * POOL
                row.faults.append(f"{ending}: {error}")
        row.passed = row.tried - row.failed
        row.seconds = time.process_time() - started
        yield row
