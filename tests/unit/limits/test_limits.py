"""Limits in a program: bounded waits, refusals with a retry time, and limits that providers report."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from dragoman import limits
from dragoman.adapter.errors import ConfigurationError, OverloadedError, RateLimitError, ServerError
from dragoman.adapter.replies.rate_limit_headers import read_remaining
from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Limit, LimitReachedError, Limits
from tests.unit.limits.fake_clock import Clock

SONNET, GPT = "anthropic:claude-sonnet-5-5", "openai:gpt-6.1-sol"


@pytest.mark.parametrize(
    "wrong",
    [{}, {"requests": 0}, {"tokens": -1}, {"requests": True}, {"requests": 1.5}, {"requests": 1, "seconds": 0},
     {"requests": 1, "seconds": float("nan")}, {"requests": 1, "burst": 0}, {"requests": 1, "burst": 2}],
)  # fmt: skip
def test_an_invalid_limit_is_refused(wrong: dict[str, Any]) -> None:
    """When it is made, not when it is used."""
    with pytest.raises(ConfigurationError):
        Limit(**wrong)
    with pytest.raises(ConfigurationError):
        Limits(Limit(requests=1), max_wait=float("nan"))


def test_a_request_waits_for_its_turn_and_no_longer() -> None:
    """The second request starts a second later at 60 a minute with one at once, sync and async alike."""
    clock = Clock()
    limits = Limits(Limit(requests=60, burst=0.01), timing=clock.timing)
    assert [limits.acquire(GPT).wait for _ in range(3)] == [0, 1, 1]
    assert asyncio.run(limits.acquire_async(GPT)).wait == 1
    assert clock.slept == [1, 1, 1]


def test_a_wait_that_would_be_too_long_is_refused_and_takes_nothing() -> None:
    """The error says after how many seconds there is room, and a request at that time succeeds."""
    clock = Clock()
    limits = Limits(Limit(requests=2, burst=0.01), max_wait=5, timing=clock.timing)
    limits.acquire(GPT)
    for _ in range(3):
        with pytest.raises(LimitReachedError, match="2 requests in 60 s for each of") as refused:
            limits.acquire(GPT)
    assert (refused.value.retry_after, refused.value.provider, refused.value.model) == (30, "openai", GPT)
    assert isinstance(refused.value, RateLimitError)
    clock.sleep(refused.value.retry_after or 0)
    assert limits.acquire(GPT).wait == 0


def test_models_that_match_a_limit_share_it() -> None:
    """Each model for itself, or all that match; other models are not limited."""
    limits = Limits([Limit("anthropic:*", requests=1), Limit("openai:*", requests=1, shared=True)], max_wait=0)
    for model in (SONNET, "anthropic:claude-opus-5-5", GPT, "ollama:qwen3", "ollama:qwen3"):
        limits.reserve(model)
    for model in (SONNET, "openai:gpt-6.1-luna"):
        with pytest.raises(LimitReachedError):
            limits.reserve(model)


def test_all_matching_limits_apply_together() -> None:
    """If one has no room, nothing is taken from the others."""
    clock = Clock()
    of_all, of_one = Limit("openai:*", requests=10, shared=True, burst=1), Limit(GPT, requests=1)
    limits = Limits([of_all, of_one], max_wait=0, timing=clock.timing)
    limits.reserve(GPT)
    for _ in range(20):
        with pytest.raises(LimitReachedError):
            limits.reserve(GPT)
    for _ in range(9):
        assert limits.reserve("openai:gpt-6.1-luna").wait == 0


def test_tokens_are_reserved_by_estimate_and_settled_by_usage() -> None:
    """Unused tokens are there for the next request; excess is paid for later."""
    clock = Clock()
    limits = Limits(Limit(tokens=1000, burst=0.5), max_wait=0, timing=clock.timing)
    first = limits.acquire(GPT, 100, 400)
    assert first.tokens == 500
    with pytest.raises(LimitReachedError):
        limits.reserve(GPT, 100, 100)
    limits.settle(first, TokenUsage(input_tokens=100, output_tokens=20))
    limits.settle(limits.acquire(GPT, 100, 100), TokenUsage(input_tokens=100, output_tokens=600))
    with pytest.raises(LimitReachedError) as refused:
        limits.reserve(GPT, 1)
    assert refused.value.retry_after == pytest.approx((121 + 700 - 500) * 60 / 501, abs=0.01)


def test_an_interrupted_wait_takes_nothing() -> None:
    def fail(seconds: float) -> None:
        raise KeyboardInterrupt

    async def fail_async(seconds: float) -> None:
        raise asyncio.CancelledError

    clock = Clock()
    limits = Limits(Limit(requests=60, tokens=600, burst=0.01), timing=clock.timing)
    limits.acquire(GPT, 6)
    impatient = Limits(limits.limits, timing=clock.timing)
    impatient._counters = limits._counters
    object.__setattr__(impatient._timing, "sleep", fail)
    object.__setattr__(impatient._timing, "sleep_async", fail_async)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            impatient.acquire(GPT, 6)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(impatient.acquire_async(GPT, 6))
    assert limits.reserve(GPT).wait == pytest.approx(1, abs=0.001)


def test_a_request_that_never_fits_is_refused() -> None:
    """If its input alone is larger than the limit. If only the reply might be, the whole limit is reserved."""
    limits = Limits(Limit(tokens=1000))
    with pytest.raises(LimitReachedError, match="never fits") as refused:
        limits.reserve(GPT, 1001)
    assert refused.value.retry_after is None
    assert limits.reserve(GPT, 900, 64_000).tokens == 1000


def test_cached_tokens_count_if_the_limit_says_so() -> None:
    """Some providers exclude cache reads from their limits."""
    usage = TokenUsage(input_tokens=10, cached_input_tokens=90, output_tokens=10)
    waits = []
    for counted in (True, False):
        limits = Limits(Limit(tokens=100, burst=0.5, count_cached=counted), max_wait=1000, timing=Clock().timing)
        limits.settle(limits.reserve(GPT, 10, 10), usage)
        waits.append(limits.reserve(GPT, 1).wait)
    assert waits[1] == 0 < waits[0]


def test_a_rate_limit_error_is_observed() -> None:
    """Nothing is sent to that model for the named time; without a time, no burst is left. Other models go on."""
    limits = Limits(Limit(requests=600), max_wait=1000, timing=Clock().timing)
    limits.observe(SONNET, RateLimitError("slow down", retry_after=20))
    limits.observe(GPT, RateLimitError("slow down"))
    assert (limits.reserve(SONNET).wait, limits.reserve("ollama:qwen3").wait) == (20, 0)
    assert limits.reserve(GPT).wait == pytest.approx(60 / 541, abs=0.001)


@pytest.mark.parametrize("error", [ServerError("broken"), OverloadedError("full"), LimitReachedError("ours")])
def test_unrelated_errors_change_nothing(error: Any) -> None:
    """A failing or overloaded server has not counted the request."""
    limits = Limits(Limit(requests=10), timing=Clock().timing)
    limits.observe(GPT, error)
    assert limits.reserve(GPT).wait == 0


def test_an_absurd_retry_time_is_capped() -> None:
    """A provider with a broken clock does not stop a program for a century."""
    limits = Limits(Limit(requests=10), max_wait=10_000, timing=Clock().timing)
    limits.observe(GPT, RateLimitError("come back", retry_after=3e9))
    assert limits.reserve(GPT).wait == 3600


def test_headers_reduce_room_and_never_add_any() -> None:
    """If the provider has fewer left than we would allow, that number counts; otherwise nothing changes."""
    limits = Limits(Limit(requests=100, tokens=1000, burst=0.1), max_wait=0, timing=Clock().timing)
    limits.observe(GPT, {"x-ratelimit-remaining-requests": "2", "x-ratelimit-remaining-tokens": "99999"})
    assert [limits.reserve(GPT).wait for _ in range(2)] == [0, 0]
    with pytest.raises(LimitReachedError):
        limits.reserve(GPT)
    limits.observe(GPT, {"x-ratelimit-remaining-requests": "50"})
    with pytest.raises(LimitReachedError):
        limits.reserve(GPT)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"anthropic-ratelimit-requests-remaining": "3"}, {"requests": 3}),
        ({"x-ratelimit-remaining-tokens": " 70 "}, {"tokens": 70}),
        ({"x-ratelimit-remaining-tokens": "-1"}, {}),
        ({"x-ratelimit-remaining-tokens": "many"}, {}),
        ({"x-ratelimit-remaining-tokens": "٣"}, {}),
        ({"x-ratelimit-remaining-requests": "0", "anthropic-ratelimit-requests-remaining": "9"}, {"requests": 0}),
        ({}, {}),
    ],
)
def test_invalid_headers_are_ignored(headers: dict[str, str], expected: dict[str, int]) -> None:
    """A value that is not a number is ignored."""
    assert read_remaining(headers) == expected


def test_an_invalid_url_is_not_shown() -> None:
    """It may hold a password."""
    with pytest.raises(ConfigurationError, match="not a Redis URL") as refused:
        Limits(Limit(requests=1), url="memcached://:hunter2@host")
    assert "hunter2" not in str(refused.value)


@pytest.mark.exhaustive
def test_budgets_do_not_load_limits() -> None:
    """A session needs budgets, and rarely limits; the first limit loads them."""
    program = (
        "import sys; from dragoman.limits import Budget;"
        "before = 'dragoman.limits.limits' in sys.modules;"
        "from dragoman.limits import Limits;"
        "print(before, 'dragoman.limits.limits' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]


def test_every_name_of_limits_can_be_imported() -> None:
    assert [name for name in limits.__all__ if not hasattr(limits, name)] == []
    assert set(limits.__all__) <= set(dir(limits))
    with pytest.raises(AttributeError, match="Limitz"):
        _ = limits.Limitz


def test_other_limits_have_counters_of_their_own_under_each_name() -> None:
    limits = Limits(Limit(requests=1), timing=Clock().timing, max_wait=0)
    ann = limits.with_limits(Limit(requests=1), name="ann")
    bob = limits.with_limits([Limit(requests=2, burst=1)], name="bob")
    assert [each.acquire(GPT).wait for each in (limits, ann, bob, bob)] == [0, 0, 0, 0]
    with pytest.raises(LimitReachedError):
        ann.acquire(GPT)
    assert limits.limits == (Limit(requests=1),)
