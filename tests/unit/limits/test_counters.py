"""The law of limits: whatever is requested, settled and released, no window ever holds more than the limit."""

import threading
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from dragoman.limits.limit import Adjustment, Bucket, Claim, Limit, LocalCounters, Notice
from tests.unit.limits.fake_clock import Clock
from tests.unit.limits.windows import most_in_any_window

NO_LIMIT = 10**15


@dataclass
class Use:
    """One request: its start, and what it reserved or really used of each bucket."""

    at: int
    held: tuple[int, ...]
    used: tuple[int, ...]


limits = st.builds(
    Limit,
    requests=st.integers(1, 12),
    tokens=st.integers(1, 400),
    seconds=st.sampled_from([1.0, 7.5, 60.0]),
    burst=st.sampled_from([0.01, 0.1, 0.35, 0.9, 1.0]),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 400)),
        st.tuples(st.just("sleep"), st.integers(0, 90_000)),
        st.tuples(st.just("settle"), st.integers(0, 100)),
        st.tuples(st.just("notice"), st.integers(0, 12)),
    ),
    max_size=60,
)


@given(limit=limits, steps=steps)
def test_no_window_holds_more_than_the_limit(limit: Limit, steps: list[tuple[str, int]]) -> None:
    """For requests of any size at any time, waits of any length, and replies shorter than reserved: the usage in any
    span of the limit's length is at most the limit, and everything that fits starts some time.
    """
    clock = Clock()
    counters, buckets = LocalCounters(clock), tuple(limit.buckets("openai:gpt"))
    uses: list[Use] = []
    open_uses: list[Use] = []
    for kind, number in steps:
        if kind == "ask":
            needs = tuple(min(1 if bucket.unit == "requests" else number, bucket.amount) for bucket in buckets)
            result = counters.claim(_claims(buckets, needs), NO_LIMIT).work()
            assert result.granted
            use = Use(result.at, needs, needs)
            uses.append(use)
            open_uses.append(use)
        elif kind == "sleep":
            clock.now += number / 1000
        elif kind == "settle" and open_uses:
            use = open_uses.pop(number % len(open_uses))
            use.used = tuple(count * number // 100 for count in use.held)
            changes = [
                Adjustment(bucket.claim(held), bucket.time_for(used - held))
                for bucket, held, used in zip(buckets, use.held, use.used, strict=True)
            ]
            counters.settle(changes, use.at).work()
        elif kind == "notice":
            counters.apply_notices([Notice(buckets[0].key, buckets[0].time_for(number), 0, buckets[0].period)]).work()
    for place, bucket in enumerate(buckets):
        assert most_in_any_window([(use.at, use.used[place]) for use in uses], bucket.period) <= bucket.amount


@given(limit=limits, sizes=st.lists(st.integers(1, 400), min_size=1, max_size=40))
def test_requests_start_in_their_order(limit: Limit, sizes: list[int]) -> None:
    """Large requests do not starve behind small ones that came later."""
    counters, (_, tokens) = LocalCounters(Clock()), tuple(limit.buckets("openai:gpt"))
    starts = [counters.claim([tokens.claim(min(size, tokens.amount))], NO_LIMIT).work().at for size in sizes]
    assert starts == sorted(starts)


@given(limit=limits)
def test_a_steady_user_gets_the_promised_share(limit: Limit) -> None:
    """Beyond the burst, requests pass at the even rate: the rest of the limit in each period."""
    counters, (requests, _) = LocalCounters(Clock()), tuple(limit.buckets("openai:gpt"))
    starts = [counters.claim([requests.claim(1)], NO_LIMIT).work().at for _ in range(3 * requests.amount)]
    lasting = starts[-1] - starts[0]
    paced = len(starts) - requests.burst_count
    assert lasting <= paced * (requests.period / (requests.amount - requests.burst_count + 1) + 1)


def test_threads_share_one_count() -> None:
    """In eight threads at full speed, no window holds more, and nothing is granted twice."""
    (bucket,) = Limit(requests=50).buckets("openai:gpt")
    counters, starts = LocalCounters(Clock()), list[int]()

    def ask() -> None:
        starts.extend(counters.claim([bucket.claim(1)], NO_LIMIT).work().at for _ in range(100))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most_in_any_window([(at, 1) for at in starts], bucket.period) == 50


def test_an_idle_count_is_forgotten() -> None:
    """A program that uses ever new models does not collect memory for all."""
    clock = Clock()
    counters = LocalCounters(clock)
    for number in range(10_000):
        counters.claim([Claim(str(number), 1, -1, 1_000_000)], NO_LIMIT).work()
    clock.now += 2
    counters.claim([Claim("last", 1, -1, 1_000_000)], NO_LIMIT).work()
    assert len(counters._states) == 1


def _claims(buckets: tuple[Bucket, ...], needs: tuple[int, ...]) -> list[Claim]:
    return [bucket.claim(need) for bucket, need in zip(buckets, needs, strict=True)]
