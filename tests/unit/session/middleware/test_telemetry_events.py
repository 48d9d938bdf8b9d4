"""The events that a session sends to its bus, their order, and the events that it never sends."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import MissingKeyError, RequestError, ServerError, SwapRefusedError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ImageBlock, MediaSource
from dragoman.canonical.message import Message, StopReason
from dragoman.events import CATALOGUE, Event, EventBus
from dragoman.routing import Router
from dragoman.session import tool
from tests.unit.session.drivers import ANTHROPIC, NOW, OLLAMA, Body, Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

SECRET = "the word that nobody may read"
FINE = handwritten_anthropic(f"Yes: {SECRET}.")
STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])


@tool(side_effects="read")
def look(at: str) -> str:
    """Look at something."""
    if at == "nothing":
        raise ValueError(SECRET)
    return f"{at}: {SECRET}"


class BusRecorder:
    """A strict bus, and all events that it received."""

    def __init__(self, bus: EventBus) -> None:
        self.bus = bus
        self._events: list[Event] = []
        bus.subscribe(self._events.append)

    @property
    def events(self) -> list[Event]:
        assert self.bus.flush(10)
        return self._events

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    def payload(self, kind: str, place: int = 0) -> Any:
        return [event.payload for event in self.events if event.type == kind][place]


@pytest.fixture
def recorder() -> Iterator[BusRecorder]:
    with EventBus(strict=True) as bus:
        yield BusRecorder(bus)


def failing_responses() -> list[Any]:
    error = {"type": "error", "error": {"type": "api_error", "message": SECRET}}
    return [httpx.Response(500, json=error) for _ in range(3)]


@STREAMED
def test_the_events_of_a_turn_are_in_order(driver: Driver, recorder: BusRecorder, streamed: bool) -> None:
    """All have the turn's id, and its first event as their cause. None has content of messages or tools."""
    provider = Wire([handwritten_anthropic(Call("t1", "look", {"at": SECRET})), FINE])
    session = driver.session({"anthropic": provider}, tools=[look], events=recorder.bus, user_id="ann")
    (driver.stream if streamed else driver.ask)(session, f"Say {SECRET}.")
    assert recorder.types == [
        "turn.started", "route.decided",
        "llm.call_started", "llm.call_completed", "tool.called", "tool.completed",
        "llm.call_started", "llm.call_completed",
        "turn.completed",
    ]  # fmt: skip
    (turn_id,) = {event.turn_id for event in recorder.events}
    assert turn_id is not None
    assert {event.session_id for event in recorder.events} == {"sess_1"}
    started, called = recorder.events[0], recorder.events[4]
    causes = [event.parent_event_id for event in recorder.events]
    assert causes == [None, *[started.id] * 4, called.id, *[started.id] * 3]
    assert SECRET not in "".join(event.to_json() for event in recorder.events)
    assert (recorder.payload("tool.called").tool_name, str(recorder.payload("tool.called").side_effects)) == (
        "look",
        "read",
    )


def test_the_end_event_has_the_totals(driver: Driver, recorder: BusRecorder) -> None:
    """Calls, tokens and dollars of this turn alone, as the session counts them."""
    provider = Wire([FINE, handwritten_anthropic(Call("t1", "look", {"at": "it"})), FINE])
    session = driver.session({"anthropic": provider}, tools=[look], events=recorder.bus, user_id="ann", team_id="blue")
    driver.ask(session, "Hi")
    before = session.cost.usd or Decimal(0)
    driver.ask(session, "Look.")
    totals = recorder.payload("turn.completed", 1)
    assert (totals.llm_call_count, totals.tool_call_count, str(totals.stop_reason)) == (2, 1, "end_turn")
    assert (totals.total_input_tokens, totals.total_output_tokens) == (24, 10)
    assert totals.total_cost_usd == (session.cost.usd or Decimal(0)) - before
    assert (totals.user_id, totals.team_id, totals.wall_time_seconds) == ("ann", "blue", 0)
    assert len({event.turn_id for event in recorder.events}) == 2


