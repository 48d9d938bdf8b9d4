"""Token counts that add up, exact money, and events with their names."""

import dataclasses
import json
from decimal import Decimal
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from dragoman.canonical.blocks import replace_fields
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent, TextDelta, ThinkingDelta
from dragoman.canonical.message import Message
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from tests.tables import each_row
from tests.unit.canonical.samples import ROUTING

BUCKETS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_creation_input_tokens")
COUNTS = [name for name in TokenUsage.model_fields if name.endswith("tokens")]


def test_the_four_buckets_are_disjoint_and_subsets_never_add() -> None:
    """The total is the sum of the buckets, the prompt is all but the output."""
    usage = TokenUsage(
        input_tokens=1, output_tokens=20, cached_input_tokens=300, cache_creation_input_tokens=4000,
        reasoning_tokens=7, cache_creation_1h_input_tokens=7, audio_input_tokens=7, image_output_tokens=7,
    )  # fmt: skip
    assert usage.prompt_tokens == 4301
    assert usage.total_tokens == 4321


def test_unknown_counts_are_none() -> None:
    """Buckets start at 0, everything else at None: an unknown price is never 0."""
    usage = Usage()
    assert {getattr(usage, name) for name in BUCKETS} == {0}
    assert {getattr(usage, name) for name in set(COUNTS) - set(BUCKETS)} == {None}
    assert (usage.cost_usd, usage.reported_cost_usd, usage.latency_ms, usage.pricing_version) == (None,) * 4
    assert usage.cost_status is CostStatus.UNPRICED


@each_row("count", [-1, 1.5, float("nan"), float("inf"), 2**63, "many", [1]])
@each_row("field", [*COUNTS, "latency_ms", "server_tools"])
def test_counts_are_finite_natural_numbers(field: str, count: Any) -> None:
    """Negative, fractional, infinite and huge ones are refused."""
    with pytest.raises(ValidationError):
        Usage.model_validate({field: {"web_search": count} if field == "server_tools" else count})


class MeasuredUsage(Usage):
    region: str = "eu"


def test_a_usage_with_other_fields_is_the_one_that_validation_gives() -> None:
    """Of the same class, with all fields in order, those of a newer version included; the original is as before."""
    figures = {"cost_usd": Decimal("0.5"), "latency_ms": 7}
    newer = Usage.model_validate({"input_tokens": 3, "carbon": 2}, context={"reading": True}, extra="allow")
    for usage in (Usage(speed="fast", latency_ms=1), MeasuredUsage(region="us"), newer):
        before = usage.model_dump_json()
        extended, kind = replace_fields(usage, figures), type(usage)
        assert type(extended) is kind
        assert (
            extended.model_dump_json()
            == kind.model_validate({**usage.model_dump(), **figures}, extra="allow").model_dump_json()
        )
        assert extended.model_fields_set == usage.model_fields_set | figures.keys()
        assert usage.model_dump_json() == before


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "-0.01", "free", float("nan"), float("-inf")])
def test_a_cost_is_finite_and_not_negative(cost: Any) -> None:
    with pytest.raises(ValidationError):
        Usage(cost_usd=cost)


@pytest.mark.parametrize("cost", ["0.000654", "0.1", "0", "12345678901234567890.000000000001"])
def test_money_is_serialised_as_a_string(cost: str) -> None:
    """Exact to the last digit, which no JSON number is."""
    usage = Usage(cost_usd=Decimal(cost))
    assert json.loads(usage.model_dump_json())["cost_usd"] == cost
    assert Usage.model_validate_json(usage.model_dump_json()).cost_usd == Decimal(cost)


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan")])
def test_confidence_is_between_0_and_1(confidence: float) -> None:
    """Ends included."""
    with pytest.raises(ValidationError):
        RoutingDecisionRecord.model_validate({**ROUTING, "confidence": confidence})


def test_a_routing_record_names_its_mode() -> None:
    """The routing chain has six modes. Source: docs/reference/routing-and-events.md#decision-record."""
    assert [str(mode) for mode in RoutingMode] == ["override", "manual", "rule", "pattern", "delegate", "default"]
    record = RoutingDecisionRecord(mode=RoutingMode.RULE, chosen_model="a:b", reason="r")
    assert (record.rule_name, record.confidence, record.alternatives_considered) == (None, None, ())


def test_events_have_their_names() -> None:
    """The nine names in a possible order. Source: docs/reference/canonical.md#events."""
    assert [kind.type for kind in get_args(StreamEvent)] == [
        "message_start", "text_delta", "thinking_delta", "tool_use_start", "tool_use_input_delta", "tool_use_end",
        "usage_update", "message_complete", "error",
    ]  # fmt: skip


def test_events_are_slotted_and_frozen() -> None:
    """One is made per chunk: without a dictionary, and immutable."""
    event = TextDelta("01M", 0, "Hi")
    assert not hasattr(event, "__dict__")
    with pytest.raises(dataclasses.FrozenInstanceError):
        event.text = "Ho"  # type: ignore[misc]
    assert ThinkingDelta("01M", 0, "Hm.").signature is None


def test_the_last_events_carry_the_message() -> None:
    message = Message.assistant("Hi")
    assert MessageComplete(message).message is message
    assert ErrorEvent(ValueError("cut"), message).partial is message
