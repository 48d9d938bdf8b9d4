"""Time that a test moves, for the watchdog of drains: on a slow machine real time would end what is still going on."""

import threading
import time as real_time
from collections.abc import Iterator

import pytest

from dragoman.transport import drain

PATIENCE = 60.0
"""Seconds until a test gives up. If all is well, none waits that long."""


class MovableTime:
    """Stands in for the module `time`: a sleeper waits until the test has moved the time far enough."""

    def __init__(self) -> None:
        self._now = 0.0
        self._moved = threading.Condition()

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        with self._moved:
            until = self._now + seconds
            self._moved.wait_for(lambda: self._now >= until)

    def move(self, seconds: float) -> None:
        with self._moved:
            self._now += seconds
            self._moved.notify_all()


def count_watchdogs() -> int:
    return sum(thread.name == "dragoman-overdue" for thread in threading.enumerate())


def wait_for_no_watchdog() -> None:
    until = real_time.monotonic() + PATIENCE
    while count_watchdogs():
        assert real_time.monotonic() < until, "the thread still runs, although no connection is left"
        real_time.sleep(0.005)


@pytest.fixture
def drain_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[MovableTime]:
    """No drain is too slow, unless the test moves the time."""
    wait_for_no_watchdog()  # of a test before
    time = MovableTime()
    monkeypatch.setattr(drain, "time", time)
    monkeypatch.setattr(drain, "DRAIN_SECONDS", PATIENCE)  # of async calls, by the clock of the event loop
    yield time
    time.move(PATIENCE)
    wait_for_no_watchdog()
