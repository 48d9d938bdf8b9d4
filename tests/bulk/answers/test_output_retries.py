"""Rows whose answers are not valid are asked again, and everything that they cost is counted."""

import asyncio
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, Field

from dragoman import AdapterOptions, Budget, Client, EventBus
from dragoman.bulk import BulkReport, bulk, bulk_async
from dragoman.bulk.config import RunConfig
from dragoman.bulk.manifest.manifest import Manifest
from dragoman.bulk.manifest.records import RowRecord, RowUsage
from dragoman.errors import AuthenticationError, RequestError
from tests.bulk.provider import HAIKU, Provider, error_reply, number, reply

PRICE = Decimal("0.0015")
"""Of one answer of the provider."""
ROWS = [{"prompt": f"question {n}"} for n in range(4)]
LATER = AdapterOptions(max_output_tokens=100)


class City(BaseModel):
    name: str
    population: int = Field(gt=0)


def city(population: int) -> str:
    return json.dumps({"name": "Bern", "population": population})


def valid_after(wrong: int, row: int = 2) -> Provider:
    """Return a provider that answers one row wrongly that often."""
    return Provider(lambda prompt, times: city(0 if number(prompt) == row and times <= wrong else 7))


def run(provider: Provider, manifest: str | Path = "sqlite://", **settings: Any) -> tuple[BulkReport, list[Any]]:
    given = {"output": City, **settings}
    with bulk(ROWS, HAIKU, manifest=manifest, providers=provider.settings, **given) as report:
        return report, list(report)


@pytest.mark.parametrize("as_turns", [False, True])
class TestAskedAgain:
    """Alone, and as the turns of a client's sessions."""

    def test_with_the_answer_and_its_problems(self, as_turns: bool) -> None:
        """The row has the tokens and the cost of both answers, and so has the run."""
        provider = valid_after(1)
        report, rows = run(provider, client=Client(events=EventBus()) if as_turns else None)
        assert [row["answer_population"] for row in rows] == [7] * 4
        assert [(row["tokens"], row["cost"]) for row in rows] == [
            (1100, PRICE),
            (1100, PRICE),
            (2200, 2 * PRICE),
            (1100, PRICE),
        ]
        assert (report.cost_usd, report.models[0].output_tokens, report.lost.usd) == (5 * PRICE, 500, None)
        prompt, answer, correction = provider.bodies[-1]["messages"]
        assert "question 2" in json.dumps(prompt)
        assert json.loads(answer["content"][0]["text"]) == {"name": "Bern", "population": 0}
        assert "$.population: Input should be greater than 0" in json.dumps(correction)

    def test_as_often_as_the_setting_says(self, as_turns: bool) -> None:
        """Then the row is an error with the cost of all its answers."""
        for retries in (0, 2):
            provider = valid_after(9)
            client = Client(events=EventBus()) if as_turns else None
            report, rows = run(provider, output_retries=retries, client=client)
            assert (report.errors, provider.requests) == (1, 4 + retries)
            assert rows[2]["error"].startswith("the answer does not have the requested type: $.population: ")
            assert (rows[2]["answer"], rows[2]["cost"]) == (None, (1 + retries) * PRICE)

    def test_an_error_between_two_answers_costs_the_first_one(self, as_turns: bool) -> None:
        """A server error and a refusal cost nothing, a broken connection an estimate."""

        def answer(prompt: str, times: int) -> httpx.Response | str | None:
            wrong: list[httpx.Response | str | None] = [
                city(0),
                error_reply(500, "api_error"),
                None,
                error_reply(429, "rate_limit_error", {"retry-after": "0"}),
            ]
            return wrong[times - 1] if number(prompt) == 2 and times <= len(wrong) else city(7)

        provider = Provider(answer)
        report, rows = run(provider, client=Client(events=EventBus()) if as_turns else None)
        assert (report.errors, provider.requests) == (0, 8)
        assert rows[2]["cost"] == 2 * PRICE
        assert (report.lost.network, report.lost.failed, report.lost.killed) == (1, 0, 0)

    def test_an_error_for_good_keeps_the_cost_of_the_answers_before(self, as_turns: bool) -> None:
        provider = Provider(lambda _, times: city(0) if times == 1 else error_reply(400, "invalid_request_error"))
        report, rows = run(provider, client=Client(events=EventBus()) if as_turns else None)
        assert report.errors == 4
        assert {row["cost"] for row in rows} == {PRICE}
        assert "invalid_request_error" in rows[0]["error"]

    def test_an_error_that_ends_the_run_keeps_their_cost_as_lost(self, as_turns: bool, tmp_path: Path) -> None:
        """The same call sends the rows again from the start."""
        refusing = Provider(lambda _, times: city(0) if times == 1 else error_reply(401, "authentication_error"))
        client = Client(events=EventBus()) if as_turns else None
        with pytest.raises(AuthenticationError):
            run(refusing, tmp_path / "m", concurrency=1, client=client)
        report, _ = run(Provider(lambda *_: city(7)), tmp_path / "m", client=client)
        assert (report.finished, report.errors, report.cost_usd) == (True, 0, 4 * PRICE)
        assert (report.lost.failed, report.lost.usd) == (1, PRICE)

    def test_a_budget_holds_between_the_answers(self, as_turns: bool, tmp_path: Path) -> None:
        """It ends the run, and the same call with a larger one goes on. What was paid for is counted."""
        client = Client(events=EventBus()) if as_turns else None
        provider = valid_after(1, row=0)
        settings: dict[str, Any] = {"options": LATER, "concurrency": 1, "client": client}
        report, rows = run(provider, tmp_path / "m", budget="0.002", **settings)
        assert report.stopped is not None
        assert "the budget per session is $0.002" in report.stopped
        assert (provider.requests, rows[0]["error"]) == (1, "not sent yet")
        assert (report.lost.failed, report.lost.usd) == (1, PRICE)
        report, rows = run(provider, tmp_path / "m", budget="1", **settings)
        assert (report.finished, report.errors, provider.requests) == (True, 0, 5)

    def test_a_budget_for_a_turn_is_one_for_all_answers_of_a_row(self, as_turns: bool) -> None:
        """A row that exceeds it is an error, and the others go on."""
        client = Client(events=EventBus() if as_turns else None, budgets=[Budget(usd="0.002", per="turn")])
        report, rows = run(valid_after(1), options=LATER, client=client)
        assert (report.stopped, report.errors) == (None, 1)
        assert "the budget per turn is $0.002" in rows[2]["error"]
        assert rows[2]["cost"] == PRICE

    def test_done_rows_are_not_sent_again(self, as_turns: bool, tmp_path: Path) -> None:
        """Done rows are not sent again, neither valid ones nor those that failed after all retries."""
        provider, client = valid_after(9), Client(events=EventBus()) if as_turns else None
        first = run(provider, tmp_path / "m", client=client)
        again = run(provider, tmp_path / "m", client=client)
        assert first[1] == again[1]
        assert (provider.requests, again[0].cost_usd) == (5, 5 * PRICE)


