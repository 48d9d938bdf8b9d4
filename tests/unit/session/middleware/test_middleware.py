"""Middlewares of the program: they see each effect of a turn and its outcome, and may change either."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import ConfigurationError, ServerError
from dragoman.canonical.events import StreamEvent, TextDelta
from dragoman.events import EventBus
from dragoman.limits.budget import Budget
from dragoman.policy import Pipeline, PolicyDeniedError, Step, Violation, hook
from dragoman.session import Session, tool
from dragoman.session.effects import (
    Abandoned,
    Admit,
    Broken,
    Choose,
    Effect,
    Failed,
    Keep,
    Read,
    Replied,
    RunTools,
    Send,
    Turn,
    Wait,
    intercept,
)
from tests.unit.session.drivers import ANTHROPIC, Body, Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic
from tests.unit.session.middleware.reply_cache import ReplyCache

ANSWER = handwritten_anthropic("Blue.")


def failure() -> httpx.Response:
    return httpx.Response(500, json={"type": "error", "error": {"type": "api_error", "message": "down"}})


STREAMED = pytest.mark.parametrize("streamed", [False, True], ids=["ask", "stream"])


@tool(side_effects="none")
def look(at: str) -> str:
    """Look."""
    return f"{at}: blue"


class EffectRecorder:
    """A middleware that changes nothing, and lists what passes."""

    def __init__(self) -> None:
        self.effects: list[Effect] = []
        self.outcomes: list[Any] = []

    def __call__(self, turn: Turn) -> Turn:
        return intercept(turn, self._handle)

    def _handle(self, effect: Effect) -> Generator[Effect, Any, Any]:
        self.effects.append(effect)
        outcome = yield effect
        self.outcomes.append(outcome)
        return outcome

    def outcomes_of(self, kind: type[Any]) -> list[Any]:
        return [
            outcome for effect, outcome in zip(self.effects, self.outcomes, strict=False) if isinstance(effect, kind)
        ]


@STREAMED
def test_effects_come_in_order(driver: Driver, streamed: bool) -> None:
    """A turn with tools: each effect once, in the order of the turn; the drivers and both ways of asking agree."""
    recorder = EffectRecorder()
    wires = {"anthropic": Wire([handwritten_anthropic(Call("t1", "look", {"at": "sky"})), ANSWER])}
    session = driver.session(wires, tools=[look], middleware=[recorder])
    (driver.stream if streamed else driver.ask)(session, "Which colour?")
    kinds = [type(effect) for effect in recorder.effects]
    assert kinds == [Admit, Choose, Read, Send, Keep, RunTools, Keep, Read, Send, Keep]
    first, second = recorder.outcomes_of(Send)
    assert isinstance(first, Replied)
    assert isinstance(second, Replied)
    assert second.message == session.messages[-1]
    assert first.response is not None
    (runs,) = recorder.outcomes_of(RunTools)
    assert [run.call.name for run in runs] == ["look"]


@STREAMED
def test_each_attempt_is_a_send(driver: Driver, streamed: bool) -> None:
    """Two failures and a reply are three attempts, each with a context of its own, with waits between them."""
    recorder = EffectRecorder()
    session = driver.session({"anthropic": Wire([failure(), failure(), ANSWER])}, middleware=[recorder])
    (driver.stream if streamed else driver.ask)(session, "Hi")
    sends = [effect for effect in recorder.effects if isinstance(effect, Send)]
    assert [type(outcome) for outcome in recorder.outcomes_of(Send)] == [Failed, Failed, Replied]
    assert len({send.context.request_id for send in sends}) == 3
    assert [effect.seconds for effect in recorder.effects if isinstance(effect, Wait)] == [1.0, 2.0]


def test_a_broken_stream_is_an_outcome(driver: Driver) -> None:
    """Before the caller saw an event, the request is retried; after that, the turn fails."""
    recorder = EffectRecorder()
    wire = Wire([Body(ANSWER.frames[:1]), Body(ANSWER.frames[:4])])
    session = driver.session({"anthropic": wire}, middleware=[recorder])
    with pytest.raises(Exception, match="ended"):
        driver.stream(session, "Hi")
    outcomes = recorder.outcomes_of(Send)
    assert [(type(outcome), outcome.seen) for outcome in outcomes] == [(Broken, False), (Broken, True)]


def test_leaving_is_an_outcome(driver: Driver) -> None:
    """A middleware learns that the caller left, with what had arrived; it is not closed in the middle."""
    recorder = EffectRecorder()
    session = driver.session({"anthropic": Wire([Body(ANSWER.frames)])}, middleware=[recorder])
    driver.stream(session, "Hi", until="text_delta")
    (outcome,) = recorder.outcomes_of(Send)
    assert isinstance(outcome, Abandoned)
    assert outcome.partial is not None
    assert isinstance(recorder.effects[-1], Keep)
    assert session.messages[-1] == outcome.partial


@STREAMED
def test_a_cache_answers_without_a_request(driver: Driver, streamed: bool) -> None:
    """The second session sends nothing; its events, its history and its budget are those of a free reply."""
    cache, wire, budget = ReplyCache(), Wire([ANSWER]), Budget(usd=1)
    first = driver.session({"anthropic": wire}, middleware=[cache])
    driver.ask(first, "Which colour?")
    second = driver.session({"anthropic": Wire([])}, middleware=[cache], budgets=[budget])
    result = (driver.stream if streamed else driver.ask)(second, "Which colour?")
    assert second.messages[-1].text == "Blue."
    if streamed:
        assert result[-1].type == "message_complete"
    assert len(wire.requests) == 1


def test_a_policy_judges_what_a_cache_gives(driver: Driver) -> None:
    """The program's middlewares are inside the policy: a cached reply is judged before it is kept."""

    @hook("llm_output")
    def no_colours(step: Step) -> Violation | None:
        return Violation("no colours", code="colour") if "Blue" in step.message.text else None

    cache = ReplyCache()
    driver.ask(driver.session({"anthropic": Wire([ANSWER])}, middleware=[cache]), "Which colour?")
    session = driver.session({"anthropic": Wire([])}, middleware=[cache], policy=Pipeline([no_colours]))
    with pytest.raises(PolicyDeniedError):
        driver.ask(session, "Which colour?")
    assert "Blue" not in str(session.messages)


