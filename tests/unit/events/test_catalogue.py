"""The payloads of events, their sensitivity, and what they never contain."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar, get_args

import pytest
from pydantic import ValidationError

from dragoman.adapter.errors import RateLimitError
from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata, StopReason
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.events import (
    CATALOGUE,
    Actor,
    Event,
    EventError,
    LlmCallCompleted,
    LlmCallFailed,
    Payload,
    PolicyEvaluation,
    Sensitivity,
    ToolCalled,
    TurnStarted,
    UnknownPayload,
    read_event,
)
from dragoman.routing import RoutingPolicy, Verdict
from tests.unit.events.payloads import PAYLOADS, STARTED

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def event(payload: Payload | UnknownPayload = STARTED, **fields: Any) -> Event:
    defaults: dict[str, Any] = {
        "id": "01J", "timestamp": NOW, "session_id": "sess_1", "actor": Actor.AGENT, "sensitivity": Sensitivity.PRIVATE,
    }  # fmt: skip
    return Event(payload=payload, **(defaults | fields))


def test_the_catalogue_is_that_of_the_specification() -> None:
    """Names, payloads and sensitivities are part of the contract. Events of policies and of swaps are our own."""
    assert {kind: payload.floor for kind, payload in CATALOGUE.items()} == {
        "llm.call_started": "private",
        "llm.call_completed": "pseudonymous",
        "llm.call_failed": "pseudonymous",
        "llm.reply_drifted": "pseudonymous",
        "tool.called": "private",
        "tool.completed": "private",
        "tool.failed": "private",
        "tool.input_invalid": "private",
        "route.decided": "pseudonymous",
        "model.swapped": "pseudonymous",
        "model.swap_refused": "pseudonymous",
        "policy.denied": "private",
        "policy.declassified": "private",
        "policy.headers_written": "private",
        "turn.started": "private",
        "turn.completed": "pseudonymous",
        "turn.cancelled": "pseudonymous",
    }
    assert {payload.type for payload in PAYLOADS} == set(CATALOGUE)


def test_routing_events_use_the_words_of_routing() -> None:
    """Policies and verdicts are defined in two packages, and agree."""
    fields = PolicyEvaluation.model_fields
    assert get_args(fields["policy"].annotation) == tuple(map(str, RoutingPolicy))
    assert get_args(fields["verdict"].annotation) == tuple(map(str, Verdict))


@pytest.mark.parametrize("payload", PAYLOADS, ids=lambda payload: payload.type)
def test_an_event_survives_its_json_line(payload: Payload) -> None:
    written = event(payload, turn_id="turn_1", parent_event_id="01H")
    assert read_event(written.to_json(), CATALOGUE) == written
    assert "\n" not in written.to_json()


def test_times_are_written_in_utc() -> None:
    moment = datetime(2026, 11, 21, 13, 0, 0, 5, tzinfo=timezone(timedelta(hours=1)))
    assert event(timestamp=moment).as_dict()["timestamp"] == "2026-11-21T12:00:00.000005+00:00"


def test_data_of_a_newer_version_are_kept() -> None:
    """Types, fields and values that this version does not know."""
    line = event().to_json()
    newer = read_event(line.replace('"is_worker"', '"is_newer":1,"is_worker"'), CATALOGUE)
    assert newer.payload.model_extra == {"is_newer": 1}  # type: ignore[union-attr]
    other = read_event(line.replace("llm.call_started", "llm.call_queued"), CATALOGUE)
    assert (other.type, isinstance(other.payload, UnknownPayload)) == ("llm.call_queued", True)
    assert read_event(other.to_json(), CATALOGUE) == other
    strange = read_event(line.replace('"estimated_input_tokens":12', '"estimated_input_tokens":"many"'), CATALOGUE)
    assert isinstance(strange.payload, UnknownPayload)
    words = read_event(line.replace('"agent"', '"robot"').replace('"private"', '"sealed"'), CATALOGUE)
    assert (words.actor, words.actor.is_known, words.sensitivity) == ("robot", False, "sealed")
    assert read_event(words.to_json(), CATALOGUE) == words
    assert not Sensitivity.USER_CONTROLLED.covers(words.sensitivity)
    assert Sensitivity.PRIVATE.covers(words.sensitivity)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "{}",
        '{"type":1,"payload":{}}',
        event().to_json()[:-1],
        event().to_json().replace('"agent"', "1"),
        event().to_json().replace('"agent"', '""'),
        event().to_json().replace("2026-11-21", "soon"),
        "[" * 100_000,
    ],
)
def test_invalid_events_are_refused(line: str) -> None:
    with pytest.raises(EventError):
        read_event(line, CATALOGUE)


@pytest.mark.parametrize("name", ["message.start", "text.delta", "thinking.delta", "tool.use_start", "x", "X.y", ".x"])
def test_stream_event_names_are_reserved(name: str) -> None:
    """Other types have two parts in lower case."""
    with pytest.raises(EventError):
        type("Delta", (Payload,), {"type": name, "__annotations__": {"type": ClassVar[str]}})


def test_a_sensitivity_level_covers_less_private_ones() -> None:
    levels = list(Sensitivity)
    assert [[one.covers(other) for other in levels] for one in levels] == [
        [True, True, True, True],
        [False, True, True, True],
        [False, False, True, True],
        [False, False, False, True],
    ]


def test_a_reply_event_reports_its_counts() -> None:
    """Unknown is None, not 0."""
    usage = Usage(input_tokens=8, output_tokens=42, cost_usd=Decimal("0.000654"), cost_status=CostStatus.PRICED)
    reply = Message.assistant(
        [ThinkingBlock(text="hm"), TextBlock(text="Hi"), ToolUseBlock(id="tu_1", name="look", input={})],
        metadata=MessageMetadata(
            model="a:x", provider="a", usage=usage, stop_reason=StopReason.TOOL_USE, team_id="team_1"
        ),
    )
    payload = LlmCallCompleted.of(reply, gateway_key_id="gk_1")
    assert (payload.input_tokens, payload.output_tokens, payload.cost_usd) == (8, 42, Decimal("0.000654"))
    assert (payload.produced_tool_calls, payload.produced_thinking_blocks) == (1, 1)
    assert (payload.stop_reason, payload.team_id, payload.gateway_key_id) == (StopReason.TOOL_USE, "team_1", "gk_1")
    silent = LlmCallCompleted.of(Message.assistant("Hi"))
    assert (silent.input_tokens, silent.cost_usd, silent.latency_ms) == (None, None, None)


def test_a_failure_event_reports_the_kind_without_the_providers_words() -> None:
    """They may quote the prompt."""
    error = RateLimitError("Slow down: you said 'my secret'", status=429, code="rate_limit_exceeded")
    error.attempts = (1, 2, 3)
    payload = LlmCallFailed.of("openai:gpt-6.1-sol", error, latency_ms=7)
    assert payload.error_message_redacted == "RateLimitError, status 429, code rate_limit_exceeded"
    assert (payload.provider, payload.error_class, payload.retry_count) == ("openai", "rate_limit", 2)


def test_a_call_event_reports_hash_and_size_of_its_input() -> None:
    """A call event reports hash and size of its input: the same for equal input, in any order of keys."""
    one = ToolCalled.of(ToolUseBlock(id="tu_1", name="look", input={"b": 1, "a": "é"}))
    other = ToolCalled.of(ToolUseBlock(id="tu_1", name="look", input={"a": "é", "b": 1}))
    written = '{"a":"é","b":1}'.encode()
    assert one == other
    assert (one.input_hash, one.input_size_bytes) == (hashlib.sha256(written).hexdigest(), len(written))
    assert one.side_effects is None


def test_a_turn_event_reports_the_hash_of_the_prompt() -> None:
    """And whether tools were called before."""
    called = Message.assistant([ToolUseBlock(id="tu_1", name="look", input={})])
    payload = TurnStarted.of(Message.user("Hi"), (called,), estimated_input_tokens=3)
    assert payload.user_message_hash == hashlib.sha256(b"Hi").hexdigest()
    assert (payload.has_images, payload.has_tool_calls_in_history, payload.estimated_input_tokens) == (False, True, 3)
    assert payload.user_message_text_redacted is None
    assert TurnStarted.of(None).user_message_hash == hashlib.sha256(b"").hexdigest()


def test_payloads_are_immutable_and_validated() -> None:
    """A misspelt field or a negative count is refused."""
    with pytest.raises(ValidationError):
        STARTED.model = "b:y"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        TurnStarted(user_message_hash="x", estimated_input_tokens=-1)
