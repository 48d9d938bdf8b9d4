"""Costs with the bundled table that were computed by hand, to the last digit."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import price_table

FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
FRIDAY_PEAK = datetime(2026, 11, 20, 2, tzinfo=UTC)
SATURDAY_PEAK = datetime(2026, 11, 21, 2, tzinfo=UTC)

FIXTURES: list[tuple[str, dict[str, Any], datetime, str]] = [
    # 8 x 3.00 + 42 x 15.00
    ("anthropic:claude-sonnet-4-6", {"input_tokens": 8, "output_tokens": 42}, FRIDAY, "0.000654"),
    # 100 x 4 + 2000 x 0.20 + (1000 - 400) x 5 + 400 x 8 + 50 x 20, and two searches at a cent
    (
        "anthropic:claude-opus-5-5",
        {
            "input_tokens": 100, "cached_input_tokens": 2000, "cache_creation_input_tokens": 1000,
            "cache_creation_1h_input_tokens": 400, "output_tokens": 50, "server_tools": {"web_search_requests": 2},
        },
        FRIDAY,
        "0.0280",
    ),
    # twice the price: 100 x 8 + 50 x 40
    ("anthropic:claude-opus-5-5", {"input_tokens": 100, "output_tokens": 50, "speed": "fast"}, FRIDAY, "0.0028"),
    # half the price: 100 x 2 + 50 x 10
    (
        "anthropic:claude-opus-5-5",
        {"input_tokens": 100, "output_tokens": 50, "service_tier": "batch"},
        FRIDAY,
        "0.0007",
    ),
    # a tenth more: (100 x 4 + 50 x 20) x 1.1
    (
        "anthropic:claude-opus-5-5",
        {"input_tokens": 100, "output_tokens": 50, "raw": {"inference_geo": "us"}},
        FRIDAY,
        "0.00154",
    ),
    # up to 200,000 prompt tokens: 200000 x 3 + 10 x 15
    ("anthropic:claude-sonnet-4-5", {"input_tokens": 200_000, "output_tokens": 10}, FRIDAY, "0.60015"),
    # one more, and all of them cost more: 1 x 6 + 200000 x 0.60 + 10 x 22.50
    (
        "anthropic:claude-sonnet-4-5",
        {"input_tokens": 1, "cached_input_tokens": 200_000, "output_tokens": 10},
        FRIDAY,
        "0.120231",
    ),
    # o3 before and after its price cut: 1000 x 10 + 100 x 40, 1000 x 2 + 100 x 8
    ("openai:o3", {"input_tokens": 1000, "output_tokens": 100}, datetime(2025, 6, 1, tzinfo=UTC), "0.014"),
    ("openai:o3", {"input_tokens": 1000, "output_tokens": 100}, datetime(2025, 7, 1, tzinfo=UTC), "0.0028"),
    # priority: 1000 x 4 + 500 x 0.20 + 10 x 20
    (
        "openai-chat:gpt-6.1-sol",
        {"input_tokens": 1000, "cached_input_tokens": 500, "output_tokens": 10, "service_tier": "priority"},
        FRIDAY,
        "0.0043",
    ),
    # 1000 x 2 + 100 x 8, and one search at a cent
    (
        "openai:gpt-4.1",
        {"input_tokens": 1000, "output_tokens": 100, "server_tools": {"web_search": 1}},
        FRIDAY,
        "0.0128",
    ),
    # text 70 x 0.30, audio 30 x 1.00, cached text 60 x 0.03, cached audio 40 x 0.10, output 10 x 2.50
    (
        "google:gemini-2.5-flash",
        {
            "input_tokens": 100, "audio_input_tokens": 30, "cached_input_tokens": 100,
            "cached_audio_input_tokens": 40, "output_tokens": 10,
        },
        FRIDAY,
        "0.0000818",
    ),
    # peak on a weekday, 1000 x 1.32 + 100 x 3.96; not on a Saturday, 1000 x 0.66 + 100 x 1.98; nor before peak hours
    ("deepseek:deepseek-v4-pro", {"input_tokens": 1000, "output_tokens": 100}, FRIDAY_PEAK, "0.001716"),
    ("deepseek:deepseek-v4-pro", {"input_tokens": 1000, "output_tokens": 100}, SATURDAY_PEAK, "0.000858"),
    (
        "deepseek:deepseek-v4-pro",
        {"input_tokens": 1000, "output_tokens": 100},
        datetime(2026, 6, 1, 2, tzinfo=UTC),
        "0.000522",
    ),
    # a fee of 14 dollars per thousand requests: 0.014 + 100 x 3 + 10 x 15
    ("perplexity:sonar-pro", {"input_tokens": 100, "output_tokens": 10}, FRIDAY, "0.01445"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "counts", "at", "dollars"), FIXTURES)
def test_a_cost_computed_by_hand(model: str, counts: dict[str, Any], at: datetime, dollars: str) -> None:
    """Rate by rate, as the comment next to it shows."""
    priced = price_table().price(model, TokenUsage(**counts), at)
    assert priced.cost_usd == Decimal(dollars)
    assert priced.cost_status is CostStatus.PRICED
