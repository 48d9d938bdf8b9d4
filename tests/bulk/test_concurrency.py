"""The number of requests in flight: it grows after successes, halves after a rate limit, and is zero without room."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.replies.rate_limit_headers import remaining_requests, seconds_until_reset
from dragoman.bulk.concurrency import ConcurrencyController
from dragoman.bulk.manifest.records import answer_key
from dragoman.transport import Timing

NOW = datetime(2026, 11, 1, tzinfo=UTC)


class Clock:
    """Time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    @property
    def timing(self) -> Timing:
        return Timing(clock=lambda: self.time, sleep_async=self.sleep)


def drive(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_successes_raise_concurrency_up_to_the_maximum() -> None:
    """It doubles with each window until the first rate limit."""

    async def work() -> None:
        controller = ConcurrencyController(64)
        for expected in (8, 16, 32, 64, 64):
            assert int(controller.limit) == expected
            numbers = [await controller.acquire() for _ in range(int(controller.limit))]
            for number in numbers:
                controller.on_success(number, {}, 10)
                controller.release()

    drive(work())


def test_a_rate_limit_halves_concurrency_once_per_window_and_waits() -> None:
    """Sixteen rate limits in one window count as one; after that, each window of successes adds one."""

    async def work() -> None:
        clock = Clock()
        controller = ConcurrencyController(64, initial=16, timing=clock.timing)
        for number in [await controller.acquire() for _ in range(16)]:
            controller.on_throttle(number, 3.0)
            controller.release()
        assert (controller.limit, controller.throttle_count) == (8.0, 16)
        number = await controller.acquire()
        assert clock.time == pytest.approx(3.0)
        controller.on_success(number, {}, 10)
        controller.release()
        for number in [await controller.acquire() for _ in range(8)]:
            controller.on_success(number, {}, 10)
            controller.release()
        assert 9.0 < controller.limit < 9.2

    drive(work())


def test_requests_stay_within_the_room_that_headers_report() -> None:
    """Requests sent since a reply may or may not be in its headers, so they count."""

    async def work() -> None:
        clock = Clock()
        controller = ConcurrencyController(64, initial=16, timing=clock.timing)
        first = await controller.acquire()
        await controller.acquire()
        controller.on_success(first, {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "20s"}, 10)
        await controller.acquire()
        assert clock.time == 0
        last = await controller.acquire()  # the two remaining requests are used up
        await controller.acquire()
        assert clock.time == pytest.approx(1.0)
        controller.on_success(last, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}, 10)
        await controller.acquire()
        assert clock.time == pytest.approx(21.0)

    drive(work())


def test_concurrency_is_at_least_one() -> None:
    """Rate limits never stop a run for good."""

    async def work() -> None:
        clock = Clock()
        controller = ConcurrencyController(4, timing=clock.timing)
        for _ in range(20):
            number = await controller.acquire()
            controller.on_throttle(number, 1.0)
            controller.release()
        assert controller.limit == 1.0

    drive(work())
    with pytest.raises(ConfigurationError):
        ConcurrencyController(0)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("6m0s", 360.0), ("17ms", 0.017), ("2m59.56s", 179.56), ("1s", 1.0), ("1h2m3s", 3600.0), ("12", 12.0),
        ((NOW + timedelta(seconds=9)).isoformat(), 9.0), ("2026-11-01T00:00:07Z", 7.0), ("2020-01-01T00:00:00Z", 0.0),
        ("soon", None), ("", None), ("-3s", None),
    ],
)  # fmt: skip
def test_reset_times_of_headers_are_parsed(value: str, seconds: float | None) -> None:
    """Durations and timestamps, as the providers write them."""
    assert seconds_until_reset(value, NOW) == (None if seconds is None else pytest.approx(seconds))


def test_the_narrowest_limit_counts() -> None:
    """Tokens count as the number of requests that they are enough for."""
    headers = {
        "anthropic-ratelimit-requests-remaining": "40",
        "anthropic-ratelimit-tokens-remaining": "1000",
        "anthropic-ratelimit-tokens-reset": "2026-11-01T00:00:30Z",
    }
    assert remaining_requests(headers, 300, NOW) == (3, 30.0)
    assert remaining_requests(headers, 1, NOW) == (40, None)
    assert remaining_requests({}, 300, NOW) is None


@given(st.text(max_size=40))
def test_answers_are_compared_without_case_and_punctuation(answer: str) -> None:
    """Case, spaces and surrounding punctuation make no difference."""
    assert answer_key(f"  {answer}. ") == answer_key(answer)
    assert answer_key("Yes, 7") != answer_key("Yes, 8")
