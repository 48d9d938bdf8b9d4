"""One attempt: its governors reserve in order, and each is settled by how it ended, whatever happens in between."""

import asyncio
from collections.abc import Callable, Generator
from typing import Any

import pytest

from dragoman.adapter.errors import BudgetExceededError, DragomanError, RateLimitError
from dragoman.adapter.wire import WireResponse
from dragoman.attempt.attempt import Attempt, exchange_whole, run_attempts
from dragoman.canonical.message import Message
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import Abandoned, Broken, Failed, Perform, Replied, SendOutcome, drive, drive_async
from dragoman.limits.reservation import NOTHING_RESERVED, LimitReachedError, MaxUsage, MeasureUsage, Reservation
from dragoman.transport import RetryPolicy
from dragoman.transport.retry import RetryQuota, RetryState, Timing

USE = MaxUsage("anthropic:claude-haiku-4-5", TokenUsage(input_tokens=10), 20)
REPLY = Replied(Message.assistant("Hi"))


class Recorder:
    """A governor that notes what it is told. ``refusal`` is raised instead of reserving; ``waits``: by effects."""

    def __init__(self, name: str, log: list[str], *, refusal: BaseException | None = None, waits: bool = False) -> None:
        self.name, self.log, self.refusal, self.waits = name, log, refusal, waits

    def reserve(self, measure: MeasureUsage) -> "Reservation | Perform":
        measure()
        return self.effect("reserve", self._reserve) if self.waits else self._reserve()

    def _reserve(self) -> Reservation:
        if self.refusal is not None:
            raise self.refusal
        self.log.append(f"{self.name} reserves")
        return RecorderReservation(self)

    def effect(self, what: str, work: Callable[[], Any]) -> Perform:
        async def work_async() -> Any:
            return work()

        return Perform(work, work_async)


class RecorderReservation(Reservation):
    def __init__(self, governor: Recorder) -> None:
        self._governor = governor
        self._ended = False
        if governor.waits:
            self.observe = self._observe
            self.stage = lambda event: (event,)

    def _observe(self, reported: Any) -> Perform:
        what = type(reported).__name__ if isinstance(reported, Exception) else "headers"
        return self._governor.effect("observe", lambda: self._governor.log.append(f"{self._governor.name} sees {what}"))

    def settle(self, outcome: SendOutcome) -> Perform | None:
        note = f"{self._governor.name} settles {type(outcome).__name__}"
        self._ended = True
        if not self._governor.waits:
            self._governor.log.append(note)
            return None
        return self._governor.effect("settle", lambda: self._governor.log.append(note))

    def release(self) -> None:
        if not self._ended:
            self._governor.log.append(f"{self._governor.name} releases")


def replied(observers: Any, stages: Any) -> Generator[Any, Any, Any]:
    for observe in observers:
        yield observe({})
    return REPLY


def failing(error: BaseException) -> Callable[[Any, Any], Generator[Any, Any, Any]]:
    def exchange(observers: Any, stages: Any) -> Generator[Any, Any, Any]:
        yield Perform(lambda: None, asyncio.Event().wait)
        raise error

    return exchange


@pytest.fixture(params=["sync", "async"])
def run(request: pytest.FixtureRequest) -> Callable[[Any], Any]:
    """Runs work with one of the two drivers."""
    return drive if request.param == "sync" else lambda work: asyncio.run(drive_async(work))


def two(log: list[str], **second: Any) -> list[Recorder]:
    return [Recorder("first", log), Recorder("second", log, waits=True, **second)]


def test_governors_reserve_and_settle_in_order(run: Callable[[Any], Any]) -> None:
    log: list[str] = []
    assert run(Attempt(two(log), lambda: USE).run(replied)) is REPLY
    assert log == ["first reserves", "second reserves", "second sees headers", "first settles Replied",
                   "second settles Replied"]  # fmt: skip


def test_the_use_is_measured_once() -> None:
    measured: list[int] = []

    def measure() -> MaxUsage:
        measured.append(1)
        return USE

    drive(Attempt(two([]), measure).run(replied))
    assert measured == [1]


def test_nothing_is_measured_if_nothing_governs() -> None:
    assert drive(Attempt((), pytest.fail).run(replied)) is REPLY


def test_a_limit_that_is_reached_fails_the_attempt(run: Callable[[Any], Any]) -> None:
    """Another model may have room, so it is an outcome, and what was reserved before is settled by it."""
    log: list[str] = []
    refusal = LimitReachedError("later", provider="anthropic", model=USE.model)
    outcome = run(Attempt(two(log, refusal=refusal), lambda: USE).run(lambda *_: pytest.fail("sent")))
    assert outcome == Failed(refusal)
    assert log == ["first reserves", "first settles Failed"]


def test_a_refusal_ends_what_was_reserved(run: Callable[[Any], Any]) -> None:
    log: list[str] = []
    refusal = DragomanError("no")
    with pytest.raises(DragomanError) as raised:
        run(Attempt(two(log, refusal=refusal), lambda: USE).run(lambda *_: pytest.fail("sent")))
    assert raised.value is refusal
    assert log == ["first reserves", "first settles Abandoned"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ValueError("a bug")])
def test_an_interrupt_is_settled_and_raised(error: BaseException) -> None:
    log: list[str] = []
    with pytest.raises(type(error)) as raised:
        drive(Attempt(two(log), lambda: USE).run(failing(error)))
    assert raised.value is error
    assert log[2:] == ["first settles Abandoned", "second settles Abandoned"]


