"""The bus: every handler receives the events in order, and no handler delays another."""

import asyncio
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import ClassVar

import pytest

from dragoman.canonical.events import TextDelta
from dragoman.events import (
    Actor,
    Event,
    EventBus,
    EventError,
    EventOverflowError,
    LlmCallStarted,
    Payload,
    Sensitivity,
    TurnStarted,
)
from tests.unit.events.payloads import FAILED, PAYLOADS, STARTED

PATIENCE = 60.0
"""The most seconds that a test waits for a handler."""


class OwnEvent(Payload):
    type: ClassVar[str] = "shop.order_placed"
    floor: ClassVar[Sensitivity] = Sensitivity.PSEUDONYMOUS

    amount: int


def test_every_handler_receives_all_events_in_order() -> None:
    plain: list[str] = []
    awaited: list[str] = []

    async def coroutine(event: Event) -> None:
        await asyncio.sleep(0)
        awaited.append(event.id)

    with EventBus(strict=True) as bus:
        bus.subscribe(lambda event: plain.append(event.id))
        bus.subscribe(coroutine)
        sent = [event.id for number in range(200) if (event := bus.emit(STARTED, session_id=f"s{number}"))]
        assert bus.flush(PATIENCE)
    assert plain == awaited == sent == sorted(sent)


def test_the_envelope_is_filled() -> None:
    """Actor, time, session, turn and cause."""
    seen: list[Event] = []
    moment = datetime(2026, 11, 21, tzinfo=UTC)
    ids = iter("ab")
    with EventBus(strict=True, clock=lambda: moment, new_id=lambda: next(ids)) as bus:
        bus.subscribe(seen.append)
        first = bus.emit(STARTED, session_id="s", turn_id="t")
        bus.emit(FAILED, session_id="s", turn_id="t", parent=first, actor=Actor.WORKER)
    one, two = seen
    assert (one.id, one.timestamp, one.session_id, one.turn_id, one.parent_event_id) == ("a", moment, "s", "t", None)
    assert (one.type, one.actor, one.sensitivity) == ("llm.call_started", Actor.AGENT, Sensitivity.PRIVATE)
    assert (two.parent_event_id, two.actor, two.sensitivity) == ("a", Actor.WORKER, Sensitivity.PSEUDONYMOUS)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({}, 17),
        ({"types": "llm.*"}, 4),
        ({"types": ["llm.call_failed", "turn.*"]}, 4),
        ({"types": []}, 0),
        ({"session_ids": ["s"]}, 17),
        ({"session_ids": ["other"]}, 0),
        ({"actors": [Actor.USER]}, 5),
        ({"max_sensitivity": Sensitivity.PSEUDONYMOUS}, 8),
        ({"max_sensitivity": Sensitivity.AGGREGATABLE}, 0),
    ],
)
def test_handlers_receive_what_they_subscribed_to(wanted: dict[str, object], expected: int) -> None:
    seen: list[Event] = []
    with EventBus(strict=True) as bus:
        bus.subscribe(seen.append, **wanted)  # type: ignore[arg-type]
        for payload in PAYLOADS:
            bus.emit(payload, session_id="s")
    assert len(seen) == expected


