"""Every provider with an adapter has prices, or a reason for having none."""

from decimal import Decimal

import pytest

from dragoman.adapter.registry import providers
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import price_table
from tests.tables import each_row
from tests.unit.pricing.tables import NOW

USAGE = TokenUsage(input_tokens=1_000_000, output_tokens=1_000_000)


@each_row("provider", providers())
def test_a_provider_has_prices_or_a_reason_for_none(provider: str) -> None:
    """A name without a file is a decision."""
    table = price_table()
    known, unpriced = provider in table.providers(), provider in table.unpriced
    assert known != unpriced
    if unpriced:
        assert len(table.unpriced[provider]) > 20
        assert table.price(f"{provider}:any", USAGE, NOW).cost_status is CostStatus.UNPRICED


@pytest.mark.parametrize(
    "provider", ["llamacpp", "lmstudio", "vllm", "mistralrs", "gpustack", "local", "ollama-openai"]
)
def test_local_models_are_free(provider: str) -> None:
    priced = price_table().price(f"{provider}:qwen3:4b", USAGE, NOW)
    assert (priced.cost_usd, priced.cost_status) == (Decimal(0), CostStatus.FREE)


def test_ollamas_hosted_models_are_not_free() -> None:
    """They are billed by plan, over the other API too."""
    priced = price_table().price("ollama-openai:gpt-oss:120b-cloud", USAGE, NOW)
    assert (priced.cost_usd, priced.cost_status) == (None, CostStatus.UNPRICED)


def test_a_router_charges_the_price_of_the_named_provider() -> None:
    """Hugging Face passes prices on; with a plain name, the provider is not known in advance."""
    table = price_table()
    routed = table.price("huggingface:meta-llama/Llama-3.3-70B-Instruct:groq", USAGE, NOW)
    assert routed.cost_usd == Decimal("0.59") + Decimal("0.79")
    assert table.price("huggingface:meta-llama/Llama-3.3-70B-Instruct", USAGE, NOW).cost_usd is None
    assert table.price("huggingface:meta-llama/Llama-3.3-70B-Instruct:nobody", USAGE, NOW).cost_usd is None
    assert table.price("huggingface:", USAGE, NOW).cost_usd is None


def test_the_whole_data_set_is_there() -> None:
    """The whole data set is there: 47 providers of the source, and the two written by hand."""
    table = price_table()
    files = {name for name in table.providers() if (prices := table.provider(name)) and prices.name == name}
    assert len(files) == 49
    assert sum(len(table.models(name)) for name in files - {"local", "ollama"}) >= 2330
