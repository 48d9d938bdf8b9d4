"""When a row applies: dates, times, hours of the day and days of the week."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import PriceRow, PriceTable, Window, price_table
from dragoman.pricing.quote import PricedModel
from dragoman.pricing.rows import DAYS, Rate, read_row
from tests.unit.pricing.tables import acme, write_table

USAGE = TokenUsage(input_tokens=1_000_000)


@pytest.mark.parametrize(
    ("at", "dollars"),
    [
        ("2020-01-01T00:00:00", "10"),
        ("2026-02-28T23:59:59.999999", "10"),
        ("2026-03-01T00:00:00", "4"),
    ],
)
def test_a_price_holds_from_its_first_day_until_the_next_price(tmp_path: Path, at: str, dollars: str) -> None:
    """``from`` is the first moment of that day in UTC, ``until`` the first that no longer counts."""
    prices = 'prices = [{ until = 2026-03-01, input = "10" }, { from = 2026-03-01, input = "4" }]'
    table = write_table(tmp_path, acme(prices))
    assert table.price("acme:m", USAGE, datetime.fromisoformat(at).replace(tzinfo=UTC)).cost_usd == Decimal(dollars)


def test_before_the_first_price_there_is_none(tmp_path: Path) -> None:
    """A row with a start says nothing about the time before."""
    table = write_table(tmp_path, acme('prices = [{ from = 2026-03-01T16:00:00Z, input = "4" }]'))
    early = datetime(2026, 3, 1, 15, 59, tzinfo=UTC)
    assert table.price("acme:m", USAGE, early).cost_status is CostStatus.UNPRICED
    assert table.find("acme:m", early) is None
    assert table.price("acme:m", USAGE, early.replace(hour=16)).cost_usd == 4


@pytest.mark.parametrize(
    ("at", "dollars"),
    [
        ("2026-11-20T21:59", 2),  # a Friday
        ("2026-11-20T22:00", 1),
        ("2026-11-21T05:59", 1),  # the night that started on Friday
        ("2026-11-21T06:00", 2),
        ("2026-11-21T22:00", 2),  # Saturday
        ("2026-11-23T05:00", 2),  # the night that started on Sunday
        ("2026-11-23T23:00", 1),  # Monday
    ],
)
def test_hours_go_before_the_rest_of_the_day(tmp_path: Path, at: str, dollars: int) -> None:
    """A window is in UTC; one that passes midnight belongs to the day on which it starts."""
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert write_table(tmp_path).price("acme:night", USAGE, moment).cost_usd == dollars


@pytest.mark.parametrize(
    ("window", "active", "inactive"),
    [
        (Window(time(1), time(4)), ["2026-11-20T01:00", "2026-11-20T03:59"], ["2026-11-20T00:59", "2026-11-20T04:00"]),
        (Window(time(5), time(5)), [], ["2026-11-20T04:59", "2026-11-20T05:00", "2026-11-20T05:01"]),
        (Window(time(22), time(6), frozenset({6})),  # nights that start on a Sunday
         ["2026-11-22T22:00", "2026-11-23T05:59"], ["2026-11-22T05:00", "2026-11-23T22:00", "2026-11-24T05:00"]),
        (Window(time(22), time(6)),
         [f"2026-11-{day}T05:00" for day in range(16, 23)] + [f"2026-11-{day}T22:00" for day in range(16, 23)], []),
    ],
)  # fmt: skip
def test_a_window_has_its_first_moment_and_not_its_last(window: Window, active: list[str], inactive: list[str]) -> None:
    """Within a day and over midnight, on every day of the week; equal times are an empty window."""
    moments = [datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (*active, *inactive)]
    assert [window.is_active(moment) for moment in moments] == [True] * len(active) + [False] * len(inactive)


@pytest.mark.parametrize("day", DAYS)
def test_each_day_has_a_name(tmp_path: Path, day: str) -> None:
    """Monday is the first."""
    window = f'window = {{ start = 01:00:00, end = 02:00:00, days = ["{day}"] }}'
    table = write_table(tmp_path, acme(f'prices = [{{ {window}, input = "1" }}, {{ input = "2" }}]'))
    prices = [
        table.price("acme:m", USAGE, datetime(2026, 11, 16 + offset, 1, 30, tzinfo=UTC)).cost_usd for offset in range(7)
    ]
    assert prices.index(Decimal(1)) == ("mon", "tue", "wed", "thu", "fri", "sat", "sun").index(day)
    assert sorted(filter(None, prices)) == [1, 2, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("window", ["{ start = 1, end = 02:00:00 }", "{ start = 01:00:00, end = 2 }", "{ }"])
def test_a_window_has_two_times(tmp_path: Path, window: str) -> None:
    """A number of hours is none."""
    table = write_table(tmp_path, acme(f'prices = [{{ window = {window}, input = "1" }}]'))
    with pytest.raises(ConfigurationError, match="must be times"):
        table.price("acme:m", USAGE, datetime(2026, 11, 20, tzinfo=UTC))


def test_a_row_has_its_own_price_of_a_tool() -> None:
    """It takes precedence over that of the provider."""
    common: dict[str, Any] = {
        "provider": "acme",
        "model": "m",
        "source": "https://acme.example",
        "checked": date(2026, 11, 10),
    }
    row = read_row({"tools": {"search": "2"}}, {"search": Decimal(1), "fetch": Decimal(1)}, **common)
    assert row.tools == {"search": Decimal(2), "fetch": Decimal(1)}
    assert PriceRow(**common, rates={}, tools={}).free is False


def test_a_past_price_is_charged_for_the_past() -> None:
    """o3 became five times cheaper on 10 June 2025."""
    table = price_table()
    before = table.price("openai:o3", USAGE, datetime(2025, 6, 9, tzinfo=UTC))
    after = table.price("openai:o3", USAGE, datetime(2025, 6, 10, tzinfo=UTC))
    assert (before.cost_usd, after.cost_usd) == (Decimal(10), Decimal(2))


@pytest.mark.parametrize(
    ("at", "dollars"),
    [
        ("2026-06-01T02:00", "0.435"),  # before there were peak hours
        ("2026-08-19T02:00", "1.32"),
        ("2026-08-22T02:00", "1.32"),  # the last Saturday with peak hours
        ("2026-08-29T02:00", "0.66"),
        ("2026-11-20T02:00", "1.32"),
        ("2026-11-20T05:00", "0.66"),
    ],
)
def test_peak_hours_start_with_their_announcement(at: str, dollars: str) -> None:
    """DeepSeek's peak hours apply since 17 August 2026, and since 23 August not on weekends."""
    moment = datetime.fromisoformat(at).replace(tzinfo=UTC)
    assert price_table().price("deepseek:deepseek-v4-pro", USAGE, moment).cost_usd == Decimal(dollars)


