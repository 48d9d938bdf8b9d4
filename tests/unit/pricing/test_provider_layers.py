"""One provider's prices from several files: which layer counts, and what a file must say."""

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.usage import TokenUsage
from dragoman.pricing.quote import ProviderPrices
from tests.unit.pricing.tables import NOW

SOURCE = {"source": "https://acme.example/prices", "checked": date(2026, 11, 10)}


def model(name: str, rate: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "match": {"equals": [name]}, "prices": [{"input": rate}], **more}


def test_a_higher_layer_goes_first() -> None:
    """Its models, its tools and its fallback; what it does not name comes from the lower one."""
    high = {**SOURCE, "fallback": ["other"], "tools": {"search": "1"}, "model": [model("m", "1")]}
    low = {
        **SOURCE,
        "fallback": ["another"],
        "tools": {"search": "2", "fetch": "2"},
        "model": [model("m", "2"), model("n", "2")],
    }
    for layers, rates, fallback in [
        ((high, low), {"m": "1", "n": "2"}, ("other",)),
        ((low, high), {"m": "2", "n": "2"}, ("another",)),
        (({**high, "fallback": []}, low), {"m": "1", "n": "2"}, ("another",)),
        (({**SOURCE}, high), {"m": "1"}, ("other",)),
    ]:
        prices = ProviderPrices("acme", layers)
        assert prices.fallback == fallback
        found = {name: prices.find(name) for name in rates}
        assert {name: row.rows[0].rates["input"].amount for name, row in found.items() if row} == {
            name: Decimal(rate) for name, rate in rates.items()
        }
    first = ProviderPrices("acme", [high, low]).find("m")
    assert first is not None
    assert first.rows[0].tools == {"search": Decimal(1), "fetch": Decimal(2)}


def test_a_models_own_source_goes_before_that_of_its_file() -> None:
    """The same applies to the day on which it was checked."""
    own = {"source": "https://acme.example/m", "checked": date(2026, 11, 11)}
    prices = ProviderPrices("acme", [{**SOURCE, "model": [model("m", "1", **own), model("n", "1")]}])
    rows = [found.rows[0] for found in prices.all_models()]
    assert [(row.source, row.checked) for row in rows] == [(own["source"], own["checked"]), tuple(SOURCE.values())]


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": 1, "match": {"equals": ["m"]}},
        {"match": {"equals": ["m"]}},
        {"id": "m", "match": "m"},
        {"id": "m"},
        {"id": "m", "match": {"equals": ["m"]}, "price": []},
    ],
)
def test_a_model_needs_a_name_and_a_rule(wrong: dict[str, Any]) -> None:
    """The error names the provider."""
    with pytest.raises(ConfigurationError, match="acme"):
        ProviderPrices("acme", [{**SOURCE, "model": [wrong]}])


def test_tools_of_all_layers_have_a_price() -> None:
    """A tool that only the lower layer knows is charged at its price."""
    prices = ProviderPrices("acme", [{**SOURCE, "model": [model("m", "1")]}, {**SOURCE, "tools": {"search": "5"}}])
    found = prices.find("m")
    assert found is not None
    quote = found.quote(TokenUsage(), NOW, batch=False)
    assert quote.tools == {"search": Decimal(5)}