class UpperCase:
    """A stage that changes the deltas and the final message."""

    def __call__(self, event: StreamEvent, /) -> Sequence[StreamEvent]:
        return (replace(event, text=event.text.upper()),) if isinstance(event, TextDelta) else (event,)


def test_a_stage_sees_what_streams(driver: Driver) -> None:
    """A middleware adds a stage to the request: it filters each event before the caller receives it."""

    def add_stage(turn: Turn) -> Turn:
        def handle(effect: Effect) -> Generator[Effect, Any, Any]:
            if isinstance(effect, Send):
                effect = replace(effect, stages=(*effect.stages, UpperCase()))
            return (yield effect)

        return intercept(turn, handle)

    session = driver.session({"anthropic": Wire([ANSWER])}, middleware=[add_stage])
    events = driver.stream(session, "Hi")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "BLUE."


@STREAMED
def test_a_stage_that_raises_breaks_the_reply(driver: Driver, streamed: bool) -> None:
    """The reply is billed and not kept, and the error is the caller's."""

    def refuse(event: StreamEvent, /) -> Sequence[StreamEvent]:
        raise ServerError("not this one")

    def add_stage(turn: Turn) -> Turn:
        def handle(effect: Effect) -> Generator[Effect, Any, Any]:
            return (yield replace(effect, stages=(refuse,)) if isinstance(effect, Send) else effect)

        return intercept(turn, handle)

    session = driver.session({"anthropic": Wire([ANSWER] * 3)}, middleware=[add_stage])
    with pytest.raises(ServerError, match="not this one"):
        (driver.stream if streamed else driver.ask)(session, "Hi")
    assert session.messages == ()


def test_an_error_of_a_middleware_is_the_callers(driver: Driver) -> None:
    """An error of a middleware ends the turn, and the bus receives the end of the turn."""

    def fail(turn: Turn) -> Turn:
        def handle(effect: Effect) -> Generator[Effect, Any, Any]:
            if isinstance(effect, Send):
                raise RuntimeError("no")
            return (yield effect)

        return intercept(turn, handle)

    with EventBus(strict=True) as bus:
        seen: list[str] = []
        bus.subscribe(lambda event: seen.append(event.type))
        session = driver.session({"anthropic": Wire([])}, middleware=[fail], events=bus)
        with pytest.raises(RuntimeError, match="no"):
            driver.ask(session, "Hi")
        assert bus.flush(10)
    assert seen[-1] == "turn.completed"
    assert session.messages == ()


@pytest.mark.parametrize("given", [3, "text", [3], ReplyCache()])
def test_what_is_no_middleware_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="middleware"):
        Session(ANTHROPIC, middleware=given)
