"""The rules of retries, as laws and numbers; test_retry_table has the table of whole calls."""

import math
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import (
    InvalidRequestError,
    NetworkError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
)
from dragoman.adapter.wire import Headers
from dragoman.effects import Broken, Failed
from dragoman.transport import retry
from dragoman.transport.retry import RetryPolicy, RetryQuota, RetryState, retry_within
from tests.unit.transport.drivers import VirtualClock

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
POLICY = RetryPolicy()


def wait(
    headers: dict[str, str], error: ProviderError | None = None, retry: int = 1, roll: float = 0.5
) -> float | None:
    return POLICY.wait(error or ServerError("x"), Headers(headers), retry, now=NOW, roll=roll)


@given(st.integers(1, 5000), st.floats(0, 1, exclude_max=True))
def test_waits_double_within_bounds(retry: int, roll: float) -> None:
    """Waits double within bounds: 1, 2, 4 ... seconds with a jitter of at most a quarter, and never over 30."""
    plain = min(2.0 ** min(retry - 1, 40), 1e9)
    seconds = POLICY.backoff(retry, roll)
    assert min(30.0, plain * 0.75) <= seconds <= min(30.0, plain * 1.25)


def test_randomness_spreads_the_waits() -> None:
    """Its extremes are the extremes of the jitter."""
    assert [POLICY.backoff(1, roll) for roll in (0, 0.5, 1)] == [0.75, 1.0, 1.25]
    assert [POLICY.backoff(2, roll) for roll in (0, 0.5, 1)] == [1.5, 2.0, 2.5]


