"""The cost of one reply: buckets, subsets, tiers, variants, tools, and unknown parts."""

import decimal
import logging
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import DragomanError, RequestError
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing import PriceTable, cost, price_table
from tests.unit.pricing.tables import NOW, write_table

COUNTS = st.integers(min_value=0, max_value=10_000_000)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PriceTable:
    return write_table(tmp_path_factory.mktemp("prices"))


def test_the_example_of_the_specification() -> None:
    """8 input and 42 output tokens of claude-sonnet-4-6, at 3.00 and 15.00 dollars, cost 0.000654 dollars."""
    usage = cost(TokenUsage(input_tokens=8, output_tokens=42), "anthropic:claude-sonnet-4-6", NOW)
    assert usage.cost_usd == Decimal("0.000654")
    assert usage.cost_status is CostStatus.PRICED
    assert usage.pricing_version == price_table().version


def test_each_bucket_has_its_own_rate(table: PriceTable) -> None:
    """Input, cache reads, both kinds of cache writes and output add up, each token counted once."""
    usage = TokenUsage(
        input_tokens=100,
        cached_input_tokens=200,
        cache_creation_input_tokens=300,
        cache_creation_1h_input_tokens=50,
        output_tokens=10,
    )
    per_million = 100 * 4 + 200 * Decimal("0.4") + 250 * 5 + 50 * 8 + 10 * 20
    assert table.price("acme:full", usage, NOW).cost_usd == per_million / 1_000_000


def test_cached_media_have_their_own_rates(table: PriceTable) -> None:
    """Audio and images from a cache cost neither what cached text costs, nor what new audio does."""
    usage = TokenUsage(
        input_tokens=100,
        audio_input_tokens=10,
        cached_input_tokens=200,
        cached_audio_input_tokens=50,
        cached_image_input_tokens=20,
    )
    per_million = 90 * 4 + 10 * 40 + 130 * Decimal("0.4") + 50 * 5 + 20 * Decimal("0.6")
    assert table.price("acme:full", usage, NOW).cost_usd == per_million / 1_000_000


def test_subsets_replace_the_rate_of_their_bucket(table: PriceTable) -> None:
    """Audio, images and reasoning have their own rate and no longer that of their bucket."""
    usage = TokenUsage(
        input_tokens=100,
        audio_input_tokens=30,
        image_input_tokens=20,
        output_tokens=100,
        audio_output_tokens=10,
        image_output_tokens=20,
        reasoning_tokens=30,
    )
    per_million = 50 * 4 + 30 * 40 + 20 * 6 + 40 * 20 + 10 * 80 + 20 * 60 + 30 * 30
    assert table.price("acme:full", usage, NOW).cost_usd == Decimal(per_million) / 1_000_000


def test_a_missing_rate_is_that_of_its_kind(table: PriceTable) -> None:
    """All prompt tokens cost the input rate, and all output the output rate, if the finer rates are missing."""
    usage = TokenUsage(
        input_tokens=10,
        cached_input_tokens=10,
        cache_creation_input_tokens=10,
        cache_creation_1h_input_tokens=5,
        audio_input_tokens=3,
        output_tokens=10,
        reasoning_tokens=9,
    )
    priced = table.price("acme:plain", usage, NOW)
    assert priced.cost_usd == Decimal(30 * 3 + 10 * 15) / 1_000_000
    assert priced.cost_status is CostStatus.PRICED


def test_a_subset_larger_than_its_bucket_makes_the_cost_partial(table: PriceTable) -> None:
    """Audio beyond the uncached input must have come from the cache, at an unknown rate."""
    usage = TokenUsage(input_tokens=10, cached_input_tokens=90, audio_input_tokens=50)
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("audio_input_tokens",)
    assert priced.cost_usd == (10 * 40 + 90 * Decimal("0.4")) / 1_000_000


@pytest.mark.parametrize(("prompt", "rates"), [(1000, (4, 20)), (1001, (8, 30)), (2000, (8, 30)), (2001, (12, 30))])
def test_a_longer_prompt_puts_the_whole_request_on_the_higher_rate(
    table: PriceTable, prompt: int, rates: tuple[int, int]
) -> None:
    """The threshold counts all prompt tokens and must be exceeded; a tier keeps the rates that it does not name."""
    usage = TokenUsage(input_tokens=prompt - 600, cached_input_tokens=600, output_tokens=10)
    per_million = (prompt - 600) * rates[0] + 600 * Decimal("0.4") + 10 * rates[1]
    assert table.price("acme:full", usage, NOW).cost_usd == per_million / 1_000_000


