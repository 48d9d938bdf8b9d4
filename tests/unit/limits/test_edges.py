"""Numbers at the edges of limits and their counters, to the microsecond, and what a caller leaves out."""

import asyncio
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, RateLimitError
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import call
from dragoman.limits import Limit, LimitReachedError, Limits
from dragoman.limits import limit as limit_module
from dragoman.limits.limit import Adjustment, Claim, ClaimResult, LocalCounters, Notice
from tests.unit.limits.fake_clock import Clock

GPT = "openai:gpt"
FOREVER = 10**15
GRANTED = ClaimResult(True, 0, 0, 0)


class FakeCounters:
    """Counters that answer what they are told, and note their calls."""

    def __init__(self, result: ClaimResult = GRANTED) -> None:
        self.result = result
        self.calls: list[Any] = []

    def claim(self, claims: Any, max_wait_us: int) -> Any:
        return call(lambda: self.result)

    def settle(self, adjustments: Any, at: int) -> Any:
        return call(self.calls.append, [each.delta for each in adjustments])

    def close(self) -> None:
        self.calls.append("closed")

    async def close_async(self) -> None:
        self.calls.append("closed on a loop")


def limits_with(counters: FakeCounters, *limits: Limit) -> Limits:
    made = Limits(limits or Limit(requests=10))
    made._counters = counters  # type: ignore[assignment]
    return made


@pytest.mark.parametrize(("micros", "seconds"), [(1_000, 0.0), (1_001, 0.001001)])
def test_a_wait_within_the_rounding_is_none(micros: int, seconds: float) -> None:
    limits = limits_with(FakeCounters(ClaimResult(True, 0, micros, 0)))
    assert limits.reserve(GPT).wait == seconds


def test_requests_alone_reserve_no_tokens() -> None:
    assert limits_with(FakeCounters()).reserve(GPT, 50, 50).tokens == 0


def test_what_is_left_out_is_nothing() -> None:
    """No tokens are reserved, and one request is settled."""
    limits = limits_with(FakeCounters(), Limit(tokens=1000))
    assert limits.reserve(GPT).tokens == asyncio.run(limits.reserve_async(GPT)).tokens == 0
    assert limits.acquire(GPT).tokens == asyncio.run(limits.acquire_async(GPT)).tokens == 0


def test_settling_counts_one_request_by_itself() -> None:
    counters = FakeCounters()
    limits = limits_with(counters)
    grant = limits.reserve(GPT)
    assert limits.settle(grant, None)
    assert asyncio.run(limits.settle_async(grant, TokenUsage()))
    assert counters.calls == []  # what was used is what was reserved
    assert limits.settle(grant, None, requests=0)
    assert len(counters.calls) == 1


def test_what_a_provider_reports_is_applied_on_a_loop_too() -> None:
    clock = Clock()
    limits = Limits(Limit(requests=10), timing=clock.timing)
    asyncio.run(limits.observe_async(GPT, RateLimitError("slow down", provider="openai", retry_after=30)))
    assert limits.reserve(GPT).wait == 30


def test_closing_closes_the_counters() -> None:
    counters = FakeCounters()
    limits = limits_with(counters)
    limits.close()
    asyncio.run(limits.close_async())
    assert counters.calls == ["closed", "closed on a loop"]


def test_a_limit_that_is_reached_says_of_which_model() -> None:
    refusals: list[LimitReachedError] = []
    refusing = limits_with(FakeCounters(ClaimResult(False, 0, 2_000_000, 0)))
    for limits, tokens in ((refusing, 0), (limits_with(FakeCounters(), Limit(tokens=10)), 11)):
        with pytest.raises(LimitReachedError) as raised:
            limits.reserve(GPT, tokens)
        refusals.append(raised.value)
    assert [(each.provider, each.model) for each in refusals] == [("openai", GPT)] * 2
    assert [each.retry_after for each in refusals] == [2.0, None]


def test_a_limit_may_be_for_a_leap_year() -> None:
    assert Limit(requests=1, seconds=366 * 86_400.0).seconds == 31_622_400
    with pytest.raises(ConfigurationError, match="at most a year"):
        Limit(requests=1, seconds=366 * 86_400.0 + 1)


def test_the_shortest_period_is_a_microsecond() -> None:
    (bucket,) = Limit(requests=1, seconds=1e-7).buckets(GPT)
    assert bucket.period == 1


class TestCounters:
    def counters(self) -> tuple[LocalCounters, Clock]:
        clock = Clock()
        return LocalCounters(clock), clock

    def booked(self, counters: LocalCounters, key: str = "key") -> int:
        """Return for how many microseconds from now the bucket is booked."""
        result: ClaimResult = counters.claim([Claim(key, 0, 0, 1)], FOREVER).work()
        return result.wait

    @pytest.mark.parametrize(("delta", "booked"), [(1, 501), (2, 502), (0, 500), (-1, 499), (-500, 0)])
    def test_what_was_used_replaces_what_was_claimed(self, delta: int, booked: int) -> None:
        counters, _ = self.counters()
        claim = Claim("key", 500, 0, 10**9)
        at = counters.claim([claim], FOREVER).work().at
        counters.settle([Adjustment(claim, delta)], at).work()
        assert self.booked(counters) == booked

    def test_time_before_the_last_start_is_not_given_back(self) -> None:
        counters, _ = self.counters()
        claim = Claim("key", 500, -500, 10**9)
        first = counters.claim([claim], FOREVER).work().at
        late = counters.claim([Claim("key", 100, -200, 10**9)], FOREVER).work().at
        assert late - first == 300
        counters.settle([Adjustment(claim, -400)], first).work()
        assert self.booked(counters) == 600 - (400 - 300)

    def test_a_bucket_that_was_forgotten_is_booked_from_its_start(self) -> None:
        counters, clock = self.counters()
        counters.settle([Adjustment(Claim("key", 500, 0, 10**9), 20)], int(clock() * 1_000_000)).work()
        assert self.booked(counters) == 520

    def test_a_new_bucket_is_free_from_the_first_moment(self) -> None:
        """Whatever the clock says: one that begins with 0, too."""
        counters = LocalCounters(Clock(0.0))
        assert (self.booked(counters), self.booked(counters)) == (0, 0)
        counters.settle([Adjustment(Claim("forgotten", 500, 0, 10**9), -100)], 0).work()
        assert self.booked(counters, "forgotten") == 400

    def test_a_pause_alone_delays(self) -> None:
        counters, _ = self.counters()
        counters.apply_notices([Notice("key", None, 700, 10**9)]).work()
        assert self.booked(counters) == 700

    def test_a_booking_without_a_pause_delays(self) -> None:
        counters, _ = self.counters()
        counters.apply_notices([Notice("key", 300, 0, 10**9)]).work()
        assert self.booked(counters) == 300

    def test_a_bucket_is_kept_for_its_period_if_there_are_many(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(limit_module, "_ENTRIES_BEFORE_CLEANUP", 1)
        counters, clock = self.counters()
        counters.claim([Claim("key", 500_000, 0, 10**6)], FOREVER).work()
        counters.claim([Claim("other", 1, 0, 1)], FOREVER).work()
        assert self.booked(counters) == 500_000
        clock.now += 10
        counters.claim([Claim("third", 1, 0, 1)], FOREVER).work()
        assert set(counters._states) == {"third"}