class Keeping(Recorder):
    """A governor that keeps the outcomes that it settles."""

    def __init__(self, **settings: Any) -> None:
        super().__init__("keeping", [], **settings)
        self.settled: list[SendOutcome] = []

    def _reserve(self) -> Reservation:
        held = super()._reserve()
        held.settle = self.settled.append  # type: ignore[method-assign,assignment]
        return held


@pytest.mark.parametrize("error", [KeyboardInterrupt(), DragomanError("no"), ValueError("a bug")])
def test_what_ends_before_the_request_leaves_was_not_sent(error: BaseException) -> None:
    first = Keeping()
    with pytest.raises(type(error)):
        drive(Attempt([first, Recorder("second", [], refusal=error)], lambda: USE).run(replied))
    assert first.settled == [Abandoned(sent=False)]


@pytest.mark.parametrize(("error", "sent"), [(KeyboardInterrupt(), True), (ValueError("a bug"), False)])
def test_a_caller_who_leaves_may_be_answered(error: BaseException, sent: bool) -> None:
    """A mistake in the program is none of the provider's."""
    governor = Keeping()
    with pytest.raises(type(error)):
        drive(Attempt([governor], lambda: USE).run(failing(error)))
    assert governor.settled == [Abandoned(sent=sent)]


def test_a_refusal_of_the_provider_is_observed(run: Callable[[Any], Any]) -> None:
    log: list[str] = []
    refusal = RateLimitError("slow down", provider="anthropic")

    def refused(observers: Any, stages: Any) -> Generator[Any, Any, Any]:
        yield from ()
        return Failed(refusal)

    assert run(Attempt(two(log), lambda: USE).run(refused)) == Failed(refusal)
    assert log[2:] == ["first settles Failed", "second sees RateLimitError", "second settles Failed"]


def test_work_that_is_closed_releases_everything() -> None:
    """Nothing can be settled then, because nothing can be yielded."""
    log: list[str] = []
    work = Attempt(two(log), lambda: USE).run(failing(ValueError()))
    next(work)
    work.send(two(log)[1]._reserve())
    work.close()
    assert log[-2:] == ["first releases", "second releases"]


def test_one_settlement_that_fails_leaves_nothing_held() -> None:
    log: list[str] = []

    class Failing(Recorder):
        def _reserve(self) -> Reservation:
            held = super()._reserve()
            held.settle = lambda outcome: 1 / 0  # type: ignore[method-assign,return-value]
            return held

    with pytest.raises(ZeroDivisionError):
        drive(Attempt([Failing("broken", log), Recorder("second", log)], lambda: USE).run(replied))
    assert log == ["broken reserves", "second reserves", "broken releases", "second releases"]


def test_stages_reach_the_exchange() -> None:
    found: list[Any] = []

    def exchange(observers: Any, stages: Any) -> Generator[Any, Any, Any]:
        found.extend(stages)
        yield from ()
        return REPLY

    drive(Attempt([*two([]), _Nothing()], lambda: USE).run(exchange))
    assert len(found) == 1


class _Nothing:
    def reserve(self, measure: MeasureUsage) -> Reservation:
        return NOTHING_RESERVED


def test_a_whole_reply_is_read_after_its_headers_are_observed() -> None:
    seen: list[Any] = []
    response = WireResponse(status=200, body=b"", headers={"x": "1"})
    send = Perform(lambda: response, asyncio.Event().wait)

    def observe(headers: Any) -> Perform:
        return Perform(lambda: seen.append(headers), asyncio.Event().wait)

    def read(given: WireResponse) -> SendOutcome:
        seen.append(given)
        return REPLY

    assert drive(exchange_whole(send, read, [observe])) is REPLY
    assert seen == [response.headers, response]


def test_a_request_that_fails_is_an_outcome() -> None:
    error = RateLimitError("slow down", provider="anthropic")

    def refuse() -> None:
        raise error

    assert drive(exchange_whole(Perform(refuse, asyncio.Event().wait), lambda _: REPLY, ())) == Failed(error)


class TestRetries:
    def _state(self, slept: list[float]) -> RetryState:
        timing = Timing(sleep=slept.append, roll=lambda: 0.5)
        return RetryState(RetryPolicy(max_retries=2), RetryQuota(), timing)

    def test_a_reply_ends_them(self) -> None:
        assert drive(run_attempts(self._state([]), lambda: replied((), ()))) is REPLY

    def test_a_refusal_is_asked_again_after_its_wait(self) -> None:
        slept: list[float] = []
        state = self._state(slept)
        state.next_wait = 1.5
        outcomes: list[Any] = [Failed(RateLimitError("wait", provider="p")), REPLY]

        def attempt() -> Generator[Any, Any, Any]:
            yield from ()
            return outcomes.pop(0)

        assert drive(run_attempts(state, attempt)) is REPLY
        assert slept == [1.5]

    def test_a_reply_that_was_seen_is_not_asked_again(self) -> None:
        error = RateLimitError("cut", provider="p")

        def attempt() -> Generator[Any, Any, Any]:
            yield from ()
            return Broken(error, None, True)

        with pytest.raises(RateLimitError):
            drive(run_attempts(self._state([]), attempt))

    def test_a_refusal_before_sending_is_raised(self) -> None:
        error = BudgetExceededError("turn", "usd", 1, 1, 1)

        def attempt() -> Generator[Any, Any, Any]:
            yield from ()
            return Failed(error)

        with pytest.raises(BudgetExceededError):
            drive(run_attempts(self._state([]), attempt))

    def test_a_caller_who_left_is_not_asked_again(self) -> None:
        def attempt() -> Generator[Any, Any, Any]:
            yield from ()
            return Abandoned()

        assert drive(run_attempts(self._state([]), attempt)) == Abandoned()
