"""Budgets, limits and times as people write them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dragoman.errors import ConfigurationError
from dragoman_gateway.keys.amounts import (
    KeyLimit,
    OnOutage,
    Period,
    PeriodBudget,
    parse_budget,
    parse_end,
    parse_limit,
)

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "usd", "tokens", "period", "shown"),
    [
        ("50/month", Decimal(50), None, Period.MONTH, "$50/month"),
        ("$0.50", Decimal("0.50"), None, Period.TOTAL, "$0.50"),
        ("1_000_000 tokens/day", None, 1_000_000, Period.DAY, "1,000,000 tokens/day"),
    ],
)
def test_a_budget_is_read_as_it_is_written(
    text: str, usd: Decimal | None, tokens: int | None, period: Period, shown: str
) -> None:
    budget = parse_budget(text)
    assert (budget.usd, budget.tokens, budget.period, str(budget)) == (usd, tokens, period, shown)
    assert budget.on_outage is OnOutage.CLOSED
    again = PeriodBudget.from_json(budget.to_json())
    assert (again.usd, again.tokens, again.period) == (usd, tokens, period)


@pytest.mark.parametrize("text", ["", "50/hour", "fifty", "NaN", "-1/day", "1.5 tokens/day", "5 tokens of gold"])
def test_a_budget_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_budget(text)


def test_a_limit_is_read_as_it_is_written() -> None:
    limit = parse_limit("anthropic:*=40000 tokens/minute closed")
    assert (limit.models, limit.tokens, limit.seconds, limit.shared) == ("anthropic:*", 40_000, 60, True)
    assert limit.on_outage is OnOutage.CLOSED
    assert str(limit) == "anthropic:*=40,000 tokens/minute"
    assert KeyLimit.from_json(limit.to_json()) == limit
    assert parse_limit("100/minute").on_outage is OnOutage.OPEN
    uncached = parse_limit("5 uncached tokens/hour")
    assert (uncached.count_cached, str(uncached)) == (False, "5 uncached tokens/hour")
    assert KeyLimit.from_json(uncached.to_json()) == uncached


@pytest.mark.parametrize("text", ["", "100", "0/minute", "100/week", "a=b/minute"])
def test_a_limit_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_limit(text)


@pytest.mark.parametrize(
    ("period", "first", "reset"),
    [
        (Period.DAY, "2026-11-22", "2026-11-23"),
        (Period.WEEK, "2026-11-16", "2026-11-23"),
        (Period.MONTH, "2026-11-01", "2026-12-01"),
    ],
)
def test_a_period_begins_and_ends_by_the_calendar(period: Period, first: str, reset: str) -> None:
    since = (datetime.fromisoformat(first).replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert period.first_day(NOW) == since
    assert period.reset_at(NOW) == datetime.fromisoformat(reset).replace(tzinfo=UTC)
    assert Period.TOTAL.reset_at(NOW) is None


def test_the_end_of_a_key_is_a_duration_or_the_end_of_a_day() -> None:
    assert parse_end("30d", NOW) == datetime(2026, 12, 22, 12, tzinfo=UTC)
    assert parse_end("2026-12-31", NOW) == datetime(2027, 1, 1, tzinfo=UTC)
    with pytest.raises(ConfigurationError):
        parse_end("soon", NOW)
