"""Modifiers of the price: the table of docs/pricing.md, the data, and how the terms of a request reach its cost."""

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from dragoman import AdapterOptions, Client, Message, RequestContext, get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import price_table
from dragoman.pricing.table import PriceTable
from tests.unit.pricing.tables import NOW, write_table

DOCS = Path(__file__).parents[3] / "docs" / "pricing.md"
ROW = re.compile(r"\| ([a-z-]+) \| `([a-z_]+)=([^`]+)` \| `([^`]+)` \| ([0-9.]+|partial) \| (.+) \|")
COUNTS = {"input_tokens": 1000, "output_tokens": 100}


class Modifier(NamedTuple):
    provider: str
    kind: str
    word: str
    model: str
    factor: str
    source: str


def documented() -> list[Modifier]:
    section = DOCS.read_text(encoding="utf-8").partition("## Modifiers\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    found = [Modifier(*match.groups()) for line in lines if (match := ROW.fullmatch(line))]
    assert len(found) == len(lines) > 30
    return found


def usage_with(kind: str, word: str) -> TokenUsage:
    fields: dict[str, Any] = {"raw": {"inference_geo": word}}
    if kind in ("service_tier", "speed"):
        fields = {kind: word}
    elif kind in ("host", "completion_window"):
        fields = {"terms": {kind: word}}
    return TokenUsage(**COUNTS, **fields)


@pytest.mark.parametrize("modifier", documented(), ids=str)
def test_the_documented_factor_is_that_of_the_data(modifier: Modifier) -> None:
    table, model = price_table(), f"{modifier.provider}:{modifier.model}"
    standard = table.price(model, TokenUsage(**COUNTS), NOW).cost_usd
    is_batch = modifier.kind == "processing"
    usage = TokenUsage(**COUNTS) if is_batch else usage_with(modifier.kind, modifier.word)
    priced = table.price(model, usage, NOW, batch=is_batch)
    assert standard
    if modifier.factor == "partial":
        assert (priced.cost_usd, priced.cost_status) == (None, CostStatus.PARTIAL)
        assert f"{modifier.kind}={modifier.word}" in priced.unpriced
    else:
        assert (priced.cost_usd, priced.cost_status) == (standard * Decimal(modifier.factor), CostStatus.PRICED)


def in_the_data(table: PriceTable) -> Iterator[tuple[str, str, str]]:
    for provider in table.providers():
        prices = table.provider(provider)
        if prices is None or prices.name != provider:  # it has the prices of another one
            continue
        for surcharge in prices.surcharges:
            yield from ((provider, surcharge.field, word) for word in surcharge.factors)
        for model in prices.all_models():
            yield from ((provider, *row.variant) for row in model.rows if row.variant)


def test_every_modifier_of_the_data_is_documented() -> None:
    assert set(in_the_data(price_table())) <= {(row.provider, row.kind, row.word) for row in documented()}


def test_every_surcharge_names_its_source() -> None:
    table = price_table()
    surcharges = [each for name in table.providers() if (found := table.provider(name)) for each in found.surcharges]
    assert len(surcharges) > 5
    assert all(each.source.startswith("https://") for each in surcharges)


SURCHARGES = """
provider = "acme"
source = "https://acme.example/prices"
checked = 2026-11-10

[[surcharge]]
field = "host"
standard = ["plain"]
exempt = { equals = ["old"] }
factors = { far = "3" }

[[surcharge]]
field = "service_tier"
standard = []
models = { equals = ["new"] }
factors = { fast = "5" }

[[model]]
id = "new"
match = { equals = ["new"] }
prices = [{ input = "1", output = "1" }]
variants = [{ service_tier = "flex", input = "0.5", output = "0.5" }]

[[model]]
id = "old"
match = { equals = ["old"] }
prices = [{ input = "1", output = "1" }]
"""


@pytest.mark.parametrize(
    ("model", "fields", "factor"),
    [
        ("new", {"terms": {"host": "far"}}, 3),
        ("new", {"terms": {"host": "plain"}}, 1),
        ("new", {"terms": {"host": "nowhere"}}, None),
        ("new", {"terms": {"host": "far", "window": "1h"}}, None),
        ("new", {"service_tier": "fast"}, 5),
        ("new", {"service_tier": "fast", "terms": {"host": "far"}}, 15),
        ("new", {"service_tier": "flex", "terms": {"host": "far"}}, Decimal("1.5")),
        ("new", {"service_tier": "flex", "raw": {"service_tier": "fast"}}, Decimal("0.5")),
        ("new", {"service_tier": "fast", "speed": "fast"}, None),
        ("old", {"terms": {"host": "far"}}, 1),
        ("old", {"terms": {"host": "nowhere"}}, None),
        ("old", {"service_tier": "fast"}, None),
    ],
)
def test_a_factor_applies_to_its_models_and_words(
    tmp_path: Path, model: str, fields: dict[str, Any], factor: Decimal | None
) -> None:
    """``models`` alone have it, ``exempt`` ones cost the standard price, and no word without a price is passed over."""
    table = write_table(tmp_path / "prices", {"acme": SURCHARGES})
    priced = table.price(f"acme:{model}", TokenUsage(input_tokens=1000, **fields), NOW)
    assert priced.cost_usd == (None if factor is None else Decimal("0.001") * factor)
    assert priced.cost_status is (CostStatus.PARTIAL if factor is None else CostStatus.PRICED)


REPLY = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "gpt-6.1-sol", "service_tier": "default",
    "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}],
    "usage": {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100,
              "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("address", "terms", "factor"),
    [
        ("https://api.openai.com/v1", None, "1"),
        ("https://eu.api.openai.com/v1", {"host": "eu.api.openai.com"}, "1.1"),
        ("https://proxy.example/v1", None, "1"),
    ],
)
def test_the_address_of_a_request_is_a_term_of_its_usage(address: str, terms: Any, factor: str) -> None:
    """Replies do not repeat it. The address of a proxy says nothing about the price."""
    client = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, json=REPLY)))
    settings = {"openai": {"api_key": "k", "base_url": address, "client": client}}
    usage = Client(providers=settings).ask("openai:gpt-6.1-sol", "Hello").message.usage
    standard = price_table().price("openai:gpt-6.1-sol", TokenUsage(**COUNTS), NOW).cost_usd
    assert usage
    assert standard
    assert (usage.terms, usage.cost_usd) == (terms, standard * Decimal(factor))


@pytest.mark.parametrize(("window", "factor"), [("soonest", "1"), ("2h", "0.7"), ("8h", "0.6"), ("40h", None)])
def test_the_window_of_a_request_in_the_background_is_a_term_of_its_usage(window: str, factor: str | None) -> None:
    adapter, context = get_adapter("openai:gpt-6.1-sol"), RequestContext.for_model("openai:gpt-6.1-sol")
    extra = {"openai": {"background_options": {"completion_window": window}}}
    adapter.to_wire([Message.user("Hello")], [], AdapterOptions(background=True, extra=extra, context=context))
    usage = adapter.from_wire_response(WireResponse(200, json.dumps(REPLY).encode()), context).usage
    standard = price_table().price("openai:gpt-6.1-sol", TokenUsage(**COUNTS), NOW).cost_usd
    assert usage
    assert standard
    assert usage.cost_usd == (None if factor is None else standard * Decimal(factor))
