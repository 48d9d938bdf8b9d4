"""Hostile streams, small: each ends with a typed error, and its work is linear in its bytes; nothing looks at a clock.

`python -m tests.hardening` measures the large ones.
"""

import logging
from collections.abc import Iterator

import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.registry import get_adapter
from tests.hardening.hostile_streams import STREAMS, HostileStream
from tests.hardening.stalls import measure
from tests.laws.streams.call_counts import calls_of

KIB = 1024
_QUICK = {"comments", "one-letter deltas", "one event, objects", "empty compressed parts"}
CASES = [
    pytest.param(stream, marks=() if stream.name in _QUICK else pytest.mark.exhaustive, id=stream.name)
    for stream in STREAMS
]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.CRITICAL, "dragoman"):
        yield


@pytest.mark.exhaustive
@pytest.mark.parametrize("stream", CASES)
def test_a_hostile_stream_ends_with_a_typed_error(stream: HostileStream) -> None:
    """A session reads it to its end, or to a cap."""
    row = measure(stream, 64 * KIB)
    assert row.typed, row
    assert row.error != "-", row


@pytest.mark.parametrize("stream", CASES)
def test_twice_the_bytes_are_twice_the_work(stream: HostileStream) -> None:
    """The calls of each byte are few, too."""
    adapter = get_adapter(stream.model)

    def read(size: int) -> int:
        body = stream.body(size)
        chunks = [body[start : start + stream.chunk] for start in range(0, len(body), stream.chunk)]
        return calls_of(lambda: list(adapter.iter_stream(chunks, RequestContext.for_model(stream.model))))

    read(KIB)  # caches that are made once
    assert read(32 * KIB) < 2.2 * read(16 * KIB) + 200
    assert read(32 * KIB) < 3000 + 5 * 32 * KIB
