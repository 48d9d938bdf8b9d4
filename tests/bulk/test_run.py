"""Runs: each row is requested once, whatever happens, and the cost is known."""

import asyncio
import json
import socket
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import Budget, Client
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import AuthenticationError, ConfigurationError, MissingKeyError, UnpricedModelError
from dragoman.bulk import BulkReport, Progress, bulk, bulk_async
from dragoman.bulk.config import RunConfig
from dragoman.bulk.manifest.manifest import Manifest
from dragoman.bulk.manifest.records import RowRecord
from dragoman.bulk.rows import open_source, prompt_digest
from dragoman.limits import Limit, Limits
from dragoman.store.errors import StoreError
from dragoman.transport import RetryPolicy
from tests.bulk.provider import HAIKU, SONNET, Provider, error_reply, number, reply

PRICE = Decimal("0.0015")
"""Of one answer of the provider: 1,000 input tokens at $1 a million, and 100 output tokens at $5."""


def prompts(count: int) -> list[str]:
    return [f"question {n}" for n in range(count)]


def run(
    provider: Provider, rows: Any, manifest: Path | str = "sqlite://", model: Any = HAIKU, **settings: Any
) -> BulkReport:
    with bulk(rows, model, manifest=manifest, providers=provider.settings, **settings) as report:
        report.answer_rows = list(report)  # type: ignore[attr-defined]
        return report


def answer_rows(report: BulkReport) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = report.answer_rows  # type: ignore[attr-defined]
    return rows


def test_rows_come_out_as_they_went_in() -> None:
    """Rows come out in their order, with their columns, and with the answer and its cost."""
    rows = [{"id": n, "word": f"w{n}", "deep": {"n": [n]}} for n in range(300)]
    report = run(Provider(), rows, template="say {word} {{now}}", system="number {id}")
    assert report.finished
    assert report.stopped is None
    assert [{name: row[name] for name in ("id", "word", "deep")} for row in answer_rows(report)] == rows
    assert [row["answer"] for row in answer_rows(report)] == [f"re: say w{n} {{now}}" for n in range(300)]
    first = answer_rows(report)[0]
    assert (first["model"], first["cost"], first["tokens"], first["error"]) == (HAIKU, PRICE, 1100, None)
    assert report.cost_usd == 300 * PRICE


def test_a_system_prompt_is_filled_for_each_row() -> None:
    """It is a template, as the prompt is."""
    provider = Provider()
    run(provider, [{"prompt": "hello 1", "tone": "kind"}], system="be {tone}")
    assert "be kind" in json.dumps(provider.bodies[0]["system"])


def test_a_finished_run_asks_nothing_again(tmp_path: Path) -> None:
    """The same call returns the same rows, at no cost."""
    provider = Provider()
    first = run(provider, prompts(20), tmp_path / "m")
    again = run(provider, prompts(20), tmp_path / "m")
    assert answer_rows(first) == answer_rows(again)
    assert provider.requests == 20
    assert again.cost_usd == 20 * PRICE


def test_rows_added_at_the_end_are_asked(tmp_path: Path) -> None:
    """The others are not requested again."""
    provider = Provider()
    run(provider, prompts(5), tmp_path / "m")
    report = run(provider, prompts(8), tmp_path / "m")
    assert provider.requests == 8
    assert report.finished


def test_requests_in_flight_at_a_kill_are_asked_again_and_counted(tmp_path: Path) -> None:
    """Nobody knows how they ended, so each is recorded with its cost."""
    manifest = Manifest(tmp_path / "m")
    run_config = {"prompt": None, "system": None}
    with pytest.raises(ConfigurationError, match=r"different settings \(options\)"):
        run(Provider(), prompts(1), _start_run(manifest, run_config, tmp_path))
    manifest = Manifest(tmp_path / "n")
    (model_no,) = manifest.open_run(RunConfig(source=open_source([]), models=[HAIKU]).fingerprint(), [HAIKU])
    claims = [RowRecord(model_no, n, prompt_digest((f"question {n}",)), Decimal("0.25"), 7) for n in (1, 3)]
    manifest.save(claims)
    manifest.close()
    provider = Provider()
    report = run(provider, prompts(4), tmp_path / "n")
    assert provider.requests == 4
    assert report.finished
    assert (report.lost.killed, report.lost.usd) == (2, Decimal("0.50"))


