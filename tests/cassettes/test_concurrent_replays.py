"""Concurrent replays equal sequential ones; `python -m tests.cassettes.concurrent_replays` tries far more."""

import asyncio

from tests.cassettes import concurrent_replays


def test_concurrent_requests_get_their_own_replies() -> None:
    """Concurrent requests get their own replies in threads and in tasks, in any order, each exchange once."""
    assert asyncio.run(concurrent_replays.main(6)) == 0
