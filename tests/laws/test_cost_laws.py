"""The laws of costs, over the models of the bundled table."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing import UsageRecord, cost, price_table, reprice
from dragoman.session.cost import total_cost
from tests.unit.pricing.tables import NOW

PROVIDERS = ("anthropic", "bedrock", "deepseek", "google", "groq", "mistral", "openai", "xai")
BUCKETS = ("input_tokens", "cached_input_tokens", "cache_creation_input_tokens", "output_tokens")
COUNTS = st.integers(0, 10**6) | st.integers(0, 1000)
EXACT = (CostStatus.PRICED, CostStatus.FREE)


@cache
def models() -> tuple[str, ...]:
    """Models that the table finds by their own ids, with current prices."""
    table = price_table()
    return tuple(
        model
        for provider in PROVIDERS
        for name in table.models(provider)
        if (row := table.find(model := f"{provider}:{name}", NOW)) is not None and "input" in row.rates
    )


@cache
def flat_models() -> tuple[str, ...]:
    """Those whose rates do not depend on the length of the prompt, and that charge nothing per request."""
    rows = {model: price_table().find(model, NOW) for model in models()}
    return tuple(model for model, row in rows.items() if row is not None and not row.thresholds and not row.request)


@st.composite
def usages(draw: st.DrawFn) -> TokenUsage:
    """Disjoint buckets with subsets that fit into them."""
    counts = {bucket: draw(COUNTS) for bucket in BUCKETS}
    return TokenUsage(
        **counts,
        reasoning_tokens=draw(st.none() | st.integers(0, counts["output_tokens"])),
        audio_input_tokens=draw(st.none() | st.integers(0, counts["input_tokens"])),
        cached_audio_input_tokens=draw(st.none() | st.integers(0, counts["cached_input_tokens"])),
        cache_creation_1h_input_tokens=draw(st.none() | st.integers(0, counts["cache_creation_input_tokens"])),
    )


def sum_of(first: TokenUsage, second: TokenUsage) -> TokenUsage:
    names = (
        *BUCKETS,
        "reasoning_tokens",
        "audio_input_tokens",
        "cached_audio_input_tokens",
        "cache_creation_1h_input_tokens",
    )
    return TokenUsage(**{name: (getattr(first, name) or 0) + (getattr(second, name) or 0) for name in names})


def price(model: str, usage: TokenUsage, at: datetime = NOW) -> Decimal:
    priced = price_table().price(model, usage, at)
    assert priced.cost_usd is not None
    return priced.cost_usd


def replies(spent: list[tuple[str, TokenUsage]]) -> Iterator[Message]:
    for model, usage in spent:
        priced = price_table().price(model, usage, NOW)
        metadata = MessageMetadata(model=model, provider=model.partition(":")[0], usage=priced)
        yield Message.assistant("Hi", metadata=metadata, created_at=NOW)


def test_there_are_hundreds_of_models() -> None:
    """So the laws are not about a single one."""
    assert len(models()) > 350
    assert len(flat_models()) > 300


@given(first=usages(), second=usages(), drawn=st.data())
def test_costs_are_additive(first: TokenUsage, second: TokenUsage, drawn: st.DataObject) -> None:
    """Two replies cost what one with the tokens of both would, if the prompt's length makes no difference."""
    model = drawn.draw(st.sampled_from(flat_models()))
    assert price(model, first) + price(model, second) == price(model, sum_of(first, second))


@given(usage=usages(), drawn=st.data(), more=st.integers(1, 10**6))
def test_costs_are_monotone(usage: TokenUsage, drawn: st.DataObject, more: int) -> None:
    """More tokens in any bucket never cost less, also with tiers."""
    model = drawn.draw(st.sampled_from(models()))
    for bucket in BUCKETS:
        raised = usage.model_copy(update={bucket: getattr(usage, bucket) + more})
        assert price(model, raised) >= price(model, usage), bucket


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_usage_costs_nothing(provider: str) -> None:
    """No usage costs nothing, except for the fee that some models charge per request."""
    for model in models():
        if model.startswith(f"{provider}:"):
            row = price_table().find(model, NOW)
            assert row is not None
            assert price(model, TokenUsage()) == (row.request or 0) / 1000


@given(
    spent=st.lists(
        st.tuples(st.sampled_from(["openai:gpt-4.1", "ollama:x", "xai:grok-4.3", "x:y"]), usages()), max_size=6
    ),
    drawn=st.data(),
)
def test_the_order_makes_no_difference(spent: list[tuple[str, TokenUsage]], drawn: st.DataObject) -> None:
    """Neither to single costs, nor to the sum, nor to whether it is known."""
    shuffled = drawn.draw(st.permutations(spent))
    one, other = total_cost(replies(spent)), total_cost(replies(shuffled))
    assert (one.usd, one.status, one.by_model) == (other.usd, other.status, other.by_model)


@given(usage=usages(), minutes=st.integers(0, 10**6), drawn=st.data(), batch=st.booleans())
def test_repricing_is_idempotent(usage: TokenUsage, minutes: int, drawn: st.DataObject, batch: bool) -> None:
    """Whatever was there before, at any time, for any model: the second time changes nothing."""
    model = drawn.draw(st.sampled_from(models()))
    as_model = drawn.draw(st.none() | st.sampled_from(models()))
    at = NOW - timedelta(minutes=minutes)
    before = Usage(**dict(usage), cost_usd=Decimal(99), cost_status=CostStatus.PRICED, pricing_version="old")
    (once,) = reprice([UsageRecord(model, before, at, batch)], as_model=as_model)
    (twice,) = reprice([UsageRecord(model, once, at, batch)], as_model=as_model)
    assert once == twice
    assert (before.cost_usd, before.pricing_version) == (Decimal(99), "old")


@given(usage=usages(), drawn=st.data())
def test_unknown_is_never_zero(usage: TokenUsage, drawn: st.DataObject) -> None:
    """A cost of 0 is free, or of no usage; otherwise an unknown cost is None, and an exact one names no gap."""
    model = drawn.draw(st.sampled_from((*models(), "nobody:x", "openai:no-such-model", "ollama:x", "vercel:y")))
    tier = drawn.draw(st.none() | st.sampled_from(["flex", "priority", "scale", "batch", "odd"]))
    priced = price_table().price(model, usage.model_copy(update={"service_tier": tier}), NOW)
    if priced.cost_status in EXACT:
        assert priced.cost_usd is not None
        assert priced.unpriced == ()
        row = price_table().find(model, NOW)
        assert priced.cost_usd > 0 or usage.total_tokens == 0 or row is None or row.free or 0 in _amounts(row.rates)
    elif priced.cost_status is CostStatus.PARTIAL:
        assert priced.unpriced
    else:
        assert priced.cost_usd is None


def _amounts(rates: object) -> list[Decimal]:
    assert isinstance(rates, dict)
    return [rate.amount for rate in rates.values()]


@given(
    field=st.sampled_from([*BUCKETS, "reasoning_tokens", "reported_total", "cached_audio_input_tokens"]),
    value=st.sampled_from([-1, 2**63, 1.5, float("nan"), float("inf"), "many", [3]]),
)
def test_invalid_counts_are_refused(field: str, value: object) -> None:
    """In a usage made by a program: no invalid count gets into a sum."""
    with pytest.raises(ValueError, match=field):
        TokenUsage.model_validate({field: value})


@given(usage=usages())
def test_every_cost_has_a_version(usage: TokenUsage) -> None:
    """It names its table, in the one-call form too."""
    for model in ("anthropic:claude-sonnet-4-6", "nobody:x"):
        assert cost(usage, model, NOW).pricing_version == price_table().version
