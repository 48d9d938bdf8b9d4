"""What a limit counts for each way in which an attempt ends: tokens and requests, settled once."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import httpx
import pytest

from dragoman import Message, get_adapter
from dragoman.adapter.errors import ProviderError
from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Limit, Limits, LimitsUnavailableError
from dragoman.policy import Pipeline, PolicyDeniedError
from tests.unit.limits.losable_redis import losable_redis
from tests.unit.limits.redis_server import own_name
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, AsyncDriver, Body, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic, handwritten_ollama, handwritten_overloaded
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin

ANTHROPIC_REPLY = handwritten_anthropic(f"It is {SECRET}.", usage=(1000, 100))
OLLAMA_REPLY = handwritten_ollama("One, two.", usage=(12, 5))
OPENING = b'{"model":"qwen3","message":{"role":"assistant","content":""},"done":false}\n'
"""The first line of a stream of Ollama, without content."""
UNCOUNTED = {"model": "qwen3", "message": {"role": "assistant", "content": "One."}, "done": True, "done_reason": "stop"}

PROMPT = 10**6
"""A placeholder for the estimated tokens of the prompt: so many and one are the prompt and one token more."""


def cut(*frames: bytes) -> Body:
    return Body(frames, httpx.ReadError("the connection is gone"))


def broken_anthropic(frames: int) -> tuple[bytes, ...]:
    return (*ANTHROPIC_REPLY.frames[:frames], handwritten_overloaded())


def record_settled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The tokens and requests of each settlement, which is still carried out."""
    settled: list[tuple[int, int]] = []
    settle = Limits.settle

    def record(limits: Limits, grant: Any, usage: TokenUsage | None, *, requests: int = 1) -> None:
        settled.append((0 if usage is None else usage.total_tokens, requests))
        settle(limits, grant, usage, requests=requests)

    async def record_async(limits: Limits, grant: Any, usage: TokenUsage | None, *, requests: int = 1) -> None:
        record(limits, grant, usage, requests=requests)

    monkeypatch.setattr(Limits, "settle", record)
    monkeypatch.setattr(Limits, "settle_async", record_async)
    return settled


def resolve(expected: list[tuple[int, int]], model: str) -> list[tuple[int, int]]:
    prompt = get_adapter(model).estimate_input_tokens([Message.user("Hi")], [])
    return [(prompt + tokens - PROMPT if tokens >= PROMPT else tokens, requests) for tokens, requests in expected]


@pytest.mark.parametrize(
    ("model", "replies", "error", "settled"),
    [
        pytest.param(ANTHROPIC, lambda: [ANTHROPIC_REPLY], None, [(1100, 1)], id="replied"),
        pytest.param(ANTHROPIC, lambda: [ANTHROPIC_REPLY], PolicyDeniedError, [(1100, 1)], id="denied"),
        pytest.param(ANTHROPIC, lambda: [httpx.Response(400)], ProviderError, [(0, 1)], id="refused"),
        pytest.param(OLLAMA, lambda: [cut(*OLLAMA_REPLY.frames[:2])], ProviderError, [(PROMPT + 2, 1)], id="seen"),
        pytest.param(OLLAMA, lambda: [cut(OPENING), OLLAMA_REPLY], None, [(0, 1), (17, 1)], id="unseen"),
        pytest.param(OLLAMA, lambda: [cut(), OLLAMA_REPLY], None, [(0, 1), (17, 1)], id="no byte of a reply"),
        pytest.param(ANTHROPIC, lambda: [broken_anthropic(5)], ProviderError, [(1002, 1)], id="seen, counted"),
        pytest.param(ANTHROPIC, lambda: [broken_anthropic(2), ANTHROPIC_REPLY], None, [(1001, 1), (1100, 1)],
                     id="unseen, counted"),
    ],
)  # fmt: skip
def test_a_streamed_attempt_is_settled_by_its_outcome(
    driver: Driver,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    replies: Callable[[], list[Any]],
    error: type[Exception] | None,
    settled: list[tuple[int, int]],
) -> None:
    """By its counts; without any, by the prompt and what the caller saw, and by nothing if the caller saw nothing."""
    found = record_settled(monkeypatch)
    policy = Pipeline([DenyingPlugin(SECRET, hooks=["cmf.llm_output"])]) if error is PolicyDeniedError else None
    wires = {model.partition(":")[0]: Wire(replies())}
    session = driver.session(wires, model, limits=Limits(Limit(tokens=10**6, requests=100)), policy=policy)
    with nullcontext() if error is None else pytest.raises(error):
        driver.stream(session, "Hi", max_output_tokens=50)
    assert found == resolve(settled, model)