def test_the_row_of_a_price_can_be_shown() -> None:
    """Rates, validity, source and day, and the variants that apply at that time."""
    table: PriceTable = price_table()
    at = datetime(2026, 11, 20, tzinfo=UTC)
    row = table.find("anthropic:claude-opus-5-5", at)
    assert row is not None
    assert (row.provider, row.model, row.free, row.thresholds) == ("anthropic", "claude-opus-5-5", False, ())
    assert row.rates["input"].amount == 4
    assert row.rates["output"].at(500_000) == 20
    assert row.source.startswith("https://")
    assert {variant.variant for variant in table.variants("anthropic:claude-opus-5-5", at)} == {
        ("processing", "batch"),
        ("speed", "fast"),
    }
    assert table.variants("anthropic:claude-opus-5-5", datetime(2026, 10, 1, tzinfo=UTC))[0].variant == (
        "speed",
        "fast",
    )
    assert table.find("anthropic:nobody") is None
    assert table.variants("anthropic:nobody") == ()


def test_a_variant_before_the_standard_row_is_not_the_standard() -> None:
    known: dict[str, Any] = {"provider": "acme", "model": "m", "source": "https://acme.example", "checked": date.min}
    batch = PriceRow(**known, variant=("processing", "batch"), rates={"input": Rate(Decimal(1))}, tools={})
    standard = PriceRow(**known, rates={"input": Rate(Decimal(2))}, tools={})
    quote = PricedModel("acme:m", (batch, standard)).quote(USAGE, datetime(2026, 11, 20, tzinfo=UTC), batch=False)
    assert quote.steps[0][1][0].rate == Decimal(2) / 1_000_000
