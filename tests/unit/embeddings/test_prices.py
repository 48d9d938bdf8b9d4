"""Every listed embedding model has a price, is free, or says why neither."""

import tomllib
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import price_table

UNPRICED = tomllib.loads((Path(__file__).parent / "unpriced.toml").read_text(encoding="utf-8"))


def listed() -> list[str]:
    tables = sorted(str(each) for each in Path(str(files("dragoman_adapters"))).glob("*/embeddings.toml"))
    rows = [row for path in tables for row in tomllib.loads(Path(path).read_text(encoding="utf-8")).get("model", ())]
    return [model for row in rows for model in row.get("listed", ())]


def test_models_without_a_price_have_a_reason() -> None:
    """A reason that is no longer needed fails, too."""
    table, usage = price_table(), TokenUsage(input_tokens=1_000)
    models = listed()
    priced = {model: table.price(model, usage, datetime(2026, 11, 21, tzinfo=UTC)).cost_status for model in models}
    assert len(models) > 30
    assert {model for model, status in priced.items() if status is CostStatus.UNPRICED} == UNPRICED.keys()
    assert set(priced.values()) == {CostStatus.PRICED, CostStatus.FREE, CostStatus.UNPRICED}