def test_a_whole_reply_without_counts_is_settled_by_its_text(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is settled by the prompt and the text, as budgets charge it."""
    found = record_settled(monkeypatch)
    wires = {"ollama": Wire([httpx.Response(200, json=UNCOUNTED)])}
    driver.ask(driver.session(wires, OLLAMA, limits=Limits(Limit(tokens=10**6))), "Hi")
    assert found == resolve([(PROMPT + 1, 1)], OLLAMA)


@pytest.mark.parametrize(
    ("model", "reply", "settled"),
    [(ANTHROPIC, ANTHROPIC_REPLY, [(1001, 1)]), (OLLAMA, OLLAMA_REPLY, [(PROMPT + 1, 1)])],
)
def test_a_reply_that_the_caller_left_is_settled_by_what_had_arrived(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, model: str, reply: Any, settled: list[tuple[int, int]]
) -> None:
    """It is settled by its counts, or without any by the prompt and what had arrived."""
    found = record_settled(monkeypatch)
    wires = {model.partition(":")[0]: Wire([reply])}
    driver.stream(driver.session(wires, model, limits=Limits(Limit(tokens=10**6))), "Hi", until="text_delta")
    assert found == resolve(settled, model)


class Unanswered(Wire):
    """A provider that takes a request and never answers."""

    async def wait(self, request: httpx.Request) -> httpx.Response:
        self.requests.append({})
        await asyncio.Event().wait()
        raise AssertionError("nobody waits that long")

    def __call__(self, request: httpx.Request) -> Any:
        return self.wait(request)


@pytest.mark.parametrize(
    ("model", "wire", "settled"),
    [
        pytest.param(ANTHROPIC, lambda: Unanswered([]), [(PROMPT, 1)], id="before the response"),
        pytest.param(OLLAMA, lambda: Wire([Body([OPENING], "stall")]), [(PROMPT, 1)], id="before any content"),
        pytest.param(ANTHROPIC, lambda: Wire([Body(ANTHROPIC_REPLY.frames[:2], "stall")]), [(1001, 1)], id="counted"),
    ],
)
def test_an_attempt_that_is_cancelled_before_its_first_word_is_settled(
    monkeypatch: pytest.MonkeyPatch, model: str, wire: Callable[[], Wire], settled: list[tuple[int, int]]
) -> None:
    """The provider may have read the prompt, whether its response began or not."""
    found = record_settled(monkeypatch)
    driver, provider = AsyncDriver(), wire()
    session = driver.session({model.partition(":")[0]: provider}, model, limits=Limits(Limit(tokens=10**6, requests=9)))

    async def main() -> None:
        async def read() -> None:
            async for _ in session.stream("Hi"):
                raise AssertionError("nothing was said")

        task = asyncio.create_task(read())
        while not provider.requests:
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    with driver.runner:
        driver.runner.run(main())
    assert found == resolve(settled, model)


def test_a_reply_survives_limits_that_cannot_be_reached(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    """It is kept, and each lost count is logged. Without counts, the next request is not sent."""
    headers = {"anthropic-ratelimit-tokens-remaining": "0"}
    wire = Wire([httpx.Response(200, headers=headers, content=ANTHROPIC_REPLY.body)])
    with losable_redis() as redis, caplog.at_level(logging.WARNING, "dragoman.limits"):

        def answer(request: httpx.Request) -> httpx.Response:
            redis.lose()
            return wire(request)

        limits = Limits(Limit(tokens=10**6), url=redis.url, name=own_name())
        session = driver.session({"anthropic": answer}, limits=limits)
        assert SECRET in driver.ask(session, "Hi").text
        with pytest.raises(LimitsUnavailableError):
            driver.ask(session, "Hi")
        driver.close(session)
        driver.runner.run(limits.close_async()) if isinstance(driver, AsyncDriver) else limits.close()
    lost = [record.getMessage() for record in caplog.records if record.name == "dragoman.limits"]
    assert [message.partition(": ")[0] for message in lost] == ["the limits could not count a request"] * 2
