"""What an event bus is told of the calls of a model."""

from collections.abc import Callable, Generator
from decimal import Decimal
from typing import Any

import pytest

from dragoman.adapter.errors import EventOverflowError, RateLimitError
from dragoman.adapter.replies.drift import with_drift
from dragoman.attempt.reports import CallReports, EventIds
from dragoman.canonical.message import Message, MessageMetadata, StopReason
from dragoman.canonical.usage import CostStatus, Usage
from dragoman.effects import Abandoned, Broken, Failed, Replied, SendOutcome, drive
from dragoman.policy.errors import PolicyDeniedError

MODEL = "anthropic:claude-haiku-4-5"
IDS = EventIds("sess_1", "turn_1")
USAGE = Usage(
    input_tokens=5, output_tokens=7, cached_input_tokens=2, cost_usd=Decimal("0.5"), cost_status=CostStatus.PRICED
)
REPLY = Message.assistant("Hi").model_copy(update={"metadata": MessageMetadata(model=MODEL, provider="anthropic")})
ERROR = RateLimitError("slow down", provider="anthropic")


class FakeBus:
    def __init__(self, *, overflows: bool = False) -> None:
        self.events: list[dict[str, Any]] = []
        self._overflows = overflows

    def emit(self, make: Callable[[], Any], *, session_id: str, turn_id: str | None) -> None:
        if self._overflows:
            raise EventOverflowError("a handler was too slow")
        assert (session_id, turn_id) == IDS
        payload = make()
        self.events.append({"type": payload.type, **payload.model_dump(exclude_defaults=True)})

    def reports(self) -> CallReports:
        bus: Any = self
        return CallReports(bus, MODEL)


def ending(outcome: SendOutcome | BaseException) -> Generator[Any, Any, SendOutcome]:
    yield from ()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def follow(outcome: SendOutcome | BaseException) -> list[dict[str, Any]]:
    bus = FakeBus()
    work = bus.reports().follow(IDS, 12, ending(outcome), lambda: 250)
    if isinstance(outcome, BaseException):
        with pytest.raises(type(outcome)):
            drive(work)
    else:
        assert drive(work) is outcome
    started, *events = bus.events
    assert started.pop("request_id")
    assert started == {
        "type": "llm.call_started", "model": MODEL, "provider": "anthropic", "estimated_input_tokens": 12,
    }  # fmt: skip
    return events


def test_a_reply_is_completed() -> None:
    (event,) = follow(Replied(REPLY))
    assert (event["type"], event["model"]) == ("llm.call_completed", MODEL)


def test_unknown_names_of_a_reply_are_drift() -> None:
    _, event = follow(Replied(with_drift(REPLY, "field", ["sparkle"])))
    assert event == {
        "type": "llm.reply_drifted", "model": MODEL, "provider": "anthropic", "names": ("field:sparkle",),
    }  # fmt: skip


@pytest.mark.parametrize("outcome", [Failed(ERROR), Broken(ERROR, None, False), ERROR])
def test_an_error_is_a_failure(outcome: SendOutcome | BaseException) -> None:
    (event,) = follow(outcome)
    assert (event["type"], event["error_class"], event["latency_ms"]) == ("llm.call_failed", "rate_limit", 250)


def test_a_caller_who_leaves_is_a_failure_if_it_is_raised() -> None:
    (event,) = follow(KeyboardInterrupt())
    assert (event["type"], event["error_class"]) == ("llm.call_failed", "cancelled")
    assert follow(Abandoned()) == []


@pytest.mark.parametrize("status", [CostStatus.PRICED, CostStatus.FREE, CostStatus.PARTIAL, CostStatus.UNPRICED])
def test_the_cost_of_a_turn_is_exact_or_unknown(status: CostStatus) -> None:
    bus = FakeBus()
    usage = USAGE.model_copy(update={"cost_status": status})
    bus.reports().end_turn(IDS, usage, calls=3, stop_reason=StopReason.END_TURN, seconds=1.5)
    (event,) = bus.events
    cost = event.pop("total_cost_usd", None)
    assert cost == (Decimal("0.5") if status in (CostStatus.PRICED, CostStatus.FREE) else None)
    assert event == {
        "type": "turn.completed",
        "stop_reason": StopReason.END_TURN,
        "llm_call_count": 3,
        "tool_call_count": 0,
        "total_input_tokens": 7,
        "total_output_tokens": 7,
        "wall_time_seconds": 1.5,
    }


def test_a_turn_without_usage_has_no_totals() -> None:
    bus = FakeBus()
    bus.reports().end_turn(IDS, None, calls=1, stop_reason=None, seconds=1.0)
    assert bus.events == [
        {"type": "turn.completed", "llm_call_count": 1, "tool_call_count": 0, "wall_time_seconds": 1.0}
    ]


def test_what_a_policy_does_is_reported() -> None:
    bus = FakeBus()
    bus.reports().deny(IDS, PolicyDeniedError("request", "labels", "forbidden", "not for this model"))
    bus.reports().write_headers(IDS, ["x-trace", "x-team"])
    bus.reports().cancel_turn(IDS)
    assert bus.events == [
        {
            "type": "policy.denied", "hook": "request", "plugin": "labels", "code": "forbidden",
            "reason": "not for this model",
        },
        {"type": "policy.headers_written", "provider": "anthropic", "names": ("x-trace", "x-team")},
        {
            "type": "turn.cancelled", "reason": "user_cancel", "partial_llm_calls": 1,
        },
    ]  # fmt: skip


def test_a_slow_handler_stops_no_call() -> None:
    reports = FakeBus(overflows=True).reports()
    assert drive(reports.follow(IDS, 1, ending(Replied(REPLY)), lambda: None)) == Replied(REPLY)


def test_without_a_bus_nothing_is_made() -> None:
    reports = CallReports(None, MODEL)
    assert not reports.is_on
    assert drive(reports.follow(IDS, 1, ending(Replied(REPLY)), lambda: None)) == Replied(REPLY)
    reports.end_turn(IDS, USAGE, calls=1, stop_reason=None, seconds=1.0)
    reports.cancel_turn(IDS)
    reports.deny(IDS, PolicyDeniedError("request", "labels", "forbidden", "not for this model"))
    reports.write_headers(IDS, ["x-trace"])
    reports.emit(IDS, lambda: pytest.fail("made"))
