"""Runs on a cluster: the same rows, manifest and budget; a lost worker loses no row."""

import asyncio
import os
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError, MissingExtraError, MissingKeyError
from dragoman.bulk import BulkReport, attempts, bulk, bulk_async, workers
from dragoman.canonical.usage import TokenUsage
from dragoman.limits import Grant, Limit, Limits
from dragoman.pricing import PriceTable, price_table
from tests.bulk.fake_cluster import Actor, FakeCluster, provider
from tests.bulk.provider import HAIKU, SONNET, Provider

COST = Decimal("0.000065")
"""Of one answer of the mock: 20 input tokens at $1 a million, and 9 output tokens at $5."""


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> list[Actor]:
    """Those that were started, on a cluster without Ray."""
    actors: list[Actor] = []
    monkeypatch.setattr(FakeCluster, "actors", actors, raising=False)
    monkeypatch.setattr(workers, "Cluster", FakeCluster)
    monkeypatch.setattr(workers, "_RETRY_DELAY", 0.001)
    monkeypatch.setattr(workers, "GATHER_SECONDS", 0.0)
    return actors


def rows(count: int) -> list[str]:
    return [f"row {n}" for n in range(count)]


async def on_cluster(settings: dict[str, Any], count: int, model: Any = HAIKU, **options: Any) -> BulkReport:
    # Workers are sent all prices that their table has read so far: the shared one has read those of other tests.
    prices = PriceTable(price_table()._path)
    return await bulk_async(rows(count), model, providers=settings, ray="fake", prices=prices, **options)


def all_answered(report: BulkReport, count: int) -> bool:
    return [row["answer"] for row in report] == [f"answer {n}" for n in range(count)]


def test_workers_answer_all_rows(actors: list[Actor]) -> None:
    """Each worker takes part; rows keep their order, each is requested once, with its cost."""

    async def main() -> None:
        async with provider(0.001) as (settings, seen):
            with await on_cluster(settings, 60, [HAIKU, SONNET], workers=3) as report:
                assert report.finished
                assert report.models[0].cost_usd == 60 * COST
                assert [row["answer"] for row in report] == [f"answer {n}" for n in range(60) for _ in range(2)]
            assert (seen.rows.total(), len(seen.rows), len(actors)) == (120, 60, 3)

    asyncio.run(main())


@pytest.mark.exhaustive
@pytest.mark.parametrize("for_good", [False, True])
def test_a_lost_worker_loses_no_row(actors: list[Actor], monkeypatch: pytest.MonkeyPatch, for_good: bool) -> None:
    """Its requests in flight are recorded with an upper bound of their cost, and repeated."""

    async def main() -> tuple[BulkReport, int]:
        async with provider(0.005) as (settings, seen):
            kill_at = {40, 80, 120}
            original = seen.answer

            async def answer(row: int) -> bytes:
                if seen.rows.total() in kill_at:
                    kill_at.remove(seen.rows.total())
                    busy = next(each for each in actors if each.worker is not None and each.worker._tasks)
                    asyncio.get_running_loop().call_soon(lambda: busy.kill(for_good=for_good))
                return await original(row)

            monkeypatch.setattr(seen, "answer", answer)
            report = await on_cluster(settings, 150, concurrency=8)
            assert not kill_at
            return report, seen.rows.total()

    report, requests = asyncio.run(main())
    with report:
        assert report.finished
        assert report.errors == 0
        assert all_answered(report, 150)
        assert 0 < report.lost.killed <= 3 * 8
        assert requests - 150 <= report.lost.killed
        assert report.lost.usd is not None


