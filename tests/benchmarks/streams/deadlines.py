"""Prints how late a call ends after its deadline: `python -m tests.benchmarks.streams.deadlines`.

The aim is at most half a second.
"""

import time
from importlib.util import find_spec
from typing import Any

from dragoman.adapter.wire import WireRequest
from dragoman.transport import RetryPolicy
from tests.unit.transport.connections.slow_servers import PHASES, Slowness, slow_provider
from tests.unit.transport.drivers import AsyncDriver, Driver, SyncDriver

TIMEOUT = 1.0
DRIVERS: tuple[Driver, ...] = (
    SyncDriver("httpx"),
    SyncDriver("httpx2"),
    AsyncDriver("httpx"),
    AsyncDriver("httpx2"),
    AsyncDriver("aiohttp"),
)


def lateness(driver: Driver, phase: Slowness, *, stream: bool) -> str:
    """The seconds between the deadline and the error."""
    undo: list[tuple[Any, str, Any]] = []

    def patch(target: Any, name: str, value: Any) -> None:
        undo.append((target, name, getattr(target, name)))
        setattr(target, name, value)

    request = WireRequest("POST", "/chat", b"x" * phase.body_size, stream=stream)
    try:
        with slow_provider(phase, patch) as base_url:
            started = time.monotonic()
            result = driver.call(request, base_url=base_url, timeout=TIMEOUT, retry=RetryPolicy(max_retries=0))
            late = time.monotonic() - started - TIMEOUT
    finally:
        for target, name, value in undo:
            setattr(target, name, value)
    return f"{late:.2f} s" if result.error is not None else "no error"


def main() -> None:
    drivers = [driver for driver in DRIVERS if find_spec(driver.engine)]
    print(f"| timeout {TIMEOUT:g} s, how late | {' | '.join(driver.name for driver in drivers)} |")
    print(f"| --- |{' --- |' * len(drivers)}")
    for phase in PHASES:
        for stream in (False, True):
            if stream and phase.name.startswith("the body"):
                continue
            cells = [lateness(driver, phase, stream=stream) for driver in drivers]
            kind = "streamed" if stream else "whole"
            print(f"| {phase.name}, {kind} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
