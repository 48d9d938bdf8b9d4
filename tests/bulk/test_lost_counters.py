"""A run whose shared limits lose their server while requests are in flight: it keeps what was paid, and buys nothing
twice.
"""

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import Client, Message
from dragoman.batch import Batches, BatchRequest
from dragoman.bulk import BulkReport, bulk_async
from dragoman.limits import Limit, Limits, LimitsUnavailableError
from tests.bulk.provider import HAIKU, Provider, error_reply
from tests.unit.batch import handwritten_provider
from tests.unit.limits.losable_redis import LosableRedis, losable_redis
from tests.unit.limits.redis_server import own_name

ROWS = [f"question {n}" for n in range(6)]
PRICE = Decimal("0.0015")
"""Of one answer of the provider."""


@pytest.fixture
def redis() -> Iterator[LosableRedis]:
    with losable_redis() as server:
        yield server


@pytest.fixture
def limits(redis: LosableRedis) -> Iterator[Limits]:
    limits = Limits(Limit("anthropic:*", requests=1_000, tokens=10**9), url=redis.url, name=own_name())
    yield limits
    limits.close()


@pytest.fixture(params=["rows", "turns"])
def settings(request: pytest.FixtureRequest, limits: Limits, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The settings of a run that sends its rows by itself, and of one whose rows are turns of sessions."""
    shared = {"limits": limits, "manifest": tmp_path / "manifest"}
    if request.param == "rows":
        yield shared
        return
    with Client(store=f"sqlite:///{tmp_path / 'chats.db'}") as client:
        yield shared | {"client": client}


def run_bulk(rows: Any, limits: Limits, **settings: Any) -> BulkReport:
    """Connections of async calls belong to their event loop, so they are closed there."""

    async def main() -> BulkReport:
        try:
            return await bulk_async(rows, HAIKU, limits=limits, **settings)
        finally:
            await limits.close_async()

    return asyncio.run(main())


def run(provider: Provider, rows: Any = ROWS, **settings: Any) -> list[dict[str, Any]]:
    with run_bulk(rows, providers=provider.settings, concurrency=3, **settings) as report:
        return list(report)


def test_answers_are_kept_and_bought_once(
    redis: LosableRedis, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """What was sent is answered, counted or not. Nothing more is sent uncounted."""

    def answer(prompt: str, times: int) -> str:
        redis.lose()
        return f"re: {prompt}"

    first = Provider(answer)
    with pytest.raises(LimitsUnavailableError):
        run(first, **settings)
    assert 0 < first.requests < len(ROWS)
    assert "could not count a request" in caplog.text
    redis.find()
    second = Provider(lambda prompt, _: f"again: {prompt}")
    rows = run(second, **settings)
    assert [row["error"] for row in rows] == [None] * len(ROWS)
    assert sum(row["answer"].startswith("re: ") for row in rows) == first.requests
    assert second.requests == len(ROWS) - first.requests


def test_the_last_answers_of_a_run_need_no_counters(redis: LosableRedis, settings: dict[str, Any]) -> None:
    """If nothing more is to be sent, the run ends as always."""

    def answer(prompt: str, times: int) -> str:
        redis.lose()
        return f"re: {prompt}"

    rows = run(Provider(answer), ROWS[:1], **settings)
    assert [row["answer"] for row in rows] == ["re: question 0"]


@pytest.mark.parametrize("failure", [error_reply(500, "api_error"), error_reply(429, "rate_limit_error"), None])
def test_a_failed_row_is_not_failed_by_the_counters(
    redis: LosableRedis, settings: dict[str, Any], failure: httpx.Response | None
) -> None:
    """It is sent again by the next call, which needs them."""

    def answer(prompt: str, times: int) -> httpx.Response | None:
        redis.lose()
        return failure

    with pytest.raises(LimitsUnavailableError):
        run(Provider(answer), ROWS[:1], **settings)
    redis.find()
    rows = run(Provider(), ROWS[:1], **settings)
    assert [row["answer"] for row in rows] == ["re: question 0"]


def test_an_invalid_answer_that_cannot_be_asked_again_is_counted(redis: LosableRedis, settings: dict[str, Any]) -> None:
    """At its cost, and not at an estimate: it is known."""

    def answer(prompt: str, times: int) -> str:
        redis.lose()
        return "seven"

    with pytest.raises(LimitsUnavailableError):
        run(Provider(answer), ROWS[:1], output=int, **settings)
    redis.find()
    provider = Provider(lambda prompt, _: '{"answer": 7}')
    with run_bulk(ROWS[:1], providers=provider.settings, output=int, **settings) as report:
        assert [row["answer_value"] for row in report] == [7]
        assert (report.lost.usd, report.cost_usd) == (PRICE, PRICE)


class TestBatches:
    """The handle of a batch that was accepted is kept."""

    @staticmethod
    def provider(redis: LosableRedis) -> handwritten_provider.Provider:
        class Losing(handwritten_provider.Provider):
            def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
                redis.lose()
                return super().answer(method, path, headers, body)

        return Losing()

    def test_it_is_fetched_and_not_submitted_again(self, redis: LosableRedis, limits: Limits, tmp_path: Path) -> None:
        provider = self.provider(redis)
        settings: dict[str, Any] = {"batch": True, "poll_every": 0.001, "limits": limits, "manifest": tmp_path / "m"}
        with handwritten_provider.serve_provider(provider) as url:
            providers = {"anthropic": {"base_url": url, "api_key": "none"}}
            with run_bulk(ROWS, providers=providers, **settings) as report:
                assert [row["error"] for row in report] == [None] * len(ROWS)
        assert [len(each.requests) for each in provider.batches.values()] == [len(ROWS)]

    def test_without_a_run(self, redis: LosableRedis, limits: Limits) -> None:
        with handwritten_provider.serve_provider(self.provider(redis)) as url:
            client = Client(limits=limits, providers={"anthropic": {"base_url": url, "api_key": "none"}})
            with client, Batches(HAIKU, client=client) as batches:
                handle = batches.submit([BatchRequest(custom_id="a", messages=[Message.user("Hi")])])
        assert handle.batch_id == "batch_1"