def test_rows_lost_while_a_run_stops_are_left_to_the_next_run(
    actors: list[Actor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Their loss is recorded but is not an error of theirs, and the same call asks them."""

    async def main() -> BulkReport:
        async with provider(0.05) as (settings, seen):
            original = seen.answer
            running = asyncio.create_task(on_cluster(settings, 12, concurrency=4, manifest=tmp_path / "m"))

            def stop() -> None:
                running.cancel()
                for each in actors:
                    asyncio.get_running_loop().call_later(0.01, each.kill)

            async def answer(row: int) -> bytes:
                if seen.rows.total() == 6:
                    asyncio.get_running_loop().call_soon(stop)
                return await original(row)

            monkeypatch.setattr(seen, "answer", answer)
            with pytest.raises(asyncio.CancelledError):
                await running
            monkeypatch.setattr(seen, "answer", original)
            return await on_cluster(settings, 12, manifest=tmp_path / "m")

    with asyncio.run(main()) as report:
        assert report.finished
        assert all_answered(report, 12)
        assert 0 < report.lost.killed <= 4


def test_all_workers_share_one_budget(actors: list[Actor]) -> None:
    """They never exceed it together."""

    async def main() -> None:
        options = AdapterOptions(max_output_tokens=9)
        async with provider(0.001) as (settings, seen):
            limit = Decimal("0.002")
            with await on_cluster(
                settings, 100, budget=limit, options=options, system="answer briefly, " * 9
            ) as report:
                assert not report.finished
                assert report.stopped is not None
                assert report.cost_usd is not None
                assert report.cost_usd <= limit
                assert report.cost_usd == seen.rows.total() * COST

    asyncio.run(main())


def test_all_workers_share_the_limits(actors: list[Actor]) -> None:
    """Each request is granted before it is submitted, and settled with what it used."""

    class RecordingLimits(Limits):
        def __init__(self) -> None:
            super().__init__(Limit("*", requests=60_000))
            self.calls: list[str] = []

        async def acquire_async(self, model: str, input_tokens: int = 0, output_tokens: int = 0) -> Grant:
            self.calls.append("asked")
            return await super().acquire_async(model, input_tokens, output_tokens)

        async def settle_async(self, grant: Grant, usage: TokenUsage | None, *, requests: int = 1) -> None:
            self.calls.append("took 29" if usage is not None and usage.total_tokens == 29 else "took nothing")
            await super().settle_async(grant, usage, requests=requests)

    async def main() -> None:
        limits = RecordingLimits()
        async with provider(0.0) as (settings, _):
            (await on_cluster(settings, 20, limits=limits)).close()
        assert Counter(limits.calls) == {"asked": 20, "took 29": 20}

    asyncio.run(main())


def test_a_row_that_kills_its_workers_is_given_up(actors: list[Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    """It becomes an error, and the other rows are answered."""
    monkeypatch.setattr(attempts, "MAX_WORKER_LOSSES", 2)

    async def main() -> BulkReport:
        async with provider(0.0) as (settings, seen):
            slow = asyncio.Event()
            original = seen.answer

            async def answer(row: int) -> bytes:
                if row == 3:
                    for each in actors:
                        if each.worker is not None and each.worker._tasks:
                            asyncio.get_running_loop().call_soon(each.kill)
                    await slow.wait()
                return await original(row)

            monkeypatch.setattr(seen, "answer", answer)
            return await on_cluster(settings, 6, concurrency=1, workers=1)

    with asyncio.run(main()) as report:
        assert report.finished
        assert [row["error"] is None for row in report] == [True, True, True, False, True, True]
        assert report.lost.killed == 3


def test_an_error_of_every_worker_ends_the_run(actors: list[Actor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first request: a missing key, or a worker that cannot start."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(MissingKeyError):
        asyncio.run(on_cluster({}, 1))

    class Broken(FakeCluster):
        def start_worker(self, configs: Any) -> Actor:
            actor = super().start_worker(configs)
            actor.kill(for_good=True)
            return actor

    monkeypatch.setattr(workers, "Cluster", Broken)
    with pytest.raises(ConfigurationError, match="can start: it is gone for good"):
        asyncio.run(on_cluster({}, 1))


def test_settings_that_workers_cannot_have_are_refused(actors: list[Actor]) -> None:
    """A client belongs to this process, batches need no workers, and workers need a cluster."""
    settings = Provider().settings
    with pytest.raises(ConfigurationError, match="for example a client"):
        bulk(rows(1), HAIKU, providers=settings, ray="fake")
    with pytest.raises(ConfigurationError, match="cannot be combined"):
        bulk(rows(1), HAIKU, ray="fake", batch=True)
    with pytest.raises(ConfigurationError, match="pass ray too"):
        bulk(rows(1), HAIKU, workers=2)


def test_a_missing_ray_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's usage reports are off, unless its user turns them on."""
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    monkeypatch.delenv("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", raising=False)
    with pytest.raises(MissingExtraError, match=r"dragoman\[ray\]"):
        bulk(rows(1), HAIKU, ray="local")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
