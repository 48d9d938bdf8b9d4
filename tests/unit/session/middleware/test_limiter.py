"""A session and its limits: each request waits, is settled by its usage, and observes the provider's headers."""

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import MissingKeyError, RateLimitError, ServerError
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.registry import get_adapter
from dragoman.limits import Limit, LimitReachedError, Limits
from dragoman.routing import Router
from dragoman.session import tool
from tests.unit.limits.fake_clock import Clock
from tests.unit.limits.redis_server import HOW_TO_RUN, REDIS_URL, own_name
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, AsyncDriver, Body, Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

FINE = handwritten_anthropic("Yes.", usage=(100, 20))
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])


@tool
def look(at: str) -> str:
    """Look at something."""
    return f"{at} is fine."


def go(driver: Driver, session: Any, streamed: bool, prompt: str = "Hi") -> None:
    (driver.stream if streamed else driver.ask)(session, prompt, max_output_tokens=50)


def end(driver: Driver, limits: Limits) -> None:
    """Connections belong to their event loop."""
    if isinstance(driver, AsyncDriver):
        driver.runner.run(limits.close_async())
    limits.close()


@pytest.fixture(params=["process", "redis"])
def where(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The place of the counts."""
    if request.param == "redis":
        if not os.environ.get(REDIS_URL):
            pytest.skip(HOW_TO_RUN)
        yield {"url": os.environ[REDIS_URL], "name": own_name()}
    else:
        yield {}


@STREAMED
def test_each_request_of_a_turn_waits_for_its_turn(driver: Driver, streamed: bool) -> None:
    """Each request of a turn waits for its turn, also requests after tool calls; sessions that share the limits wait
    for each other.
    """
    clock = Clock()
    limits = Limits(Limit("anthropic:*", requests=60, burst=0.01), timing=clock.timing)
    provider = Wire([handwritten_anthropic(Call("t1", "look", {"at": "it"})), FINE])
    session = driver.session({"anthropic": provider}, tools=[look], limits=limits)
    go(driver, session, streamed)
    assert (len(provider.requests), clock.slept) == (2, [1])
    go(driver, driver.session({"anthropic": Wire([FINE])}, limits=limits), streamed)
    assert clock.slept == [1, 1]


@STREAMED
def test_an_exhausted_limit_stops_the_turn_before_it_is_sent(
    driver: Driver, streamed: bool, where: dict[str, Any]
) -> None:
    """The history is as before, and the error says when to retry."""
    limits = Limits(Limit(requests=1), max_wait=1, **where)
    provider = Wire([FINE, FINE])
    session = driver.session({"anthropic": provider}, limits=limits)
    go(driver, session, streamed)
    before = session.messages
    with pytest.raises(LimitReachedError) as refused:
        go(driver, session, streamed)
    assert 30 < (refused.value.retry_after or 0) <= 60
    assert (session.messages, len(provider.requests)) == (before, 1)
    driver.close(session)
    end(driver, limits)


@STREAMED
def test_tokens_are_settled_by_usage(driver: Driver, streamed: bool, where: dict[str, Any]) -> None:
    """Much more is reserved than a reply uses. Then the rest is free: three replies fit into one reservation."""
    limits = Limits(Limit(tokens=10_000, burst=0.9, seconds=3600), max_wait=0, **where)
    session = driver.session({"anthropic": Wire([FINE] * 3)}, limits=limits)
    for _ in range(3):
        (driver.stream if streamed else driver.ask)(session, "Hi", max_output_tokens=8_000)
    driver.close(session)
    assert limits.reserve(ANTHROPIC, 8_500).wait == 0
    with pytest.raises(LimitReachedError):
        limits.reserve(ANTHROPIC, 200)
    end(driver, limits)


def test_a_reply_without_a_limit_is_reserved_at_its_maximum(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's maximum, or the output that the program expects."""
    output_tokens = []
    for expected in (None, 300):
        limits = Limits(Limit(tokens=10**9), reply_tokens=expected)
        acquired: list[int] = []
        monkeypatch.setattr(Limits, "_reserve", _recording(Limits._reserve, acquired))
        driver.ask(driver.session({"anthropic": Wire([FINE])}, limits=limits), "Hi")
        monkeypatch.undo()
        output_tokens += acquired
    assert output_tokens == [get_adapter(ANTHROPIC).output_limit(AdapterOptions()), 300]


def _recording(reserve: Any, acquired: list[int]) -> Any:
    def record(limits: Limits, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Any:
        acquired.append(output_tokens)
        return reserve(limits, model, input_tokens, output_tokens)

    return record


@STREAMED
def test_failures_cost_requests_and_no_tokens(driver: Driver, streamed: bool) -> None:
    """Each try counts as one request; its reserved tokens are released."""
    clock = Clock()
    limits = Limits(Limit(requests=100, tokens=1000, burst=0.5), max_wait=0, timing=clock.timing)
    session = driver.session({"anthropic": Wire([httpx.Response(500) for _ in range(3)])}, limits=limits)
    with pytest.raises(ServerError):
        go(driver, session, streamed)
    assert limits.reserve(ANTHROPIC, 500).wait == 0
    limits.limits = (Limit(requests=100, burst=0.5),)
    assert sum(1 for _ in range(46) if limits.reserve(ANTHROPIC).wait == 0) == 46
    with pytest.raises(LimitReachedError):
        limits.reserve(ANTHROPIC)


def test_an_unsent_request_costs_nothing(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is detected after the wait."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    limits = Limits(Limit(requests=1), max_wait=0, timing=Clock().timing)
    session = driver.session({"anthropic": Wire([])}, limits=limits)
    del session.providers["anthropic"]["api_key"]
    with pytest.raises(MissingKeyError):
        driver.ask(session, "Hi")
    assert limits.reserve(ANTHROPIC).wait == 0


def test_an_abandoned_reply_costs_its_input(driver: Driver) -> None:
    """Its input counts; the reserved output is released."""
    clock = Clock()
    limits = Limits(Limit(tokens=100_000, burst=0.5), max_wait=1e9, timing=clock.timing)
    session = driver.session({"anthropic": Wire([Body(FINE.frames)])}, limits=limits)
    driver.stream(session, "Hi", until="text_delta", max_output_tokens=49_000)
    assert limits.reserve(ANTHROPIC, 49_000).wait == 0


@STREAMED
def test_a_rate_limit_error_is_observed(driver: Driver, streamed: bool, where: dict[str, Any]) -> None:
    """Its retry-after applies to all who share the limits."""
    limits = Limits(Limit(requests=1000), max_wait=1000, **where)
    busy = [httpx.Response(429, headers={"retry-after": "90"})]
    session = driver.session({"anthropic": Wire(busy)}, limits=limits)
    with pytest.raises(RateLimitError):
        go(driver, session, streamed)
    driver.close(session)
    assert limits.reserve(ANTHROPIC).wait == pytest.approx(90, abs=5)
    end(driver, limits)


@STREAMED
def test_reply_headers_are_observed(driver: Driver, streamed: bool) -> None:
    """If the provider reports less remaining quota than the limit, the provider's number applies."""
    limits = Limits(Limit(requests=1000), max_wait=0, timing=Clock().timing)
    headers = {"content-type": "application/json", "anthropic-ratelimit-requests-remaining": "0"}
    body = Body(FINE.frames) if streamed else FINE.body
    reply = httpx.Response(200, headers={**headers, "content-type": FINE.content_type} if streamed else headers,
                           **({"stream": body} if streamed else {"content": body}))  # fmt: skip
    go(driver, driver.session({"anthropic": Wire([reply])}, limits=limits), streamed)
    with pytest.raises(LimitReachedError):
        limits.reserve(ANTHROPIC)


def test_a_router_falls_back_without_an_outage(driver: Driver) -> None:
    """If our own limit is reached, the next model answers, and no model counts as down."""
    limits = Limits(Limit("anthropic:*", requests=1), max_wait=0, timing=Clock().timing)
    router = Router(global_default=OLLAMA, clock=lambda: NOW)
    wires = {"anthropic": Wire([FINE]), "ollama": Wire([handwritten_ollama("Here.") for _ in range(6)])}
    session = driver.session(wires, router=router, limits=limits)
    assert driver.ask(session, "Hi").text == "Yes."
    for _ in range(6):
        assert driver.ask(session, "Hi").text == "Here."
    assert router.availability.outage(ANTHROPIC, NOW) is None


def test_a_lost_count_does_not_lose_the_reply(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    """If the counts are lost after the request was sent, the reply is kept, and the failure is logged."""
    if not os.environ.get(REDIS_URL):
        pytest.skip(HOW_TO_RUN)
    limits = Limits(Limit(requests=10), url=os.environ[REDIS_URL], name=own_name())
    lost = Limits(limits.limits, url="redis://127.0.0.1:1/0")
    for name in ("settle", "settle_async", "observe", "observe_async"):
        setattr(limits, name, getattr(lost, name))
    reply = httpx.Response(200, headers={"anthropic-ratelimit-requests-remaining": "0"}, content=FINE.body)
    session = driver.session({"anthropic": Wire([reply])}, limits=limits)
    assert driver.ask(session, "Hi").text == "Yes."
    driver.close(session)
    assert "could not count a request" in caplog.text
    end(driver, limits)
