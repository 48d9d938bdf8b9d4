"""The number of trials in a run: enough for the promised numbers, and at most a minute of CPU."""

import os
from functools import cache

from dragoman.testing.stream_laws import Effort
from tests.laws.streams.subjects import MODELS, SEED, missing_adapters, stream_subjects

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"

REPLAYS = 105_000
"""Re-chunked replays over all streams together; the smallest streams have fewer splits."""
MUTATIONS = 20_000 if NIGHTLY else 2_000
"""Corrupt streams of each adapter."""
SHARED = 1 if NIGHTLY else 4
"""Adapters that are rows of one table share all their code, so each gets one mutation in ``SHARED``, and its connection
is reset at one byte in ``SHARED``. Its streams are still cut at every byte.
"""


def effort_for(provider: str, share: int = 1) -> Effort:
    """The effort for each of the provider's streams; ``share`` divides it for a sample."""
    rows = share if provider in MODELS else share * SHARED
    return Effort(
        replays=None if NIGHTLY else _replays() // share,
        mutations=-(-MUTATIONS // (rows * len(stream_subjects(provider)))),
        stride=rows,
        cuts=share,
        seed=SEED,
    )


@cache
def _replays() -> int:
    """The number of replays for each stream."""
    streams = sum(len(stream_subjects(provider)) for provider, missing in missing_adapters().items() if not missing)
    return -(-REPLAYS // max(1, streams))