def test_a_run_resumes_with_a_version_that_has_more_options() -> None:
    """An option that did not exist when the run began does not make it another run, unless it is set."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class NewerOptions(AdapterOptions):
        novelty: float | None = None

    def fingerprint(options: AdapterOptions) -> dict[str, Any]:
        return RunConfig(source=open_source([]), models=[HAIKU], options=options).fingerprint()

    assert fingerprint(NewerOptions(temperature=0.5)) == fingerprint(AdapterOptions(temperature=0.5))
    assert fingerprint(NewerOptions(novelty=0.5)) != fingerprint(AdapterOptions())


def _start_run(manifest: Manifest, run_config: dict[str, Any], folder: Path) -> Path:
    manifest.open_run(run_config, [HAIKU])
    manifest.close()
    return folder / "m"


def test_errors_stay_in_their_rows_and_are_retried_on_request(tmp_path: Path) -> None:
    """An invalid request does not stop the run."""
    broken = {3, 7}
    provider = Provider(
        lambda prompt, _: error_reply(400, "invalid_request_error") if number(prompt) in broken else f"re: {prompt}"
    )
    report = run(provider, prompts(10), tmp_path / "m")
    assert report.finished
    assert report.errors == 2
    assert [n for n, row in enumerate(answer_rows(report)) if row["error"]] == [3, 7]
    assert answer_rows(report)[3]["answer"] is None
    assert "invalid_request_error" in answer_rows(report)[3]["error"]
    assert run(provider, prompts(10), tmp_path / "m").errors == 2
    assert provider.requests == 10
    broken.clear()
    repaired = run(provider, prompts(10), tmp_path / "m", retry_errors=True)
    assert repaired.errors == 0
    assert provider.requests == 12


def test_permission_denied_is_an_error_of_its_row() -> None:
    """Services that inspect prompts answer so, so it may be about the row alone."""
    report = run(
        Provider(lambda prompt, _: error_reply(403, "permission_error") if number(prompt) == 1 else "fine"), prompts(3)
    )
    assert [row["error"] is None for row in answer_rows(report)] == [True, False, True]


def test_transient_failures_are_retried() -> None:
    """A server error costs nothing; a broken connection may have cost an answer, and is recorded."""

    def answer(prompt: str, times: int) -> httpx.Response | str | None:
        if times == 1 and number(prompt) == 1:
            return error_reply(500, "api_error")
        return None if times == 1 and number(prompt) == 2 else "fine"

    report = run(Provider(answer), prompts(4))
    assert [row["answer"] for row in answer_rows(report)] == ["fine"] * 4
    assert (report.lost.network, report.lost.killed) == (1, 0)
    assert report.lost.usd is not None


def test_a_refused_connection_cost_nothing() -> None:
    """Nothing was sent, so nothing may have been billed, and no limit counts it."""
    limits = Limits([Limit(requests=6, seconds=86_400, burst=1)], max_wait=0)
    with socket.socket() as silent:  # bound, so that no other program listens there meanwhile
        silent.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        retry = RetryPolicy(max_retries=2, initial_wait=0.001, max_wait=0.002)
        refused = {"anthropic": {"api_key": "none", "base_url": address, "retry": retry}}
        with bulk(prompts(2), HAIKU, providers=refused, limits=limits) as report:
            assert [row["error"] is None for row in report] == [False, False]
    assert (report.lost.network, report.lost.usd, report.models[0].cost_usd) == (0, None, None)
    for _ in range(6):
        limits.reserve(HAIKU)


def test_a_lasting_failure_is_an_error_of_its_row() -> None:
    """After the retries that the policy allows."""
    provider = Provider(lambda prompt, _: error_reply(500, "api_error") if number(prompt) == 2 else "fine")
    report = run(provider, prompts(4))
    assert report.errors == 1
    assert provider.requests == 3 + 3


def test_a_rate_limit_is_waited_out() -> None:
    """After a 429 with a wait, concurrency falls and no row is lost."""
    provider = Provider(
        lambda prompt, times: error_reply(429, "rate_limit_error", {"retry-after": "0.01"}) if times == 1 else "fine"
    )
    report = run(provider, prompts(12))
    assert report.errors == 0
    assert provider.requests == 24
    assert report.lost.usd is None


def test_an_error_that_meets_every_row_stops_the_run(tmp_path: Path) -> None:
    """An invalid key is reported once, not a million times; answers so far are kept."""
    good = Provider(lambda prompt, _: "fine" if number(prompt) < 3 else error_reply(401, "authentication_error"))
    with pytest.raises(AuthenticationError):
        run(good, prompts(40), tmp_path / "m", concurrency=2)
    assert good.requests < 10
    provider = Provider()
    assert run(provider, prompts(40), tmp_path / "m").lost.killed == 0
    assert provider.requests == 37


def test_a_missing_key_is_reported_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(MissingKeyError):
        bulk(prompts(3), HAIKU)


def test_a_budget_ends_the_run_cleanly(tmp_path: Path) -> None:
    """All processes together never exceed it, and a larger one resumes the run."""
    provider, options = Provider(lambda *_: reply("fine", tokens_in=5)), AdapterOptions(max_output_tokens=100)
    report = run(provider, prompts(40), tmp_path / "m", budget="0.01", options=options)
    assert report.stopped is not None
    assert "budget" in report.stopped
    assert not report.finished
    assert report.cost_usd is not None
    assert Decimal("0.009") < report.cost_usd <= Decimal("0.01")
    requests_before = provider.requests
    assert answer_rows(report)[-1]["error"] == "not sent yet"
    again = run(provider, prompts(40), tmp_path / "m", budget="0.01", options=options)
    assert provider.requests - requests_before <= 1
    assert again.cost_usd is not None
    assert again.cost_usd <= Decimal("0.01")
    assert run(provider, prompts(40), tmp_path / "m", budget="1", options=options).finished
    assert provider.requests == 40


def test_a_budget_in_dollars_needs_a_price() -> None:
    """The cost of such a model is unknown, so nothing is sent."""
    provider = Provider()
    with pytest.raises(UnpricedModelError):
        run(provider, prompts(3), model="anthropic:claude-nobody-knows", budget="1")
    assert provider.requests == 0


def test_several_models_answer_the_same_rows() -> None:
    """One line each, and how often they agree."""

    def answer(prompt: str, times: int) -> str:
        return ["Yes.", "yes", " YES! "][times % 3] if number(prompt) % 4 else f"no {times}"

    provider = Provider(answer)
    other = Provider(lambda prompt, _: "yes")
    provider._handle, mine = _by_model(provider, other), provider._handle  # type: ignore[method-assign]
    assert mine is not None
    report = run(provider, prompts(8), model=[HAIKU, SONNET])
    assert [row["model"] for row in answer_rows(report)[:4]] == [HAIKU, SONNET, HAIKU, SONNET]
    assert report.agreement == {(HAIKU, SONNET): 0.75}
    assert [line.answered for line in report.models] == [8, 8]
    assert report.models[1].cost_usd == 3 * report.models[0].cost_usd  # type: ignore[operator]
    assert str(report).splitlines()[0].split() == (
        ["model", "answers", "errors", "cost", "tokens", "in", "tokens", "out", "seconds", "slow", "agrees"]
    )


def _by_model(one: Provider, other: Provider) -> Any:
    handle, other_handle = one._handle, other._handle

    async def handle_by_model(request: httpx.Request) -> httpx.Response:
        return await (handle if b"haiku" in request.content else other_handle)(request)

    return handle_by_model


def test_a_model_can_be_added_later(tmp_path: Path) -> None:
    """A row is not requested again from a model that has answered it."""
    provider = Provider()
    run(provider, prompts(4), tmp_path / "m")
    report = run(provider, prompts(4), tmp_path / "m", model=[SONNET, HAIKU])
    assert provider.requests == 8
    assert [line.answered for line in report.models] == [4, 4]


def test_a_changed_row_is_refused(tmp_path: Path) -> None:
    """Its answer would belong to another question."""
    run(Provider(), prompts(4), tmp_path / "m")
    with pytest.raises(ConfigurationError, match="row 3 has changed"):
        run(Provider(), [*prompts(2), "other", "question 3"], tmp_path / "m")
    with pytest.raises(ConfigurationError, match=r"different settings \(system\)"):
        run(Provider(), prompts(4), tmp_path / "m", system="be brief")
    assert run(Provider(), prompts(4), tmp_path / "m", system="be brief", name="second").finished


def test_one_process_at_a_time_works_on_a_run(tmp_path: Path) -> None:
    """Requests in flight in another process would be counted as lost."""
    manifest = Manifest(tmp_path / "m")
    try:
        with pytest.raises(ConfigurationError, match="another process"):
            run(Provider(), prompts(2), tmp_path / "m")
    finally:
        manifest.close()
    assert run(Provider(), prompts(2), tmp_path / "m").finished


def test_a_row_without_the_column_is_an_error_of_that_row() -> None:
    """The other rows are requested."""
    provider = Provider()
    report = run(provider, [{"prompt": "a 1"}, {"other": "b"}, {"prompt": None}, {"prompt": " "}, "c 2"])
    assert [row["error"] is None for row in answer_rows(report)] == [True, False, False, False, True]
    assert provider.requests == 2


@pytest.mark.parametrize("template", ["{", "{}", "{a!r}", "{a:>9}", '{"json": 1}'])
def test_a_template_may_hold_columns_only(template: str) -> None:
    """The error comes before anything is sent."""
    with pytest.raises(ConfigurationError, match="is not a valid template"):
        run(Provider(), prompts(1), template=template)


def test_a_column_of_the_same_name_is_not_overwritten() -> None:
    """The error suggests a prefix."""
    rows = [{"prompt": "a 1", "answer": "mine"}]
    with pytest.raises(ConfigurationError, match="prefix"):
        run(Provider(), rows)
    (row,) = answer_rows(run(Provider(), rows, prefix="model_"))
    assert (row["answer"], row["model_answer"]) == ("mine", "re: a 1")


def test_rows_that_can_be_read_only_once_are_refused() -> None:
    """A run reads its rows when it asks and when it writes; a function can supply them again."""
    with pytest.raises(ConfigurationError, match="more than once"):
        run(Provider(), (f"question {n}" for n in range(3)))
    assert run(Provider(), lambda: (f"question {n}" for n in range(3))).row_count == 3


def test_progress_reports_rate_cost_and_remaining_rows() -> None:
    """At the end all rows are done."""
    snapshots: list[Progress] = []
    run(Provider(), prompts(30), progress=snapshots.append)
    last = snapshots[-1]
    assert (last.done, last.total, last.errors, last.in_flight) == (30, 30, 0, 0)
    assert last.cost_usd == last.projected_cost_usd == 30 * PRICE
    assert snapshots[0].projected_cost_usd == 30 * PRICE


def test_limits_apply_as_well() -> None:
    """Nothing is sent beyond them, and a request that never fits is an error of its row."""
    provider = Provider()
    limits = Limits(Limit(tokens=2_000, seconds=0.05, burst=1), reply_tokens=100)
    report = run(provider, ["one 1", "two 2 " + "word " * 4_000], limits=limits)
    assert [row["error"] is None for row in answer_rows(report)] == [True, False]
    assert provider.requests == 1


def test_a_cancelled_run_waits_for_requests_in_flight(tmp_path: Path) -> None:
    """They are billed, so their answers are recorded; the other rows are requested later."""
    provider = Provider()

    async def cancel_midway() -> None:
        task = asyncio.create_task(
            bulk_async(prompts(80), HAIKU, manifest=tmp_path / "m", providers=provider.settings, concurrency=4)
        )
        while provider.requests < 20:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_midway())
    before = provider.requests
    assert before < 80
    report = run(provider, prompts(80), tmp_path / "m")
    assert provider.requests == 80
    assert report.lost.killed == 0


def test_a_run_that_is_cancelled_twice_does_not_wait(tmp_path: Path) -> None:
    """Its rows in flight are counted as killed, and the same call sends them."""

    class Waiting(Provider):
        async def _handle(self, request: httpx.Request) -> httpx.Response:
            arrived.set()
            await asyncio.Event().wait()
            raise AssertionError

    arrived: asyncio.Event

    async def cancel() -> None:
        nonlocal arrived
        arrived = asyncio.Event()
        settings: dict[str, Any] = {"manifest": tmp_path / "m", "providers": Waiting().settings}
        task = asyncio.create_task(bulk_async(prompts(1), HAIKU, **settings))
        await arrived.wait()
        task.cancel()
        assert await asyncio.wait([task], timeout=0.05) == (set(), {task})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    report = run(Provider(), prompts(1), tmp_path / "m")
    assert (report.finished, report.lost.killed) == (True, 1)


def test_a_limit_that_is_reached_is_waited_out() -> None:
    """This also holds if the limits do not wait themselves: nothing was sent, so it is not an attempt."""
    provider = Provider()
    limits = Limits(Limit(requests=1, seconds=0.02, burst=1), max_wait=0)
    report = run(provider, prompts(3), limits=limits)
    assert (report.errors, provider.requests) == (0, 3)


def test_a_budget_of_a_user_needs_the_user(tmp_path: Path) -> None:
    """The run is refused before anything is sent or written."""
    provider, client = Provider(), Client(budgets=[Budget(usd=1, per="user")])
    with pytest.raises(ConfigurationError, match="user_id"):
        run(provider, prompts(1), tmp_path / "m", client=client)
    assert (provider.requests, (tmp_path / "m").exists()) == (0, False)
    assert run(provider, prompts(1), tmp_path / "m", client=client, user_id="ada").finished


def test_a_surplus_of_rows_in_flight_is_never_asked() -> None:
    provider = Provider()
    run(provider, prompts(50), concurrency=3)
    assert provider.max_in_flight <= 3


def test_a_manifest_that_fails_once_fails_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of a row cannot be written: the run says so, and the next one sends the row."""
    save, failures = Manifest.save, [StoreError("the disk is full")]

    def fail_once(manifest: Manifest, *work: Any) -> None:
        if failures:
            raise failures.pop()
        save(manifest, *work)

    monkeypatch.setattr(Manifest, "save", fail_once)
    provider = Provider()
    with pytest.raises(StoreError, match="the disk is full"):
        bulk(["Hi"], HAIKU, manifest=tmp_path / "m", providers=provider.settings)
    with bulk(["Hi"], HAIKU, manifest=tmp_path / "m", providers=provider.settings) as report:
        assert (report.errors, report.resumed, report.finished) == (0, 0, True)
