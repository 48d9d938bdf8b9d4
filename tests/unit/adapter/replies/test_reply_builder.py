"""Builds messages from decoded content: ids, cost, time, and the sum of the deltas."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.replies.reply_builder import ReplyBuilder
from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import (
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import Channel, Message, MessageMetadata, MessageStatus, Role, StopReason
from dragoman.canonical.message_fields import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from tests.unit.adapter.replies.fold_deltas import fold_deltas

NOW = datetime(2026, 11, 21, 8, 0, 1, tzinfo=UTC)


class Prices:
    """A table that knows one model, at a dollar a call."""

    def __init__(self, known: str) -> None:
        self.known = known
        self.requested: list[str] = []

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        assert at == NOW
        self.requested.append(model_id)
        if model_id != self.known:
            return Usage(**dict(usage))
        return Usage(
            **dict(usage), cost_usd=Decimal(1), cost_status=CostStatus.PRICED, pricing_version="2026-11", unpriced=()
        )


def reply(**fields: Any) -> ReplyBuilder:
    minted = "01M7YJFK7P2ZFT4X2CGGZPP6M5"
    context = RequestContext(model="toy:m", session_id="sess_1", clock=lambda: NOW, new_id=lambda: minted, **fields)
    return ReplyBuilder(context, "toy")


def message(
    of: ReplyBuilder, *content: TextBlock | ToolUseBlock, model: str | None = "m-2026", usage: TokenUsage | None = None
) -> Message:
    return of.build(content, model=model, stop_reason=StopReason.END_TURN, usage=usage, raw={"id": "r1"})


def test_a_message_records_where_it_comes_from() -> None:
    """It has ids and time from the context, the served model, and the provider's raw fields under its name."""
    routing = RoutingDecisionRecord(mode=RoutingMode.MANUAL, chosen_model="toy:m", reason="asked for")
    built = message(reply(routing=routing, user_id="usr_1", team_id="team_1"), TextBlock(text="Hi"))
    assert (built.id, built.session_id, built.role) == ("01M7YJFK7P2ZFT4X2CGGZPP6M5", "sess_1", Role.ASSISTANT)
    assert built.created_at == NOW
    assert (built.metadata.model, built.metadata.provider) == ("toy:m-2026", "toy")
    assert (built.metadata.routing, built.metadata.user_id, built.metadata.team_id) == (routing, "usr_1", "team_1")
    assert built.metadata.stop_reason is StopReason.END_TURN
    assert built.metadata.provider_raw == {"by": "toy", "id": "r1"}
    assert built.metadata.usage is None


def test_a_reply_without_a_model_name_has_the_requested_one() -> None:
    """Some replies name no model."""
    assert message(reply(), model=None).metadata.model == "toy:m"


def test_a_reply_can_be_truncated_or_have_a_channel() -> None:
    """The adapter decides both."""
    cut = reply().build(
        (), model=None, stop_reason=None, usage=None, raw={}, status=MessageStatus.ERROR, channel=Channel.COMMENTARY
    )
    assert (cut.metadata.status, cut.channel) == (MessageStatus.ERROR, Channel.COMMENTARY)


def test_a_call_has_one_id_for_its_place() -> None:
    """By its place in the reply; the message keeps the provider's own ids, for sending it back."""
    of = reply()
    first, second, third = of.call_id(0, "call_1"), of.call_id(1, "call_1"), of.call_id(2, None)
    assert of.call_id(0, "call_1") == first
    assert len({first, second, third}) == 3
    built = message(of, *(ToolUseBlock(id=one, name="f") for one in (first, second, third)))
    assert built.metadata.provider_raw == {"by": "toy", "id": "r1", "tool_ids": {first: "call_1", second: "call_1"}}


