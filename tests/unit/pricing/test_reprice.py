"""Past usage at the rates of another table."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.message import Message, MessageMetadata, MessageStatus
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing import PriceTable, UsageRecord, price_table, reprice
from tests.unit.pricing.tables import NOW, write_table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> PriceTable:
    return write_table(tmp_path_factory.mktemp("prices"))


def _reply(model: str | None, usage: Usage | None, at: datetime = NOW) -> Message:
    return Message.assistant("Hi", metadata=MessageMetadata(model=model, usage=usage), created_at=at)


def test_messages_are_repriced_at_their_own_time(table: PriceTable) -> None:
    """Each at the price of its day; only the cost fields change."""
    usage = Usage(input_tokens=1000, latency_ms=7, cost_usd=Decimal(99), pricing_version="old")
    old = _reply("acme:full", usage, datetime(2026, 2, 1, tzinfo=UTC))
    new = _reply("acme:full", usage)
    first, second = reprice([old, new], table)
    assert first.usage is not None
    assert second.usage is not None
    assert (first.usage.cost_usd, second.usage.cost_usd) == (Decimal("0.01"), Decimal("0.004"))
    assert first.usage.latency_ms == 7
    assert first.usage.pricing_version == table.version
    assert first.model_copy(update={"metadata": old.metadata}) == old


def test_messages_without_usage_or_model_stay(table: PriceTable) -> None:
    """The same objects are returned."""
    messages = [
        Message.user("Hi"),
        _reply("acme:plain", None),
        _reply(None, Usage(input_tokens=1, cost_usd=Decimal(1))),
    ]
    repriced = list(reprice(messages, table))
    assert all(after is before for after, before in zip(repriced, messages, strict=True))


def test_usages_are_repriced_too(table: PriceTable) -> None:
    """One for one and in order, batches as batches; a model that is no longer in the table has no price."""
    spent = [
        UsageRecord("acme:plain", TokenUsage(input_tokens=1000), NOW),
        UsageRecord("acme:full", TokenUsage(input_tokens=1000), NOW, batch=True),
        UsageRecord("acme:gone", Usage(input_tokens=1000, cost_usd=Decimal(1), cost_status=CostStatus.PRICED), NOW),
    ]
    costs = [usage.cost_usd for usage in reprice(spent, table)]
    assert costs == [Decimal("0.003"), Decimal("0.002"), None]


def test_the_bundled_table_is_the_default() -> None:
    (usage,) = reprice([UsageRecord("anthropic:claude-sonnet-4-6", TokenUsage(input_tokens=8, output_tokens=42), NOW)])
    assert usage.cost_usd == Decimal("0.000654")
    assert usage.pricing_version == price_table().version
    (again,) = reprice([UsageRecord("anthropic:claude-sonnet-4-6", usage, NOW)], version=price_table().version)
    assert again == usage


@given(
    counts=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=5),
    model=st.sampled_from(["acme:plain", "acme:full", "acme:gratis", "acme:nobody"]),
)
def test_repricing_twice_changes_nothing(table: PriceTable, counts: list[tuple[int, int]], model: str) -> None:
    """Old costs are not read, so the second result equals the first."""
    messages = [_reply(model, Usage(input_tokens=i, output_tokens=o, cost_usd=Decimal(i))) for i, o in counts]
    once = list(reprice(messages, table))
    assert list(reprice(once, table)) == once


def test_one_time_for_all(table: PriceTable) -> None:
    """What the same replies would have cost on another day."""
    spent = [UsageRecord("acme:full", TokenUsage(input_tokens=1000), NOW), UsageRecord("acme:plain", TokenUsage(), NOW)]
    costs = [usage.cost_usd for usage in reprice(spent, table, at=datetime(2026, 2, 1, tzinfo=UTC))]
    assert costs == [Decimal("0.01"), 0]


def test_another_model_of_the_same_provider(table: PriceTable) -> None:
    """Its tiers have the same names, so the variant of the reply applies."""
    usage = TokenUsage(input_tokens=1000, service_tier="flex")
    (plain,) = reprice([UsageRecord("acme:plain", usage, NOW)], table)
    assert plain.cost_status is CostStatus.PARTIAL
    (full,) = reprice([UsageRecord("acme:plain", usage, NOW)], table, as_model="acme:full")
    assert full.cost_usd == Decimal("0.001")


def test_a_model_of_another_provider_at_its_standard_prices(table: PriceTable) -> None:
    """One provider's words mean nothing at another; a batch is a batch everywhere."""
    usage = TokenUsage(input_tokens=1000, service_tier="scale", speed="fast", raw={"geo": "us"})
    (standard,) = reprice([UsageRecord("other:x", usage, NOW)], table, as_model="acme:full")
    assert (standard.cost_usd, standard.service_tier, standard.speed) == (Decimal("0.004"), "scale", "fast")
    (batched,) = reprice([UsageRecord("other:x", usage, NOW, batch=True)], table, as_model="acme:full")
    assert batched.cost_usd == Decimal("0.002")


def test_messages_keep_the_model_that_replied(table: PriceTable) -> None:
    """as_model asks a question and corrects nothing."""
    (message,) = reprice([_reply("other:x", Usage(input_tokens=1000))], table, as_model="acme:plain")
    assert message.metadata.model == "other:x"
    assert message.usage is not None
    assert message.usage.cost_usd == Decimal("0.003")


def test_a_batch_stays_a_batch(table: PriceTable) -> None:
    (spent,) = reprice([UsageRecord("acme:full", TokenUsage(input_tokens=1000), NOW, batch=True)], table)
    (message,) = reprice([_reply("acme:full", spent)], table)
    assert message.usage == spent


@pytest.mark.parametrize("status", [MessageStatus.ERROR, MessageStatus.CANCELLED])
def test_a_broken_reply_stays_a_lower_bound(table: PriceTable, status: MessageStatus) -> None:
    """More may be billed than was counted when it broke off."""
    metadata = MessageMetadata(model="acme:plain", usage=Usage(input_tokens=1000), status=status)
    (message,) = reprice([Message.assistant("Hi", metadata=metadata, created_at=NOW)], table)
    assert message.usage is not None
    assert (message.usage.cost_usd, message.usage.cost_status) == (Decimal("0.003"), CostStatus.PARTIAL)
    assert list(reprice([message], table)) == [message]


def test_other_objects_are_named() -> None:
    """When their turn comes, and not as a missing attribute."""
    with pytest.raises(TypeError, match="UsageRecords, not a Usage"):
        list(reprice([Usage()]))  # type: ignore[call-overload]
