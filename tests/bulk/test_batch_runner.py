"""Rows sent through a provider's batch API; the providers are hand-written, on loopback."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.bulk import BulkReport, batch_runner, bulk
from tests.unit.batch.handwritten_provider import Provider, serve_provider

HAIKU = "anthropic:claude-haiku-4-5"
ROWS = [f"question {n}" for n in range(5)]


def run(url: str, manifest: Path, rows: Any = ROWS, **settings: Any) -> tuple[BulkReport, list[dict[str, Any]]]:
    providers = {"anthropic": {"base_url": url, "api_key": "none"}}
    with bulk(rows, HAIKU, manifest=manifest, providers=providers, batch=True, poll_every=0.001, **settings) as report:
        return report, list(report)


def count_submitted(provider: Provider) -> int:
    return sum(len(batch.requests) for batch in provider.batches.values())


def test_a_batch_is_fetched_in_order_at_batch_prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rows make several batches; each answer is in its row."""
    monkeypatch.setattr(batch_runner, "MAX_BATCH_ROWS", 2)
    with serve_provider(provider := Provider()) as url:
        report, rows = run(url, tmp_path / "m")
    assert report.finished
    assert len(provider.batches) == 3
    assert [row["answer"] is not None for row in rows] == [True] * 5
    live = Decimal("0.0015")
    assert [row["cost"] for row in rows] == [live / 2] * 5


def test_a_later_process_fetches_the_batch(tmp_path: Path) -> None:
    """Its handle is in the manifest, so nothing is submitted twice."""
    with serve_provider(provider := Provider(polls=2)) as url:
        report, rows = run(url, tmp_path / "m", wait=False)
        assert not report.finished
        assert report.stopped is not None
        assert {row["error"] for row in rows} == {"in a batch that is not fetched yet"}
        report, rows = run(url, tmp_path / "m")
    assert report.finished
    assert report.errors == 0
    assert count_submitted(provider) == 5


def test_failed_rows_of_a_batch_are_submitted_again_on_request(tmp_path: Path) -> None:
    """Until then the error stays in its row."""
    rows = ["question 0", "EXPIRE 1", "FAIL 2"]
    with serve_provider(provider := Provider()) as url:
        report, answers = run(url, tmp_path / "m", rows)
        assert (report.finished, report.errors) == (True, 2)
        assert [row["error"] is None for row in answers] == [True, False, False]
        run(url, tmp_path / "m", rows, retry_errors=True)
    assert count_submitted(provider) == 3 + 2


def test_what_a_failed_row_cost_is_told_when_it_is_submitted_again(tmp_path: Path) -> None:
    """Its answer was not of the type, and paid for: the report names it beside the cost of the new one."""
    with serve_provider(Provider()) as url:
        first, _ = run(url, tmp_path / "m", ["question 0"], output=int, output_retries=0)
        second, _ = run(url, tmp_path / "m", ["question 0"], output=int, output_retries=0, retry_errors=True)
    assert first.errors == second.errors == 1
    assert first.cost_usd is not None
    assert second.cost_usd == first.cost_usd == second.lost.usd
    assert (first.lost.failed, second.lost.failed) == (0, 1)


def test_a_budget_limits_batches(tmp_path: Path) -> None:
    """As many rows are submitted as it pays for, at batch prices."""
    from dragoman.adapter.contract import AdapterOptions

    with serve_provider(provider := Provider()) as url:
        report, _ = run(url, tmp_path / "m", budget="0.0006", options=AdapterOptions(max_output_tokens=100))
    assert report.stopped is not None
    assert count_submitted(provider) == 2


def test_a_model_without_batches_is_refused(tmp_path: Path) -> None:
    """Before anything is sent."""
    with pytest.raises(ConfigurationError, match="no batch API"):
        bulk(["a"], "ollama:qwen3:4b", batch=True)


class TestInvalidAnswers:
    """A batch cannot ask again by itself: rows whose answers are not valid make another batch."""

    @staticmethod
    def write(custom_id: str, messages: str) -> str:
        """The third row is answered with a text, and rightly when it is asked again."""
        return '{"answer": 7}' if custom_id != "row-2" or "not valid" in messages else "seven"

    def test_they_are_submitted_again_with_their_problems(self, tmp_path: Path) -> None:
        with serve_provider(provider := Provider(write=self.write)) as url:
            report, rows = run(url, tmp_path / "m", output=int)
        assert (report.finished, report.errors) == (True, 0)
        assert [len(batch.requests) for batch in provider.batches.values()] == [5, 1]
        assert [row["answer_value"] for row in rows] == [7] * 5
        assert (rows[2]["cost"], rows[2]["tokens"]) == (2 * rows[0]["cost"], 2200)
        assert report.cost_usd == 6 * rows[0]["cost"]
        roles = [each["role"] for each in list(provider.batches.values())[1].requests[0]["params"]["messages"]]
        assert roles == ["user", "assistant", "user"]

    def test_a_later_process_goes_on(self, tmp_path: Path) -> None:
        """The manifest keeps the answer, what is wrong with it, and its cost."""
        with serve_provider(provider := Provider(polls=2, write=self.write)) as url:
            for _ in range(2):
                run(url, tmp_path / "m", wait=False, output=int)
            report, rows = run(url, tmp_path / "m", wait=False, output=int)
            assert rows[2]["error"] == "in a batch that is not fetched yet"
            assert not report.finished
            report, rows = run(url, tmp_path / "m", output=int)
        assert (report.finished, report.errors, rows[2]["tokens"]) == (True, 0, 2200)
        assert count_submitted(provider) == 6

    def test_after_the_last_retry_a_row_is_an_error(self, tmp_path: Path) -> None:
        for retries in (0, 2):
            with serve_provider(provider := Provider(write=lambda *_: "seven")) as url:
                settings = {"output": int, "output_retries": retries}
                report, rows = run(url, tmp_path / f"m{retries}", ["a"], **settings)
            assert (report.errors, count_submitted(provider)) == (1, 1 + retries)
            assert rows[0]["error"].startswith("the answer does not have the requested type")
            assert rows[0]["tokens"] == 1100 * (1 + retries)