def test_unknown_counts_are_not_reported_as_zero(driver: Driver, recorder: BusRecorder) -> None:
    """A model without a price costs an unknown sum."""
    unpriced = replace(FINE, body=FINE.body.replace(b"claude-opus-5-5", b"claude-unheard-of"))
    session = driver.session({"anthropic": Wire([unpriced])}, "anthropic:claude-unheard-of", events=recorder.bus)
    driver.ask(session, "Hi")
    assert recorder.payload("turn.completed").total_cost_usd is None
    assert recorder.payload("llm.call_completed").cost_usd is None


@STREAMED
def test_a_fallback_is_reported(driver: Driver, recorder: BusRecorder, streamed: bool) -> None:
    """A fallback is reported: the chosen model, its failure, the fallback with its reason, and the model
    that answered.
    """
    wires = {"anthropic": Wire(failing_responses()), "ollama": Wire([handwritten_ollama("Here.")])}
    session = driver.session(wires, router=Router(global_default=OLLAMA, clock=lambda: NOW), events=recorder.bus)
    (driver.stream if streamed else driver.ask)(session, "Hi")
    assert recorder.types == [
        "turn.started",
        "route.decided", *["llm.call_started", "llm.call_failed"] * 3,
        "route.decided", "llm.call_started", "llm.call_completed",
        "turn.completed",
    ]  # fmt: skip
    assert recorder.payload("route.decided").chosen_model == ANTHROPIC
    second = recorder.payload("route.decided", 1)
    assert (second.chosen_model, second.chain[second.winner_index].policy) == (OLLAMA, "global_default")
    assert second.chain[1].failure == "server_error"
    failed = recorder.payload("llm.call_failed", 2)
    assert (failed.model, failed.error_class, failed.retry_count) == (ANTHROPIC, "server_error", 2)
    assert SECRET not in failed.error_message_redacted


