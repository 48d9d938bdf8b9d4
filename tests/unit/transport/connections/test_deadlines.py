"""The deadline of a call holds in every phase, with every engine, whatever the server sends meanwhile."""

import threading
import time

import pytest

from dragoman.adapter.errors import RequestTimeoutError
from dragoman.adapter.wire import WireRequest
from dragoman.transport import RetryPolicy
from tests.unit.transport.connections.slow_servers import PHASES, Slowness, slow_provider
from tests.unit.transport.drivers import AIOHTTP, DRIVERS, HTTPX2, Driver

TIMEOUT = 0.25
PATIENCE = 60.0
"""Seconds after which a deadline counts as missed: servers here never end, and machines may be busy. How late the
errors are is measured by ``python -m tests.benchmarks.streams.deadlines``."""


CASES = [
    pytest.param(phase, stream, id=f"{phase.name}, {'streamed' if stream else 'whole'}")
    for phase in PHASES
    for stream in (False, True)
    if not (stream and phase.name.startswith("the body"))  # a stream that has begun is limited by its silence
]


@pytest.mark.parametrize(("phase", "stream"), CASES)
@pytest.mark.parametrize(
    "driver",
    [*DRIVERS, AIOHTTP, *[pytest.param(*each.values, marks=[*each.marks, pytest.mark.exhaustive]) for each in HTTPX2]],
    ids=lambda driver: driver.name,
)
def test_no_slow_phase_outlasts_the_deadline(
    driver: Driver, phase: Slowness, stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that keep coming, or keep being taken, do not extend it; a stream that has begun is another matter."""
    request = WireRequest("POST", "/chat", b"x" * phase.body_size, stream=stream)
    threads = threading.active_count()
    with slow_provider(phase, monkeypatch.setattr) as base_url:
        started = time.monotonic()
        result = driver.call(request, base_url=base_url, timeout=TIMEOUT, retry=RetryPolicy(max_retries=0))
        elapsed = time.monotonic() - started
    assert type(result.error) is RequestTimeoutError
    assert base_url.partition("//")[2] in str(result.error)
    assert TIMEOUT * 0.9 <= elapsed < PATIENCE
    assert threading.active_count() <= threads + 2 + 2  # The server's own two, one lookup, one for idle connections.


@pytest.mark.parametrize("driver", [*DRIVERS, AIOHTTP], ids=lambda driver: driver.name)
def test_a_connection_has_a_limit_of_its_own(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """`connect_timeout` ends a lookup or a handshake long before the deadline of the call."""
    for phase in PHASES:
        if phase.name in ("the TLS handshake", "the name lookup"):
            with slow_provider(phase, monkeypatch.setattr) as base_url:
                result = driver.call(
                    base_url=base_url, timeout=600.0, connect_timeout=TIMEOUT, retry=RetryPolicy(max_retries=0)
                )
            assert type(result.error) is RequestTimeoutError


def test_lookups_share_a_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls wait for names, there are never more than the maximum of threads, and all of them end."""
    from dragoman.transport.engines.network import Resolver

    running, most = 0, 0
    lock, go_on = threading.Lock(), threading.Event()

    def lookup(*_: object, **__: object) -> list[object]:
        nonlocal running, most
        with lock:
            running, most = running + 1, max(most, running + 1)
        go_on.wait(30)
        with lock:
            running -= 1
        return []

    resolver = Resolver(max_lookups=3, lookup=lookup)
    futures = [resolver.submit("example.org", 443) for _ in range(20)]
    go_on.set()
    assert [future.result(30) for future in futures] == [[]] * 20
    assert most <= 3
