"""Price tables of earlier versions load forever, with unchanged prices."""

import hashlib
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dragoman.canonical.usage import TokenUsage
from dragoman.pricing import UsageRecord, price_table, reprice

FOLDER = Path(__file__).parent / "prices"
DIGESTS = {"2026-11-21+45565530": "1df73bbd4588a8db"}
"""The first 16 hex digits of each archive's SHA-256: a fixture never changes."""
THEN = datetime(2026, 11, 20, 2, tzinfo=UTC)

FIGURES: list[tuple[str, dict[str, Any], str]] = [
    ("anthropic:claude-sonnet-4-6", {"input_tokens": 8, "output_tokens": 42}, "0.000654"),
    ("anthropic:claude-opus-5-5", {"cached_input_tokens": 1000, "cache_creation_input_tokens": 100}, "0.0007"),
    ("openai:gpt-6.1-sol", {"input_tokens": 300_000, "output_tokens": 10}, "1.20015"),
    ("google:gemini-2.5-flash", {"cached_input_tokens": 100, "cached_audio_input_tokens": 40}, "0.0000058"),
    ("deepseek:deepseek-v4-pro", {"input_tokens": 1000, "output_tokens": 100}, "0.001716"),
    ("ollama:qwen3:4b", {"input_tokens": 1000}, "0"),
]


@pytest.mark.parametrize("version", DIGESTS)
def test_fixture_is_unchanged(version: str) -> None:
    """A failure here has found an edit, not a bug: add a file instead."""
    content = (FOLDER / f"{version}.zip").read_bytes()
    assert hashlib.sha256(content).hexdigest().startswith(DIGESTS[version])


def test_every_file_is_a_known_fixture() -> None:
    """Unread files prove nothing."""
    assert {path.stem for path in FOLDER.iterdir()} == set(DIGESTS)


@pytest.mark.parametrize(("model", "counts", "dollars"), FIGURES)
@pytest.mark.parametrize("version", DIGESTS)
def test_an_older_table_gives_the_costs_of_its_day(
    version: str, model: str, counts: dict[str, Any], dollars: str
) -> None:
    """Whatever the current prices, a cost with that version can be computed again."""
    table = price_table(version, FOLDER)
    (usage,) = reprice([UsageRecord(model, TokenUsage(**counts), THEN)], table)
    assert (usage.cost_usd, usage.pricing_version) == (Decimal(dollars), version)