class TestCost:
    usage = TokenUsage(input_tokens=1)

    def test_without_a_price_table_there_is_no_price(self) -> None:
        """The cost is None, and its status is unpriced."""
        priced = message(reply(), usage=self.usage).metadata.usage
        assert priced == Usage(input_tokens=1)
        assert priced.cost_usd is None

    @pytest.mark.parametrize(("known", "cost"), [("toy:m-2026", 1), ("toy:m", None)])
    def test_the_model_that_answered_is_priced(self, known: str, cost: int | None) -> None:
        """A reply is billed at the rates of the model that gave it, never at those of the one that was asked."""
        prices = Prices(known)
        priced = message(reply(prices=prices), usage=self.usage).metadata.usage
        assert priced is not None
        assert (prices.requested, priced.cost_usd) == (["toy:m-2026"], cost)

    @pytest.mark.parametrize("prices", [None, Prices("toy:m-2026")])
    @pytest.mark.parametrize(("seconds", "latency"), [(1.2344, 1234), (-5, 0)])
    def test_latency_is_measured_from_the_request(self, prices: Prices | None, seconds: float, latency: int) -> None:
        """In milliseconds; a clock that is set back gives no negative latency."""
        of = reply(started_at=NOW - timedelta(seconds=seconds), prices=prices)
        priced = message(of, usage=self.usage).metadata.usage
        assert priced is not None
        assert priced.latency_ms == latency


DELTAS = (
    MessageStart("m1", "m"),
    ThinkingDelta("m1", 0, "H"),
    ThinkingDelta("m1", 0, "m.", "c2ln"),
    TextDelta("m1", 1, "He"),
    ToolUseStart("m1", 2, "tu_1", "f"),
    TextDelta("m1", 1, "llo"),
    ToolUseInputDelta("m1", 2, "tu_1", '{"a":'),
    ToolUseEnd("m1", 2, "tu_1", {"a": 1}),
    ToolUseStart("m1", 3, "tu_2", "g"),
)


def test_deltas_add_up_to_blocks() -> None:
    """In the order of their indices; an unfinished call is left out."""
    assert fold_deltas(DELTAS) == (
        ThinkingBlock(text="Hm.", signature="c2ln"),
        TextBlock(text="Hello"),
        ToolUseBlock(id="tu_1", name="f", input={"a": 1}),
    )
    assert fold_deltas(()) == ()


def test_ids_and_names_of_a_reply_have_caps() -> None:
    """A reply with a megabyte of id or name is malformed, whole or streamed."""
    with pytest.raises(MalformedReplyError, match="an id of a call is over 65536 characters"):
        reply().call_id(0, "x" * 65_537)
    assert reply().call_id(0, "x" * 65_536)
    call = ToolUseBlock(id="tu_1", name="f", input={})
    for content, model, problem in (
        ((call.model_copy(update={"name": "f" * 4_097}),), "m", "the name of a tool"),
        ((), "m" * 4_097, "the name of the model"),
        ((call,) * 1_001, "m", "calls tools over 1000 times"),
    ):
        with pytest.raises(MalformedReplyError, match=problem):
            reply().build(content, model=model, stop_reason=None, usage=None, raw={})


def test_a_reply_is_the_one_that_validation_gives() -> None:
    """Its fields have the same order, and it owns its notes."""
    for name, note in (("m", {"a": [1, {"b": "c"}]}), ("模型", {"a": "ü"})):
        raw: dict[str, Any] = {"id": "x", "note": note}
        message = reply().build((TextBlock(text="Hi"),), model=name, stop_reason=None, usage=TokenUsage(), raw=raw)
        validated = Message(**{**message.__dict__, "metadata": MessageMetadata(**message.metadata.__dict__)})
        assert message == validated
        assert message.model_dump_json() == validated.model_dump_json()
        raw["note"]["a"] = "changed"
        assert message.metadata.provider_raw is not None
        assert message.metadata.provider_raw["note"] != raw["note"]


@pytest.mark.parametrize(("name", "raw", "field"), [("\ud800", {}, "model"), ("m", {"a": "\ud800"}, "provider_raw")])
def test_a_reply_that_no_message_holds_is_refused(name: str, raw: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        reply().build((), model=name, stop_reason=None, usage=None, raw=raw)
