"""Replays at once are as replays in a row; the whole of it is `python -m tests.cassettes.concurrent_replays`."""

import asyncio

from tests.cassettes import concurrent_replays


def test_many_at_once_get_their_own_replies() -> None:
    """In threads and in tasks, in any order, each exchange once."""
    assert asyncio.run(concurrent_replays.main(6)) == 0