def test_a_failed_turn_is_reported_to_its_end(
    driver: Driver, recorder: BusRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped because of an error, which its last call has; a missing key is reported by its kind."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    session = driver.session({"anthropic": Wire(failing_responses())}, events=recorder.bus)
    with pytest.raises(ServerError):
        driver.ask(session, "Hi")
    keyless = driver.session({"anthropic": Wire([])}, events=recorder.bus)
    del keyless.providers["anthropic"]["api_key"]
    with pytest.raises(MissingKeyError):
        driver.ask(keyless, "Hi")
    picture = ImageBlock(source=MediaSource(kind="file_ref", data="none.png"), media_type="image/png")
    with pytest.raises(RequestError):
        driver.ask(session, Message.user([picture]))
    begun, attempt = ["turn.started", "route.decided"], ["llm.call_started", "llm.call_failed"]
    assert recorder.types == [
        *begun, *attempt * 3, "turn.completed", *begun, *attempt, "turn.completed", *begun, "turn.completed",
    ]  # fmt: skip
    assert {recorder.payload("turn.completed", place).stop_reason for place in range(3)} == {StopReason.ERROR}
    assert recorder.payload("llm.call_failed", 3).error_message_redacted == "MissingKeyError"
    assert recorder.payload("turn.started", 2).has_images


def test_an_abandoned_turn_is_reported_as_cancelled(driver: Driver, recorder: BusRecorder) -> None:
    """So is its open request; a complete reply is not."""
    session = driver.session({"anthropic": Wire([Body(FINE.frames), FINE])}, events=recorder.bus)
    driver.stream(session, "Hi", until="text_delta")
    assert recorder.types == ["turn.started", "route.decided", "llm.call_started", "llm.call_failed", "turn.cancelled"]
    assert recorder.payload("llm.call_failed").error_class == "cancelled"
    assert recorder.payload("turn.cancelled").partial_llm_calls == 1
    driver.stream(session, "Hi", until="message_complete")
    assert recorder.types[5:] == [
        "turn.started", "route.decided", "llm.call_started", "llm.call_completed", "turn.cancelled",
    ]  # fmt: skip


def test_the_outcome_of_each_call_is_reported(driver: Driver, recorder: BusRecorder) -> None:
    """Unknown, invalid, declined, failed: by name, without the tool's own text."""
    calls = [
        Call("t1", "nobody"),
        Call("t2", "look", {"at": 3}),
        Call("t3", "look", {"at": "it"}),
        Call("t4", "look", {"at": "nothing"}),
    ]
    session = driver.session(
        {"anthropic": Wire([handwritten_anthropic(*calls), FINE])},
        tools=[look],
        approve=lambda call, definition: call.input["at"] == "nothing",
        events=recorder.bus,
    )
    driver.ask(session, "Look.")
    outcomes = [(event.type, getattr(event.payload, "error_class", None)) for event in recorder.events[4:12]]
    assert outcomes == [
        *[("tool.called", None)] * 4,
        ("tool.failed", "not_found"),
        ("tool.input_invalid", None),
        ("tool.failed", "validation_error"),
        ("tool.failed", "user_denied"),
    ]
    assert recorder.payload("tool.failed", 3).error_class == "execution_error"
    assert recorder.payload("tool.called").side_effects is None
    assert SECRET not in "".join(event.to_json() for event in recorder.events)


def test_each_tool_has_its_own_latency(driver: Driver, recorder: BusRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parallel calls end at different times."""
    quick_has_ended, times = threading.Event(), iter([0.0, 0.0, 0.001, 0.2])

    def clock() -> float:
        """The time at two starts and two ends. The slow tool waits for the first end, which is the other one's."""
        seconds = next(times)
        if seconds:
            quick_has_ended.set()
        return seconds

    monkeypatch.setattr("dragoman.tools.call_runner.perf_counter", clock)

    @tool(side_effects="none")
    def quick() -> str:
        """Answers at once."""
        return "done"

    @tool(side_effects="none")
    def slow() -> str:
        """Takes its time."""
        assert quick_has_ended.wait(60)
        return "done"

    wire = Wire([handwritten_anthropic(Call("t1", "slow"), Call("t2", "quick")), FINE])
    session = driver.session({"anthropic": wire}, tools=[quick, slow], events=recorder.bus)
    driver.ask(session, "Go.")
    latencies = [recorder.payload("tool.completed", place).latency_ms for place in range(2)]
    assert latencies == [200, 1]


def test_swaps_and_refused_swaps_are_reported(driver: Driver, recorder: BusRecorder) -> None:
    """Between turns: the models, what would be lost, and why a swap was refused."""
    session = driver.session({"anthropic": Wire([FINE])}, events=recorder.bus)
    driver.ask(session, "Hi")
    session.swap(OLLAMA)
    picture = ImageBlock(source=MediaSource(kind="base64", data="aGk="), media_type="image/png")
    with_image = driver.session({}, messages=[Message.user([picture])], events=recorder.bus)
    with pytest.raises(SwapRefusedError):
        with_image.swap(OLLAMA)
    swapped, refused = recorder.payload("model.swapped"), recorder.payload("model.swap_refused")
    assert (swapped.previous_model, swapped.model, swapped.losses) == (ANTHROPIC, OLLAMA, 0)
    assert (refused.previous_model, refused.model, refused.refusals) == (ANTHROPIC, OLLAMA, ("no_vision_support",))
    assert recorder.events[-1].turn_id is None
    assert with_image.model == ANTHROPIC


SPECIFIED = {
    "llm.call_started", "llm.call_completed", "llm.call_failed",
    "tool.called", "tool.completed", "tool.failed", "tool.input_invalid",
    "route.decided",
    "turn.started", "turn.completed", "turn.cancelled",
}  # fmt: skip
"""The events of docs/reference/routing-and-events.md#event-catalogue."""


@STREAMED
def test_a_session_emits_every_event_of_the_specification(
    driver: Driver, recorder: BusRecorder, streamed: bool
) -> None:
    """In a fallback, in calls that run, fail and are invalid, and in an abandoned stream. Each start has its end."""
    calls = [Call("t1", "look", {"at": "it"}), Call("t2", "look", {"at": 3})]
    wires = {
        "anthropic": Wire(failing_responses()),
        "ollama": Wire([handwritten_ollama(*calls), handwritten_ollama("Here.")]),
    }
    router = Router(global_default=OLLAMA, clock=lambda: NOW)
    session = driver.session(wires, router=router, tools=[look], events=recorder.bus)
    (driver.stream if streamed else driver.ask)(session, "Look.")
    left = driver.session({"anthropic": Wire([Body(FINE.frames)])}, events=recorder.bus)
    driver.stream(left, "Hi", until="text_delta")
    assert set(recorder.types) >= SPECIFIED
    assert set(recorder.types) <= set(CATALOGUE)
    begun = [kind for kind in recorder.types if kind in ("turn.started", "llm.call_started", "tool.called")]
    ended = [kind for kind in recorder.types if kind.rpartition("_")[2] in ("completed", "failed")]
    ended += [kind for kind in recorder.types if kind in ("tool.completed", "tool.failed", "turn.completed")]
    assert len(begun) == len(ended) + recorder.types.count("turn.cancelled")


def test_a_request_event_has_its_estimate(driver: Driver, recorder: BusRecorder) -> None:
    """By the adapter that sends it, tools included."""
    session = driver.session({"anthropic": Wire([FINE])}, tools=[look], events=recorder.bus)
    driver.ask(session, "Hi")
    adapter = get_adapter(ANTHROPIC)
    expected = adapter.estimate_input_tokens(session.messages[:1], session.toolbox.definitions)
    assert recorder.payload("llm.call_started").estimated_input_tokens == expected


def test_calls_without_a_result_are_reported_too(driver: Driver, recorder: BusRecorder) -> None:
    """If the approval function raises, nothing runs, and the turn ends."""

    def approve(call: Any, definition: Any) -> bool:
        raise RuntimeError("nobody there")

    wire = Wire([handwritten_anthropic(Call("t1", "look", {"at": "it"}))])
    session = driver.session({"anthropic": wire}, tools=[look], approve=approve, events=recorder.bus)
    with pytest.raises(RuntimeError, match="nobody there"):
        driver.ask(session, "Look.")
    assert recorder.types[-3:] == ["tool.called", "tool.failed", "turn.completed"]
    assert recorder.payload("tool.failed").error_class == "cancelled"


def test_a_summary_is_reported_as_a_turn(driver: Driver, recorder: BusRecorder) -> None:
    """It is a request with a cost."""
    session = driver.session({"anthropic": Wire([FINE] * 3)}, events=recorder.bus)
    driver.ask(session, "One.")
    driver.ask(session, "Two.")
    driver.compact(session, keep_last=1)
    assert recorder.types[-5:] == [
        "turn.started", "route.decided", "llm.call_started", "llm.call_completed", "turn.completed",
    ]  # fmt: skip
    assert recorder.payload("turn.completed", 2).total_output_tokens == 5


def test_a_slow_handler_delays_nothing(driver: Driver) -> None:
    """The turn continues although a handler raises."""
    goes_on, seen = threading.Event(), []

    def slow(event: Event) -> None:
        goes_on.wait(60)
        seen.append(event.type)

    with EventBus(capacity=1) as bus:
        bus.subscribe(slow)
        session = driver.session({"anthropic": Wire([FINE])}, events=bus)
        assert driver.ask(session, "Hi").text.startswith("Yes")
        goes_on.set()
    assert 1 <= len(seen) < 4


def test_the_bus_stays_open(driver: Driver, recorder: BusRecorder) -> None:
    """Other sessions share it: closing one leaves it as it is. Ids are the same with and without a bus."""
    with_bus = driver.session({"anthropic": Wire([FINE])}, events=recorder.bus)
    without_bus = driver.session({"anthropic": Wire([FINE])})
    for session in (with_bus, without_bus):
        driver.ask(session, "Hi")
        driver.close(session)
    assert [message.id for message in with_bus.messages] == [message.id for message in without_bus.messages]
    count = len(recorder.events)
    recorder.bus.emit(recorder.payload("turn.started"), session_id="sess_2")
    assert len(recorder.events) == count + 1
