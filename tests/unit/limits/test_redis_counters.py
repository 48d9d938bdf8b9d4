"""The same law across processes: in Redis or Valkey, by the server's clock."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import RateLimitError
from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Limit, LimitReachedError, Limits, LimitsUnavailableError
from dragoman.limits.limit import Adjustment, LocalCounters, Notice
from dragoman.limits.redis_counters import RedisCounters
from tests.sampling import examples
from tests.store.load.writers import FORK_CONTEXT
from tests.unit.limits.fake_clock import Clock
from tests.unit.limits.redis_server import own_name, redis_url
from tests.unit.limits.windows import most_in_any_window

GPT = "openai:gpt-6.1-sol"


@pytest.fixture
def shared() -> tuple[str, str]:
    """The URL of the server, and a unique name."""
    return redis_url(), own_name()


steps = st.lists(
    st.tuples(st.sampled_from(["ask", "sleep", "settle", "notice"]), st.integers(0, 500)), min_size=1, max_size=25
)


@examples(40)
@given(steps=steps, burst=st.sampled_from([0.01, 0.1, 0.9]))
def test_the_scripts_agree_with_the_process(steps: list[tuple[str, int]], burst: float) -> None:
    """For the same times, the server gives the same answers to the microsecond."""
    clock = Clock(1_790_000_000.0)
    buckets = tuple(Limit(requests=7, tokens=300, burst=burst).buckets(GPT))
    local, shared_counters = LocalCounters(clock), RedisCounters(redis_url(), own_name(), clock)
    granted: list[tuple[int, int]] = []
    for kind, number in steps:
        if kind == "sleep":
            clock.now += number / 7
        elif kind == "ask":
            claims = [buckets[0].claim(1), buckets[1].claim(min(number, 300))]
            answer = local.claim(claims, 40_000_000).work()
            assert shared_counters.claim(claims, 40_000_000).work() == answer
            if answer.granted:
                granted.append((answer.at, min(number, 300)))
        elif kind == "settle" and granted:
            at, held = granted.pop(number % len(granted))
            changes = [Adjustment(buckets[1].claim(held), buckets[1].time_for(number - held))]
            local.settle(changes, at).work()
            shared_counters.settle(changes, at).work()
        elif kind == "notice":
            notices = [Notice(buckets[number % 2].key, number * 1000 if number % 3 else None, number * 500, 60_000_000)]
            local.apply_notices(notices).work()
            shared_counters.apply_notices(notices).work()
    shared_counters.close()


def test_other_limits_share_the_server_and_no_counter(shared: tuple[str, str]) -> None:
    url, name = shared
    limits = Limits((), url=url, name=name, max_wait=0)
    again = Limits((), url=url, name=name, max_wait=0)
    one = Limit(requests=1)
    assert limits.with_limits(one, name="ann").reserve(GPT).wait == 0
    assert limits.with_limits(one, name="bob").reserve(GPT).wait == 0
    with pytest.raises(LimitReachedError):
        again.with_limits(one, name="ann").reserve(GPT)
    limits.close()
    again.close()


def _ask(url: str, name: str, count: int, starts: Any) -> None:
    limits = Limits(Limit(requests=40), url=url, name=name, max_wait=1e6)
    starts.put([limits.reserve(GPT).at for _ in range(count)])
    limits.close()


@pytest.mark.exhaustive
def test_processes_share_one_limit(shared: tuple[str, str]) -> None:
    """Four of them at full speed: no window holds more, and nothing is granted twice."""
    starts = FORK_CONTEXT.Queue()
    workers = [FORK_CONTEXT.Process(target=_ask, args=(*shared, 50, starts)) for _ in range(4)]
    for worker in workers:
        worker.start()
    granted = [at for _ in workers for at in starts.get(timeout=60)]
    for worker in workers:
        worker.join()
    assert len(granted) == 200
    assert most_in_any_window([(at, 1) for at in granted], 60_000_000) == 40


def test_event_loops_share_one_limit(shared: tuple[str, str]) -> None:
    """Event loops share one limit: one object in one loop after another, each with its own connections, and without a
    loop.
    """
    url, name = shared

    async def main() -> list[int]:
        granted = await asyncio.gather(*(limits.reserve_async(GPT, 5, 5) for _ in range(30)))
        await limits.settle_async(granted[0], TokenUsage(input_tokens=5))
        await limits.release_async(granted[1])
        await limits.observe_async("openai:other", RateLimitError("no", retry_after=3000))
        await limits.close_async()
        return [grant.at for grant in granted]

    limits = Limits(Limit("openai:*", requests=20, tokens=10_000), url=url, name=name, max_wait=1e6)
    starts = [*asyncio.run(main()), *asyncio.run(main()), limits.reserve(GPT).at]
    assert most_in_any_window([(at, 1) for at in starts], 60_000_000) <= 20
    assert limits.reserve("openai:other").wait > 1000
    limits.close()


def test_a_refused_request_takes_nothing_on_the_server(shared: tuple[str, str]) -> None:
    """Settled amounts are there for others."""
    url, name = shared
    first, second = (
        Limits(Limit(tokens=100, seconds=6000, burst=0.5), url=url, name=name, max_wait=0) for _ in range(2)
    )
    grant = first.acquire(GPT, 40)
    with pytest.raises(LimitReachedError) as refused:
        second.acquire(GPT, 40)
    assert (refused.value.retry_after or 0) > 1000
    first.settle(grant, TokenUsage(input_tokens=1))
    assert second.acquire(GPT, 40).wait == 0
    for limits in (first, second):
        limits.close()


def test_a_missing_server_is_reported() -> None:
    """Nothing passes uncounted, sync and async."""
    limits = Limits(Limit(requests=5), url="redis://127.0.0.1:1/0")
    with pytest.raises(LimitsUnavailableError, match="cannot be reached"):
        limits.acquire(GPT)

    async def main() -> None:
        with pytest.raises(LimitsUnavailableError):
            await limits.acquire_async(GPT)
        await limits.close_async()

    asyncio.run(main())