@pytest.mark.parametrize(
    ("stated", "rates"),
    [
        ({}, (4, 20)),
        ({"service_tier": "standard"}, (4, 20)),
        ({"service_tier": "default", "speed": "standard"}, (4, 20)),
        ({"service_tier": "auto"}, (4, 20)),
        ({"service_tier": "ON_DEMAND"}, (4, 20)),
        ({"service_tier": "flex"}, (1, 5)),
        ({"service_tier": "batch"}, (2, 10)),
        ({"speed": "fast"}, (8, 40)),
    ],
)
def test_the_reply_names_its_variant(table: PriceTable, stated: dict[str, str], rates: tuple[int, int]) -> None:
    """Service tier and speed come from the usage; the providers' ordinary words mean the standard price."""
    usage = TokenUsage(input_tokens=100, output_tokens=10, **stated)
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_usd == Decimal(100 * rates[0] + 10 * rates[1]) / 1_000_000
    assert priced.cost_status is CostStatus.PRICED


def test_a_variant_keeps_the_standard_rates_that_it_does_not_name(table: PriceTable) -> None:
    """Batch names input and output only: cache reads, rates of longer prompts and tools stay."""
    usage = TokenUsage(input_tokens=100, cached_input_tokens=100, output_tokens=10, server_tools={"web_search": 1})
    priced = table.price("acme:full", usage, NOW, batch=True)
    assert priced.cost_usd == (100 * 2 + 100 * Decimal("0.4") + 10 * 10) / 1_000_000 + Decimal("0.01")


@pytest.mark.parametrize(
    ("stated", "batch", "at", "word"),
    [
        ({"service_tier": "scale"}, False, NOW, "service_tier=scale"),
        ({"speed": "ludicrous"}, False, NOW, "speed=ludicrous"),
        ({}, True, datetime(2026, 5, 31, tzinfo=UTC), "processing=batch"),
        ({"service_tier": "flex"}, True, NOW, "processing=batch, service_tier=flex"),
        ({"service_tier": "flex", "speed": "fast"}, False, NOW, "service_tier=flex, speed=fast"),
    ],
)
def test_an_unknown_variant_is_never_priced_as_standard(
    table: PriceTable, stated: dict[str, str], batch: bool, at: datetime, word: str
) -> None:
    """A tier without a price (also for now, or in an unknown combination) makes the cost partial and is named."""
    usage = TokenUsage(input_tokens=100, output_tokens=10, **stated)
    priced = table.price("acme:full", usage, at, batch=batch)
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("input_tokens", "output_tokens", word)
    assert priced.cost_usd is None


def test_an_unknown_variant_keeps_what_is_known(table: PriceTable) -> None:
    """Tools cost the same in every variant, so their part is the lower bound."""
    usage = TokenUsage(input_tokens=100, service_tier="scale", server_tools={"web_search_requests": 3})
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_usd == Decimal("0.03")
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("input_tokens", "service_tier=scale")


@pytest.mark.parametrize("name", ["web_search", "web_search_requests", "web_search_calls", "web_search_call"])
def test_tools_are_charged_by_the_thousand_calls(table: PriceTable, name: str) -> None:
    """However a provider names the count of calls."""
    usage = TokenUsage(server_tools={name: 2, "web_fetch_requests": 5, "code_execution": 0})
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_usd == Decimal("0.02")
    assert priced.cost_status is CostStatus.PRICED


def test_a_tool_without_a_price_is_named(table: PriceTable) -> None:
    """The tokens are charged, the calls are not: the cost is a lower bound."""
    usage = TokenUsage(input_tokens=100, server_tools={"code_execution_requests": 1})
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_usd == Decimal("0.0004")
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("server_tools.code_execution_requests",)