def test_a_killed_process_loses_no_cost_of_earlier_answers(tmp_path: Path) -> None:
    """A row in flight is lost with what its answers cost and with the estimate of its request."""
    manifest = Manifest(tmp_path / "m")
    config = RunConfig(source=None, models=[HAIKU])  # type: ignore[arg-type]  # the rows do not matter here
    (model_no,) = manifest.open_run(config.fingerprint(), [HAIKU])
    paid = RowUsage(Decimal("0.25"), "priced", 1000, 100)
    claim = RowRecord(model_no, 1, "", Decimal("0.5"), 7, paid, 1)
    manifest.save([claim])
    manifest.close()
    report, _ = run(Provider(), tmp_path / "m", output=None)
    assert (report.lost.killed, report.lost.usd) == (1, Decimal("0.75"))


def test_a_run_that_is_cancelled_asks_no_row_again(tmp_path: Path) -> None:
    """The row has no outcome, its answer is lost with its cost, and the same call sends it."""

    task: asyncio.Task[Any]

    class Cancelling(Provider):
        async def _handle(self, request: httpx.Request) -> httpx.Response:
            response = await super()._handle(request)
            task.cancel()
            for _ in range(100):  # until all tasks of the run know
                await asyncio.sleep(0)
            return response

    async def cancel() -> None:
        nonlocal task
        provider = Cancelling(lambda *_: city(0))
        task = asyncio.create_task(
            bulk_async(ROWS, HAIKU, manifest=tmp_path / "m", providers=provider.settings, output=City, concurrency=1)
        )
        with pytest.raises(asyncio.CancelledError):
            await task
        assert provider.requests == 1

    asyncio.run(cancel())
    provider = valid_after(0)
    report, _ = run(provider, tmp_path / "m")
    assert (report.finished, provider.requests) == (True, 4)
    assert (report.lost.failed, report.lost.usd) == (1, PRICE)


def test_rows_in_flight_wait_for_the_budget_together() -> None:
    """Each has a wrong answer and needs more: the last one that waits gives up, and none waits for ever."""
    provider = Provider(lambda prompt, times: reply(city(0 if times == 1 else 7), tokens_in=10))
    report, _ = run(provider, budget="0.0035", options=LATER, concurrency=4)
    assert report.stopped is not None
    assert 0 < report.models[0].answered < 4
    assert report.lost.failed == 4 - report.models[0].answered
    assert (report.cost_usd or 0) + (report.lost.usd or 0) <= Decimal("0.0035")


def test_a_row_that_is_refused_gets_the_place_of_one_that_waits_for_the_budget() -> None:
    """A refusal halves the concurrency to one place. The next row must not hold it until the first one ends."""
    provider = Provider(
        lambda _, times: (
            error_reply(429, "rate_limit_error", {"retry-after": "0.01"}) if times == 1 else reply("fine", tokens_in=10)
        )
    )
    report, _ = run(provider, output=None, options=LATER, budget="0.0009", concurrency=2)
    assert report.models[0].answered == 1
    assert report.stopped is not None


def test_a_wrong_number_of_retries_is_refused() -> None:
    provider = Provider()
    for wrong in (-1, True, "1"):
        with pytest.raises(RequestError, match="output_retries must be a whole number, at least 0"):
            run(provider, output_retries=wrong)
    assert provider.requests == 0