@given(st.text(max_size=30), st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry"]))
def test_no_header_breaks_the_policy(value: str, name: str) -> None:
    """Whatever a provider sends, the wait is none or a finite time of at most a minute."""
    seconds = wait({name: value})
    assert seconds is None or (math.isfinite(seconds) and 0 < seconds <= 60)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_any_retry_after_is_kept_refused_or_ignored(requested: float) -> None:
    """Up to a minute is kept, up to a day ends the retries, anything else is ignored."""
    seconds = wait({"retry-after": repr(requested)})
    if math.isnan(requested) or requested <= 0 or requested > 86_400:
        assert seconds == 1.0
    elif requested <= 60:
        assert seconds == requested
    else:
        assert seconds is None


@given(st.integers(-100_000, 100_000))
def test_an_http_date_is_its_distance(offset: int) -> None:
    seconds = wait({"retry-after": format_datetime(NOW + timedelta(seconds=offset), usegmt=True)})
    assert seconds == (1.0 if offset <= 0 or offset > 86_400 else offset if offset <= 60 else None)


def test_the_policy_limits_the_retries() -> None:
    """Two by default; none with 0; a negative number is an error."""
    assert [wait({}, retry=retry) for retry in (1, 2, 3)] == [1.0, 2.0, None]
    assert RetryPolicy(max_retries=0).wait(ServerError("x"), {}, 1, now=NOW, roll=0.5) is None
    with pytest.raises(ValueError, match="at least 0"):
        RetryPolicy(max_retries=-1)


def test_a_quota_runs_out_and_refills() -> None:
    """500 tokens are 35 transient retries or 100 throttled ones; each success gives one back, up to the maximum."""
    quota = RetryQuota()
    assert sum(quota.try_spend(NetworkError("x")) for _ in range(100)) == 35
    assert quota.remaining == 10
    assert [quota.try_spend(error) for error in (ServerError("x"), RateLimitError("x"), OverloadedError("x"))] == [
        False,
        True,
        True,
    ]
    assert not quota.try_spend(RateLimitError("x"))
    for _ in range(14):
        quota.refund()
    assert quota.try_spend(ServerError("x"))
    for _ in range(1000):
        quota.refund()
    assert quota.remaining == 500
    assert sum(quota.try_spend(RateLimitError("x")) for _ in range(200)) == 100


def test_an_outage_does_not_triple_the_load() -> None:
    """If every call fails, the quota allows 35 retries for 200 calls and then none."""
    quota, time = RetryQuota(), VirtualClock()
    attempts = 0
    for _ in range(100):
        state = RetryState(POLICY, quota, time.timing)
        while state.record_failure(ServerError("x"), Headers()) is not None:
            pass
        attempts += len(state.attempts)
    assert attempts == 100 + 35


@pytest.mark.parametrize(("error", "retries"), [(ServerError("x"), 35), (RateLimitError("x"), 100)])
def test_a_thousand_failing_calls_cost_a_tenth_more(error: ProviderError, retries: int) -> None:
    """Of 1,000 concurrent calls that all fail, at most one in ten is sent again, and none when the quota is empty."""
    quota, time = RetryQuota(), VirtualClock()
    under_way = [RetryState(POLICY, quota, time.timing) for _ in range(1_000)]
    total = 0
    while under_way:
        total += len(under_way)
        under_way = [state for state in under_way if state.record_failure(error, Headers()) is not None]
    assert total == 1_000 + retries
    assert total <= 1_100
    assert [RetryState(POLICY, quota, time.timing).record_failure(error, Headers()) for _ in range(1_000)] == [
        None
    ] * 1_000


def test_no_retry_reaches_beyond_the_deadline() -> None:
    """A wait that would end at or after the time limit is not started, and costs no quota."""
    quota, time = RetryQuota(), VirtualClock()
    state = RetryState(RetryPolicy(max_retries=9), quota, time.timing, timeout=7.0)
    waits = []
    while (seconds := state.record_failure(ServerError("x"), Headers())) is not None:
        waits.append(seconds)
        time.sleep(seconds)
    assert waits == [1.0, 2.0]
    assert state.remaining == 4.0
    assert quota.remaining == 500 - 2 * 14


def test_the_retries_of_all_models_of_an_answer_begin_within_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wait that would end later is not begun, and costs no quota. Another task has all its time."""
    quota, time = RetryQuota(), VirtualClock()
    monkeypatch.setattr(retry, "time", SimpleNamespace(monotonic=lambda: time.seconds))
    slow_down, headers = RateLimitError("x"), Headers({"retry-after": "2"})

    def ask_two_models() -> list[list[float]]:
        retry_within(5.0)
        waits: list[list[float]] = [[], []]
        for each in waits:
            state = RetryState(RetryPolicy(max_retries=9), quota, time.timing)
            while (seconds := state.record_failure(slow_down, headers)) is not None:
                each.append(seconds)
                time.sleep(seconds)
        return waits

    assert copy_context().run(ask_two_models) == [[2.0, 2.0], []]
    assert quota.remaining == 500 - 2 * 5
    assert RetryState(POLICY, quota, time.timing).record_failure(slow_down, Headers({"retry-after": "50"})) == 50.0


def test_every_attempt_is_recorded() -> None:
    """The last error has the statuses, classes and waits of all attempts."""
    state = RetryState(POLICY, RetryQuota(), VirtualClock().timing)
    state.record_failure(ServerError("x", status=502), Headers({"retry-after": "3"}))
    last = InvalidRequestError("x", status=400)
    assert state.record_failure(last, Headers()) is None
    assert [(a.number, a.status, a.error_class, a.waited) for a in last.attempts] == [
        (1, 502, "server_error", 3.0),
        (2, 400, "invalid_request", 0.0),
    ]


def test_a_decision_is_for_one_failure() -> None:
    """An attempt that fails before it is sent, as at a limit of the program, is not retried by the decision before."""
    state = RetryState(RetryPolicy(max_retries=5), RetryQuota(), VirtualClock().timing)
    failed = Failed(ServerError("x"))
    assert state.wait_after(failed) is None
    state.record_failure(ServerError("x"), Headers({}))
    assert state.wait_after(failed) is not None
    assert state.wait_after(failed) is None


def test_an_unusable_reply_is_asked_again_unless_the_caller_saw_it() -> None:
    """Each reply is decided once, and an error that is not the provider's ends the attempts."""
    state = RetryState(RetryPolicy(max_retries=5), RetryQuota(), VirtualClock().timing)
    assert state.wait_after(Broken(ServerError("x"), None, seen=False)) is not None
    assert state.wait_after(Broken(ServerError("x"), None, seen=True)) is None
    assert state.wait_after(Broken(ValueError("x"), None, seen=False)) is None
    assert len(state.attempts) == 1
    assert state.next_wait is None