def test_a_bucket_without_a_rate_is_named(table: PriceTable) -> None:
    """For a model with an input rate only, output makes the cost partial, and no output does not."""
    priced = table.price("acme:input-only", TokenUsage(input_tokens=100, output_tokens=1), NOW)
    assert priced.cost_usd == Decimal("0.0001")
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("output_tokens",)
    assert table.price("acme:input-only", TokenUsage(input_tokens=100), NOW).cost_status is CostStatus.PRICED


@pytest.mark.parametrize(
    "model",
    ["acme:nobody", "nobody:plain", "acme:unknown-rates", "acme", "acme:", ":plain", "", "../acme:plain", "index:x"],
)
def test_an_unknown_model_has_no_cost(table: PriceTable, model: str) -> None:
    """Nor has one with unknown rates, nor an invalid model id: None, never 0, and every bucket is named."""
    usage = TokenUsage(input_tokens=1, cached_input_tokens=2, output_tokens=3, server_tools={"web_search": 1})
    priced = table.price(model, usage, NOW)
    assert priced.cost_usd is None
    assert priced.cost_status is CostStatus.UNPRICED
    assert priced.unpriced == ("input_tokens", "cached_input_tokens", "output_tokens", "server_tools.web_search")
    assert table.price(model, TokenUsage(), NOW).cost_usd is None


def test_free_is_zero(table: PriceTable) -> None:
    """A free model costs nothing, in any tier or batch."""
    usage = TokenUsage(input_tokens=100, output_tokens=10, reasoning_tokens=5, service_tier="scale")
    priced = table.price("acme:gratis", usage, NOW, batch=True)
    assert priced.cost_usd == 0
    assert priced.cost_status is CostStatus.FREE
    assert priced.unpriced == ()


def test_free_tokens_do_not_make_tools_free(table: PriceTable) -> None:
    """A tool without a price on a free model leaves the cost partial."""
    priced = table.price("acme:gratis", TokenUsage(input_tokens=1, server_tools={"web_search": 1}), NOW)
    assert priced.cost_usd == 0
    assert priced.cost_status is CostStatus.PARTIAL


def test_a_fee_per_request_is_added(table: PriceTable) -> None:
    """Five dollars per thousand requests are half a cent each."""
    assert table.price("acme:fee", TokenUsage(input_tokens=1000), NOW).cost_usd == Decimal("0.006")