def _raise(error: BaseException) -> Callable[[Event], None]:
    def handler(event: Event) -> None:
        raise error

    return handler


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_failing_handler_is_logged_and_affects_no_other(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """It receives the next event, and the others receive both."""
    seen: list[str] = []

    async def broken(event: Event) -> None:
        raise error

    with EventBus(strict=True) as bus:
        bus.subscribe(_raise(error), name="broken")
        bus.subscribe(broken, name="broken too")
        bus.subscribe(lambda event: seen.append(event.type))
        bus.emit(STARTED, session_id="s")
        bus.emit(FAILED, session_id="s")
    assert seen == ["llm.call_started", "llm.call_failed"]
    assert caplog.text.count("handler broken failed at llm.call_") == 2
    assert caplog.text.count("handler broken too failed at llm.call_") == 2
    assert type(error).__name__ in caplog.text


def test_errors_of_handlers_are_masked_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """They stay on one line."""
    with EventBus() as bus:
        bus.subscribe(_raise(ValueError("key sk-abcdefghijklmnop\nsecond line")))
        bus.emit(STARTED, session_id="s")
    assert "sk-abcdef" not in caplog.text
    assert "\\nsecond line" in caplog.text


def test_a_hanging_handler_delays_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither other handlers nor emitters; a handler too far behind is reported."""
    hold, begun = threading.Event(), threading.Event()
    seen: list[Event] = []
    bus = EventBus(strict=True, capacity=3)

    def hanging(event: Event) -> None:
        begun.set()
        hold.wait(PATIENCE)

    stuck = bus.subscribe(hanging, name="stuck")
    bus.emit(STARTED, session_id="s")
    assert begun.wait(PATIENCE)
    for _ in range(3):
        bus.emit(STARTED, session_id="s")
    bus.subscribe(seen.append)
    with pytest.raises(EventOverflowError, match=r"handler stuck is 3 events behind and missed llm\.call_failed"):
        bus.emit(FAILED, session_id="s")
    assert not bus.flush(0.01)
    hold.set()
    assert bus.flush(PATIENCE)
    assert [event.type for event in seen] == ["llm.call_failed"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    bus.emit(FAILED, session_id="s")
    bus.unsubscribe(stuck)
    bus.close()


@pytest.mark.parametrize(
    "build",
    [
        TextDelta("m", 0, "Hello"),
        lambda: TextDelta("m", 0, "Hello"),
        OwnEvent(amount=3),
        lambda: LlmCallStarted(model="a:x", provider="a", request_id="\ud800"),
        LlmCallStarted,
        {"type": "llm.call_started"},
        None,
    ],
)
def test_unknown_event_types_are_refused(build: Payload, caplog: pytest.LogCaptureFixture) -> None:
    """A strict bus raises, another one logs and drops them, stream events above all."""
    with EventBus(strict=True) as strict, pytest.raises(EventError):
        strict.emit(build, session_id="s")
    seen: list[Event] = []
    with EventBus() as lenient:
        lenient.subscribe(seen.append)
        assert lenient.emit(build, session_id="s") is None
    assert seen == []
    assert "an event is dropped" in caplog.text
    assert "Hello" not in caplog.text


def test_programs_define_their_own_events() -> None:
    seen: list[Event] = []
    with EventBus(strict=True, payload_types=[OwnEvent]) as bus:
        bus.subscribe(seen.append, types="shop.*")
        bus.emit(OwnEvent(amount=3), session_id="s")
    assert [event.payload for event in seen] == [OwnEvent(amount=3)]
    with pytest.raises(EventError, match="declared twice"):
        EventBus(payload_types=[OwnEvent, OwnEvent])
    taken = type("Taken", (Payload,), {"type": "llm.call_queued", "__annotations__": {"type": ClassVar[str]}})
    with pytest.raises(EventError, match="use your own domain"):
        EventBus(payload_types=[taken])


def test_an_event_may_be_no_less_private_than_its_type() -> None:
    """A caller that asks for that has the wrong type."""
    shared = TurnStarted(user_message_hash="0", user_message_text_redacted="Hi")
    with EventBus(strict=True) as bus:
        event = bus.emit(shared, session_id="s", sensitivity=Sensitivity.USER_CONTROLLED)
        assert event is not None
        assert event.sensitivity is Sensitivity.USER_CONTROLLED
        with pytest.raises(EventError, match="pseudonymous at most"):
            bus.emit(FAILED, session_id="s", sensitivity=Sensitivity.PRIVATE)


def test_a_payload_function_is_called_when_needed() -> None:
    with EventBus(strict=True) as bus:
        event = bus.emit(lambda: STARTED, session_id="s")
    assert event is not None
    assert event.payload is STARTED


async def _broken_in_a_loop(seen: list[str]) -> None:
    async def broken(event: Event) -> None:
        raise ValueError("no")

    async def stopped(event: Event) -> None:
        raise asyncio.CancelledError

    async def fine(event: Event) -> None:
        seen.append(event.type)

    async with EventBus(strict=True) as bus:
        bus.subscribe(broken, name="broken")
        bus.subscribe(stopped, name="stopped")
        bus.subscribe(fine)
        bus.emit(STARTED, session_id="s")
        bus.emit(FAILED, session_id="s")


def test_a_failing_coroutine_affects_no_other(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []
    asyncio.run(_broken_in_a_loop(seen))
    assert seen == ["llm.call_started", "llm.call_failed"]
    assert caplog.text.count("handler broken failed at llm.call_") == 2
    assert caplog.text.count("handler stopped failed at llm.call_") == 2


async def _in_a_loop() -> None:
    seen: list[tuple[str, bool]] = []
    loop = asyncio.get_running_loop()

    class Handler:
        async def __call__(self, event: Event) -> None:
            await asyncio.sleep(0)
            seen.append((event.type, asyncio.get_running_loop() is loop))

    async with EventBus(strict=True) as bus:
        bus.subscribe(Handler())
        bus.emit(STARTED, session_id="s")
        await asyncio.to_thread(bus.emit, FAILED, session_id="s")
        with pytest.raises(EventError, match="would block"):
            bus.flush()
        assert await bus.flush_async(PATIENCE)
        assert len(seen) == 2
        bus.emit(STARTED, session_id="s")
    assert seen == [("llm.call_started", True), ("llm.call_failed", True), ("llm.call_started", True)]


def test_a_coroutine_runs_in_the_loop_of_its_subscription() -> None:
    """Wherever the event comes from; and that loop never waits for itself."""
    asyncio.run(_in_a_loop())


def test_handlers_end_with_their_loop(caplog: pytest.LogCaptureFixture) -> None:
    """Emitters notice nothing."""
    bus = EventBus(strict=True)
    seen: list[Event] = []

    async def handler(event: Event) -> None:
        seen.append(event)

    async def subscribe() -> None:
        bus.subscribe(handler, name="gone")

    asyncio.run(subscribe())
    assert bus.emit(STARTED, session_id="s") is not None
    assert bus.emit(FAILED, session_id="s") is not None
    assert caplog.text.count("the event loop of handler gone is closed") == 1
    bus.close()
    assert seen == []


def test_a_loop_may_end_before_its_handlers_start() -> None:
    """Nothing waits forever, and later events do not accumulate."""
    bus = EventBus(strict=True, capacity=1)

    async def handler(event: Event) -> None: ...

    async def program() -> None:
        bus.subscribe(handler)

    loop = asyncio.new_event_loop()
    loop.run_until_complete(program())
    bus.emit(STARTED, session_id="s")
    loop.close()
    assert bus.flush(PATIENCE)
    assert bus.emit(STARTED, session_id="s") is not None
    assert bus.emit(STARTED, session_id="s") is not None
    bus.close()


def test_an_ending_loop_cancels_its_handlers(caplog: pytest.LogCaptureFixture) -> None:
    """Hanging ones are not waited for."""
    bus = EventBus(strict=True)

    async def program() -> None:
        begun = asyncio.Event()

        async def hanging(event: Event) -> None:
            begun.set()
            await asyncio.sleep(3600)

        bus.subscribe(hanging, name="hanging")
        bus.emit(STARTED, session_id="s")
        bus.emit(STARTED, session_id="s")
        await begun.wait()

    asyncio.run(program())
    assert "handler hanging is removed with 1 events still waiting" in caplog.text
    assert bus.flush(PATIENCE)
    bus.close()


def test_an_ended_subscription_receives_nothing() -> None:
    """Ending it twice is not an error."""
    seen: list[Event] = []
    with EventBus(strict=True) as bus:
        subscription = bus.subscribe(seen.append)
        bus.emit(STARTED, session_id="s")
        assert bus.flush(PATIENCE)
        bus.unsubscribe(subscription)
        bus.unsubscribe(subscription)
        bus.emit(FAILED, session_id="s")
    assert [event.type for event in seen] == ["llm.call_started"]


def test_many_threads_may_emit() -> None:
    """All handlers receive all events in one order."""
    one: list[str] = []
    other: list[str] = []
    with EventBus(strict=True) as bus:
        bus.subscribe(lambda event: one.append(event.id))
        bus.subscribe(lambda event: other.append(event.id))

        def emit() -> None:
            for _ in range(100):
                bus.emit(STARTED, session_id="s")

        threads = [threading.Thread(target=emit) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert bus.flush(PATIENCE)
    assert len(set(one)) == 800
    assert one == other == sorted(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_process_emits_its_own_events_only() -> None:
    """Events waiting at the fork are the parent's; the child's handlers run on."""
    pipe, hold = os.pipe(), threading.Event()
    bus = EventBus(strict=True)

    def handler(event: Event) -> None:
        if event.session_id == "parent":
            hold.wait(PATIENCE)
        os.write(pipe[1], f"{event.session_id} ".encode())

    bus.subscribe(handler)
    bus.emit(STARTED, session_id="parent")
    bus.emit(STARTED, session_id="parent")
    child = os.fork()
    if child == 0:
        bus.emit(STARTED, session_id="child")
        os._exit(0 if bus.flush(PATIENCE) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert os.read(pipe[0], 100) == b"child "
    hold.set()
    bus.close()
    assert os.read(pipe[0], 100) == b"parent parent "
    os.close(pipe[0])
    os.close(pipe[1])


def test_unknown_words_are_refused_at_once() -> None:
    """Unknown words are refused at once, not later in the emitting thread, and not as an unreadable line of a file."""
    with EventBus() as bus:
        with pytest.raises(EventError, match="unknown sensitivity 'public': use one of private, "):
            bus.subscribe(print, max_sensitivity="public")
        with pytest.raises(EventError, match="unknown actor 'robot': use one of user, "):
            bus.subscribe(print, actors=["robot"])
        with pytest.raises(EventError, match="must be callable, not a NoneType"):
            bus.subscribe(None)  # type: ignore[arg-type]
        assert bus.emit(STARTED, session_id="s", actor="robot") is None
        assert bus.emit(STARTED, session_id="s", sensitivity="public") is None
        event = bus.emit(STARTED, session_id="s", actor="tool", sensitivity="pseudonymous")
    assert event is not None
    assert (event.actor, event.sensitivity) == (Actor.TOOL, Sensitivity.PSEUDONYMOUS)
    strict = EventBus(strict=True)
    with pytest.raises(EventError, match="unknown actor"):
        strict.emit(STARTED, session_id="s", actor="robot")
    with pytest.raises(EventError, match="unknown sensitivity"):
        strict.emit(STARTED, session_id="s", sensitivity="public")
