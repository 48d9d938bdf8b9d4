"""The cost of one reply at the edges of a table: exact thresholds, and what is known of a reply that is nearly free."""

from decimal import Decimal
from pathlib import Path

import pytest

from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.pricing import PriceTable
from tests.unit.pricing.tables import NOW, acme, write_table

PRICED, FREE, PARTIAL, UNPRICED = CostStatus.PRICED, CostStatus.FREE, CostStatus.PARTIAL, CostStatus.UNPRICED

EDGES = """
provider = "acme"
source = "https://acme.example/prices"
checked = 2026-11-10

[[model]]
id = "two-steps"
match = { equals = ["two-steps"] }
prices = [{ input = "1", output = "10", over = [{ tokens = 1, input = "2" }] }]

[[model]]
id = "three-steps"
match = { equals = ["three-steps"] }
prices = [{ input = "1", output = "10", over = [{ tokens = 1, input = "2" }, { tokens = 2, input = "3" }] }]

[[model]]
id = "own-fees"
match = { equals = ["own-fees"] }
prices = [{ request = "5", input = "1", tools = { search = "10", fetch = "1" } }]
variants = [{ service_tier = "flex", request = "1", tools = { search = "2" } }, { service_tier = "slow", input = "1" }]

[[model]]
id = "fee-only"
match = { equals = ["fee-only"] }
prices = [{ request = "5" }]

[[model]]
id = "no-rates"
match = { equals = ["no-rates"] }
prices = [{}]

[[model]]
id = "free-with-tools"
match = { equals = ["free-with-tools"] }
prices = [{ free = true, tools = { web_search = "10", page_calls = "20" } }]

[[surcharge]]
field = "geo"
standard = ["global"]
factors = { us = "1.5" }

[[surcharge]]
field = "priority"
standard = ["none"]
factors = { high = "2" }
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PriceTable:
    return write_table(tmp_path_factory.mktemp("prices"))


@pytest.fixture(scope="module")
def edges(tmp_path_factory: pytest.TempPathFactory) -> PriceTable:
    return write_table(tmp_path_factory.mktemp("edges"), {"acme": EDGES})


UNKNOWN_TOOL = {"code": 1}


@pytest.mark.parametrize(
    ("model", "usage", "usd", "status"),
    [
        ("plain", TokenUsage(server_tools=UNKNOWN_TOOL), None, UNPRICED),
        ("fee", TokenUsage(server_tools=UNKNOWN_TOOL), "0.005", PARTIAL),
        ("plain", TokenUsage(input_tokens=1000, server_tools=UNKNOWN_TOOL), "0.003", PARTIAL),
        ("full", TokenUsage(input_tokens=100, audio_input_tokens=100, server_tools=UNKNOWN_TOOL), "0.004", PARTIAL),
        ("full", TokenUsage(server_tools={**UNKNOWN_TOOL, "web_search": 1}), "0.01", PARTIAL),
        ("full", TokenUsage(input_tokens=100, audio_input_tokens=100), "0.004", PRICED),
    ],
)
def test_a_lower_bound_needs_a_known_part(
    table: PriceTable, model: str, usage: TokenUsage, usd: str | None, status: CostStatus
) -> None:
    """A fee, a bucket, a subset or a tool with a price makes it partial; without any the cost is None."""
    priced = table.price(f"acme:{model}", usage, NOW)
    assert (priced.cost_usd, priced.cost_status) == (None if usd is None else Decimal(usd), status)


@pytest.mark.parametrize(
    ("calls", "usd", "status"),
    [({}, "0", FREE), ({"web_search": 1}, "0.01", PRICED), ({"page_calls": 1}, "0.02", PRICED)],
)
def test_a_free_model_with_a_paid_tool_is_not_free(
    edges: PriceTable, calls: dict[str, int], usd: str, status: CostStatus
) -> None:
    """A tool is found by the whole name in the table, or without the word for calls."""
    priced = edges.price("acme:free-with-tools", TokenUsage(input_tokens=9, server_tools=calls), NOW)
    assert (priced.cost_usd, priced.cost_status) == (Decimal(usd), status)


@pytest.mark.parametrize(("model", "rates"), [("two-steps", (1, 1, 2, 2)), ("three-steps", (1, 1, 2, 3))])
def test_each_threshold_is_exact(edges: PriceTable, model: str, rates: tuple[int, ...]) -> None:
    """A prompt of the length of the threshold is still at the lower rate."""
    for prompt, rate in enumerate(rates):
        usage = TokenUsage(input_tokens=prompt, output_tokens=1)
        assert edges.price(f"acme:{model}", usage, NOW).cost_usd == Decimal(prompt * rate + 10) / 1_000_000


@pytest.mark.parametrize(("tier", "usd"), [("standard", "0.016"), ("flex", "0.004"), ("slow", "0.016")])
def test_a_variant_may_have_its_own_fees(edges: PriceTable, tier: str, usd: str) -> None:
    """Fees that the variant does not name stay."""
    usage = TokenUsage(server_tools={"search": 1, "fetch": 1}, service_tier=tier)
    assert edges.price("acme:own-fees", usage, NOW).cost_usd == Decimal(usd)


@pytest.mark.parametrize(
    ("rates", "text", "audio"),
    [
        ("", 1, 10),
        ('cache_read = "3"', 3, 3),
        ('audio_cache_read = "30"', 1, 30),
        ('cache_read = "3", audio_cache_read = "30"', 3, 30),
    ],
)
def test_cached_audio_falls_back_to_the_nearest_rate(tmp_path: Path, rates: str, text: int, audio: int) -> None:
    """To that of cache reads, and if there is none to that of uncached audio."""
    row = f'{{ input = "1", audio_input = "10"{", " if rates else ""}{rates} }}'
    table = write_table(tmp_path, acme(f"prices = [{row}]"))
    usage = TokenUsage(cached_input_tokens=100, cached_audio_input_tokens=40)
    assert table.price("acme:m", usage, NOW).cost_usd == Decimal(60 * text + 40 * audio) / 1_000_000


def test_many_digits_stay_exact(tmp_path: Path) -> None:
    """Many digits stay exact: more than the 28 of an ordinary decimal context."""
    table = write_table(tmp_path, acme('prices = [{ input = "1.2345678901234567891", output = "1" }]'))
    usage = TokenUsage(input_tokens=10**12 + 1, output_tokens=1)
    assert str(table.price("acme:m", usage, NOW).cost_usd) == "1234567.8901256913569901234567891"


def test_a_model_may_have_a_fee_and_no_rate(edges: PriceTable) -> None:
    """The fee is a lower bound: the tokens have no price. A row without any price means that the price is unknown."""
    usage = TokenUsage(input_tokens=1)
    priced = edges.price("acme:fee-only", usage, NOW)
    assert (priced.cost_usd, priced.cost_status) == (Decimal("0.005"), PARTIAL)
    priced = edges.price("acme:no-rates", usage, NOW)
    assert (priced.cost_usd, priced.cost_status, priced.unpriced) == (None, UNPRICED, ("input_tokens",))


@pytest.mark.parametrize(
    ("raw", "factor"),
    [
        ({"geo": "us", "priority": "high"}, 3),
        ({"geo": "us", "priority": "none"}, Decimal("1.5")),
        ({"geo": "global", "priority": "high"}, 2),
        ({"geo": 1}, 1),
    ],
)
def test_surcharges_multiply(edges: PriceTable, raw: dict[str, str], factor: Decimal) -> None:
    """Each one that applies; a value that is not text names none."""
    usage = TokenUsage(output_tokens=100, raw=raw)
    assert edges.price("acme:two-steps", usage, NOW).cost_usd == factor * Decimal("0.001")


def test_an_unknown_place_keeps_what_is_known(table: PriceTable) -> None:
    """Tools cost the same everywhere."""
    usage = TokenUsage(input_tokens=1, server_tools={"web_search": 1}, raw={"geo": "moon"})
    priced = table.price("acme:full", usage, NOW)
    assert (priced.cost_usd, priced.cost_status) == (Decimal("0.01"), PARTIAL)


@pytest.mark.parametrize("tier", ["batch", "Batch"])
def test_a_tier_may_be_the_batch(table: PriceTable, tier: str) -> None:
    """However the provider writes it."""
    usage = TokenUsage(input_tokens=100, output_tokens=10, service_tier=tier)
    assert table.price("acme:full", usage, NOW).cost_usd == Decimal(100 * 2 + 10 * 10) / 1_000_000


@pytest.mark.parametrize(
    ("model", "tier", "status"), [("acme:nobody", None, UNPRICED), ("acme:full", "scale", PARTIAL)]
)
def test_a_providers_own_cost_has_nothing_to_differ_from_if_ours_is_unknown(
    table: PriceTable, caplog: pytest.LogCaptureFixture, model: str, tier: str | None, status: CostStatus
) -> None:
    """It is kept, and no warning is logged."""
    usage = TokenUsage(input_tokens=1, service_tier=tier, reported_cost_usd=Decimal("0.5"))
    priced = table.price(model, usage, NOW)
    assert (priced.cost_usd, priced.cost_status, priced.reported_cost_usd) == (None, status, Decimal("0.5"))
    assert [record for record in caplog.records if "charges" in record.message] == []


def test_a_difference_is_logged_under_the_name_of_prices(table: PriceTable, caplog: pytest.LogCaptureFixture) -> None:
    """Programs filter by it."""
    table.price("acme:plain", TokenUsage(input_tokens=1000, reported_cost_usd=Decimal("0.5")), NOW)
    assert [record.name for record in caplog.records] == ["dragoman.pricing"]


def test_a_table_reprices_like_it_prices(table: PriceTable) -> None:
    """As a single request, unless it is marked as a batch."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100)
    assert table.reprice("acme:full", usage, NOW) == table.price("acme:full", usage, NOW)
    assert table.reprice("acme:full", usage, NOW).pricing_mode is None
