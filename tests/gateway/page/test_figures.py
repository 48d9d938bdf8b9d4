"""What the gateway knows of its own requests."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dragoman_gateway.endpoints.dashboard.report import failures_of
from dragoman_gateway.running.metrics import Durations, Figures, Metrics
from tests.gateway.page.sample import ended


def test_quantiles_are_true_to_five_percent() -> None:
    metrics, others = Metrics(), Metrics()
    for number in range(1, 1001):
        (metrics if number % 3 else others).end(ended("a:m", "one", seconds=number / 100))
    metrics.add(others.dump())
    for share in (0.01, 0.5, 0.99, 1.0):
        assert metrics.total().whole.quantile(share) == pytest.approx(10 * share, rel=0.05)


def test_no_requests_have_no_quantile_and_no_cost() -> None:
    assert Durations().quantile(0.5) is None
    assert Figures().usd is None


def test_requests_are_counted_by_model_key_and_day() -> None:
    days = iter([1, 1, 1, 2, 2])
    metrics = Metrics(lambda: datetime(2026, 11, next(days), tzinfo=UTC))
    for record in (ended("a:m", "one", losses=2), ended("b:m", "one", cents=4), ended("a:m", "two")):
        metrics.running.add(record)
        metrics.end(record)
    metrics.end(ended("what-a-client-wrote", "two", status=404))
    assert not metrics.running
    assert {name: each.requests for name, each in metrics.by("model").items()} == {"": 1, "a:m": 2, "b:m": 1}
    assert {name: each.errors for name, each in metrics.by("key_id").items()} == {"one": 0, "two": 1}
    assert {name: each.losses for name, each in metrics.by("day").items()} == {"2026-11-01": 2, "2026-11-02": 0}
    total = metrics.total()
    assert (total.requests, total.errors, total.usd) == (4, 1, Decimal("0.06"))
    assert (total.input_tokens, total.output_tokens, total.unpriced) == (3600, 270, 0)


def test_errors_are_counted_by_provider_and_model_over_all_workers() -> None:
    whole, one, other = Metrics(), Metrics(), Metrics()
    for metrics, model, status in ((one, "a:m", 529), (other, "a:m", 529), (other, "a:m", 200), (one, "b:x:1", 529)):
        metrics.end(ended(model, "one", status=status))
    one.end(ended("written by a client", "one", status=404))
    for metrics in (one, other):
        whole.add(json.loads(json.dumps(metrics.dump())))
    assert whole.total().usd == Decimal("0.01")
    found = {(each.provider, each.model, each.error, each.number) for each in failures_of(whole)}
    assert found == {
        ("a", "m", "OverloadedError", 2),
        ("b", "x:1", "OverloadedError", 1),
        ("", "", "status 404", 1),
    }


def test_the_number_of_groups_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_gateway.running.metrics._MAX_GROUPS", 3)
    metrics = Metrics()
    for number in range(9):
        metrics.end(ended(f"a:{number}", "one"))
    assert sorted(metrics.by("model")) == ["a:0", "a:1", "a:2", "other"]
    assert metrics.total().requests == 9