@pytest.mark.parametrize(
    ("raw", "factor"), [(None, 1), ({}, 1), ({"geo": "global"}, 1), ({"geo": None}, 1), ({"geo": "us"}, Decimal("1.1"))]
)
def test_a_surcharge_multiplies_tokens_only(table: PriceTable, raw: dict[str, str] | None, factor: Decimal) -> None:
    """The place in the provider's usage object multiplies token rates, not tool calls."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100, server_tools={"web_search": 1}, speed="fast", raw=raw)
    priced = table.price("acme:full", usage, NOW)
    assert priced.cost_usd == Decimal("0.012") * factor + Decimal("0.01")


def test_an_unknown_place_is_no_standard_place(table: PriceTable) -> None:
    """A place without a factor is treated like an unknown variant."""
    priced = table.price("acme:plain", TokenUsage(input_tokens=1, raw={"geo": "moon"}), NOW)
    assert priced.cost_status is CostStatus.PARTIAL
    assert priced.unpriced == ("input_tokens", "geo=moon")
    assert priced.cost_usd is None


def test_no_usage_costs_nothing(table: PriceTable) -> None:
    """No usage costs nothing, except for the fee that some models charge per request."""
    priced = table.price("acme:plain", TokenUsage(), NOW)
    assert priced.cost_usd == 0
    assert priced.cost_status is CostStatus.PRICED


@given(
    usage=st.builds(
        TokenUsage,
        input_tokens=COUNTS,
        output_tokens=COUNTS,
        cached_input_tokens=COUNTS,
        cache_creation_input_tokens=COUNTS,
        service_tier=st.sampled_from([None, "flex", "scale"]),
        server_tools=st.dictionaries(st.sampled_from(["web_search", "other"]), st.integers(0, 9)),
    ),
    latency=st.none() | st.integers(0, 10_000),
)
def test_pricing_changes_only_the_cost_fields(table: PriceTable, usage: TokenUsage, latency: int | None) -> None:
    """It adds four fields; the result is valid and survives JSON."""
    priced = table.price("acme:full", usage, NOW)
    assert priced.model_dump(include=set(TokenUsage.model_fields)) == usage.model_dump()
    assert Usage.model_validate_json(priced.model_dump_json()) == priced
    assert Usage.model_validate(priced.model_dump(exclude_unset=True)) == priced
    again = table.price("acme:full", priced.model_copy(update={"latency_ms": latency}), NOW)
    assert again == priced.model_copy(update={"latency_ms": latency})


@given(first=COUNTS, second=COUNTS, out=COUNTS)
def test_costs_add_up_and_never_fall(table: PriceTable, first: int, second: int, out: int) -> None:
    """Two replies cost as much as one with the tokens of both, and more tokens cost more, except for tiers."""

    def price(tokens: int, output: int) -> Decimal:
        amount = table.price("acme:plain", TokenUsage(input_tokens=tokens, output_tokens=output), NOW).cost_usd
        assert amount is not None
        return amount

    assert price(first, out) + price(second, 0) == price(first + second, out)
    assert price(first, out) <= price(first + 1, out)


def test_the_callers_decimal_context_does_not_round(table: PriceTable) -> None:
    """A program that computes with three digits still gets the exact cost."""
    usage = TokenUsage(input_tokens=123_456_789, output_tokens=987_654_321)
    with decimal.localcontext(decimal.Context(prec=3)):
        priced = table.price("acme:plain", usage, NOW)
    assert str(priced.cost_usd) == "15185.185182"


def test_a_time_without_a_zone_is_refused(table: PriceTable) -> None:
    """Prices change at midnight in some zone, so the caller must name it."""
    with pytest.raises(RequestError, match="time zone"):
        table.price("acme:plain", TokenUsage(), datetime(2026, 1, 1))  # noqa: DTZ001
    assert issubclass(RequestError, DragomanError)


def test_any_time_zone_works(table: PriceTable) -> None:
    """Midnight in UTC counts, in whatever zone the time is given."""
    zone = timezone(timedelta(hours=-5))
    usage = TokenUsage(input_tokens=1_000_000)
    before = table.price(
        "acme:full", usage.model_copy(update={"input_tokens": 1000}), datetime(2026, 2, 28, 18, 59, tzinfo=zone)
    )
    after = table.price(
        "acme:full", usage.model_copy(update={"input_tokens": 1000}), datetime(2026, 2, 28, 19, tzinfo=zone)
    )
    assert (before.cost_usd, after.cost_usd) == (Decimal("0.01"), Decimal("0.004"))


def test_cost_defaults_to_now_and_the_bundled_table(tmp_path: Path) -> None:
    """The one-call form, with and without a table of one's own."""
    usage = TokenUsage(input_tokens=1000, output_tokens=100)
    assert cost(usage, "anthropic:claude-opus-5-5").cost_status is CostStatus.PRICED
    mine = write_table(tmp_path)
    assert cost(usage, "acme:plain", table=mine).pricing_version == mine.version


def test_a_batch_is_recorded_as_one(table: PriceTable) -> None:
    """So it can be priced as one again."""
    usage = TokenUsage(input_tokens=100, output_tokens=10)
    batch_priced = table.price("acme:full", usage, NOW, batch=True)
    tier_priced = table.price("acme:full", usage.model_copy(update={"service_tier": "batch"}), NOW)
    assert batch_priced.pricing_mode == tier_priced.pricing_mode == "batch"
    assert (
        batch_priced.cost_usd
        == tier_priced.cost_usd
        == table.price("acme:full", batch_priced, NOW).cost_usd
        == Decimal("0.0003")
    )
    assert table.price("acme:full", usage, NOW).pricing_mode is None


def test_unreadable_counts_make_the_cost_a_lower_bound(table: PriceTable) -> None:
    """Their tokens are in no bucket, so the price is incomplete."""
    usage = TokenUsage(input_tokens=1000, unread=("output_tokens",))
    priced = table.price("acme:plain", usage, NOW)
    assert (priced.cost_usd, priced.cost_status) == (Decimal("0.003"), CostStatus.PARTIAL)
    assert priced.unpriced == ("output_tokens",)


@pytest.mark.parametrize(
    ("reported", "warned"),
    [("0.003", False), ("0.00303", False), ("0.00297", False), ("0.0031", True), ("0.0029", True), ("0", True)],
)
def test_a_providers_own_cost_is_compared(
    table: PriceTable, caplog: pytest.LogCaptureFixture, reported: str, warned: bool
) -> None:
    """It stays next to ours; a difference over one percent is one warning with both, the first time only."""
    usage = TokenUsage(input_tokens=1000, reported_cost_usd=Decimal(reported))
    with caplog.at_level(logging.WARNING, "dragoman.pricing"):
        priced = table.price("acme:plain", usage, NOW)
        table.price("acme:plain", priced, NOW)
        table.reprice("acme:plain", usage, NOW)
    assert (priced.cost_usd, priced.reported_cost_usd) == (Decimal("0.003"), Decimal(reported))
    assert len(caplog.records) == warned
    if warned:
        assert f"acme:plain: the provider charges ${reported} for a reply" in caplog.text
        assert f"price table {table.version} says $0.003" in caplog.text


def test_a_lower_bound_can_only_be_too_high(table: PriceTable, caplog: pytest.LogCaptureFixture) -> None:
    """If ours is partial, a larger cost of the provider is expected."""
    usage = TokenUsage(input_tokens=1000, server_tools={"other": 1}, reported_cost_usd=Decimal("0.5"))
    with caplog.at_level(logging.WARNING, "dragoman.pricing"):
        assert table.price("acme:plain", usage, NOW).cost_status is CostStatus.PARTIAL
        assert not caplog.records
        table.price("acme:plain", usage.model_copy(update={"reported_cost_usd": Decimal("0.001")}), NOW)
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("reported", "ours", "part"),
    [("2", "1", "0.5"), ("1", "2", "-0.5"), ("0", "0", "0"), (None, "1", None), ("1", None, None)],
)
def test_the_difference_is_a_fraction_of_the_larger_cost(
    reported: str | None, ours: str | None, part: str | None
) -> None:
    """Positive if the provider charges more; None if one of them is unknown."""

    def decimal_of(text: str | None) -> Decimal | None:
        return None if text is None else Decimal(text)

    usage = Usage(reported_cost_usd=decimal_of(reported), cost_usd=decimal_of(ours))
    assert usage.cost_discrepancy == decimal_of(part)


def test_a_contradicting_total_is_reported() -> None:
    """The four buckets stay."""
    assert TokenUsage(input_tokens=5, output_tokens=5, reported_total=12).discrepancy == 2
    assert TokenUsage(input_tokens=5, output_tokens=5, reported_total=10).discrepancy == 0
    assert TokenUsage(input_tokens=5, output_tokens=5).discrepancy is None


def test_the_cost_of_a_broken_reply_is_a_lower_bound() -> None:
    """Priced becomes partial; other statuses stay."""
    priced = Usage(cost_usd=Decimal(1), cost_status=CostStatus.PRICED)
    bound = priced.as_lower_bound()
    assert (bound.cost_usd, bound.cost_status, bound.unpriced) == (Decimal(1), CostStatus.PARTIAL, ("output_tokens",))
    assert bound.as_lower_bound() is bound
    free = Usage(cost_usd=Decimal(0), cost_status=CostStatus.FREE)
    assert free.as_lower_bound() is free


def test_swapped_arguments_are_reported() -> None:
    """The usage comes before its model."""
    with pytest.raises(TypeError, match="must be a usage, not a str"):
        cost("openai:o3", Usage(input_tokens=1))  # type: ignore[arg-type]


def test_a_priced_usage_is_the_one_that_validation_gives() -> None:
    """All fields in order, of which those are set that the counts and the price have."""
    counts = TokenUsage(input_tokens=3, raw={"a": 1})
    priced = price_table().price("anthropic:claude-sonnet-4-6", counts, NOW)
    set_here = {name: getattr(priced, name) for name in ("cost_usd", "cost_status", "unpriced", "pricing_version")}
    assert priced.model_dump_json() == Usage(**{**counts.model_dump(), **set_here}).model_dump_json()
    assert priced.model_fields_set == {"input_tokens", "raw", *set_here}
