"""The law of both drivers: whatever happens in a turn, Session and AsyncSession report and store the same."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.message import MessageStatus
from dragoman.events import Event, EventBus
from dragoman.limits import Limit, Limits
from dragoman.limits.budget import Budget
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.session import Session, tool
from dragoman.store import Store
from tests.sampling import examples
from tests.unit.session.drivers import AsyncDriver, Body, Driver, FakeTime, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, Part, Reply, Thought, handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import DenyingPlugin, RecordingPlugin, RedactingPlugin

SESSION_ID = "sess_1"
WORD = "amber"
"""The word that policies deny or redact."""


@tool(side_effects="none")
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@dataclass(frozen=True)
class Fault:
    """A request that fails: by a status, by a refused connection, or after ``frames`` frames of its stream."""

    kind: str
    frames: int = 0


@dataclass(frozen=True)
class Scenario:
    """One turn, and what surrounds it."""

    replies: tuple[tuple[Part, ...] | Fault, ...]
    streamed: bool
    leave_after: int | None
    """The caller leaves a stream after that many events."""
    policy: str | None
    budget: str | None
    limits: bool
    store: bool


words = st.sampled_from(["blue", WORD, "a longer text with several words", "ß→"])
calls = st.builds(
    Call,
    id=st.sampled_from(["toolu_1", "toolu_2"]),
    name=st.sampled_from(["add", "nobody"]),
    input=st.sampled_from([{"a": 1}, {"a": "x"}, {}]),
)
parts = st.lists(st.one_of(words, st.builds(Thought, text=words)), min_size=1, max_size=3).map(tuple)
rounds = st.tuples(parts, st.lists(calls, max_size=2)).map(lambda pair: (*pair[0], *pair[1]))
faults = st.one_of(
    st.builds(Fault, kind=st.sampled_from(["400", "429", "500", "529", "refused"])),
    st.builds(Fault, kind=st.just("cut"), frames=st.integers(0, 12)),
)
scenarios = st.builds(
    Scenario,
    replies=st.lists(st.one_of(rounds, rounds, faults), min_size=1, max_size=4).map(tuple),
    streamed=st.booleans(),
    leave_after=st.one_of(st.none(), st.integers(1, 12)),
    policy=st.sampled_from([None, "record", "deny", "redact"]),
    budget=st.sampled_from([None, "ample", "tight"]),
    limits=st.booleans(),
    store=st.booleans(),
)

MEASURED = {"wall_time_seconds", "latency_ms", "elapsed_ms", "request_id"}
"""Fields of events that differ from run to run."""
LAST = handwritten_anthropic("The end.")
"""The reply of the provider after the end of the script."""
CUTTABLE = handwritten_anthropic(Thought("Hm."), "It is blue.", Call("toolu_9", "add", {"a": 4}))
MOST_REPLIES = 40


def to_wire(reply: tuple[Part, ...] | Fault) -> Reply | Body | httpx.Response | Exception:
    if not isinstance(reply, Fault):
        return handwritten_anthropic(*reply)
    if reply.kind == "refused":
        return httpx.ConnectError("refused")
    if reply.kind == "cut":
        return Body(CUTTABLE.frames[: reply.frames])
    error = {"type": "error", "error": {"type": "api_error", "message": "down"}}
    return httpx.Response(int(reply.kind), json=error)


@dataclass
class Result:
    """Everything that a program can see of a turn afterwards."""

    events: list[Any]
    history: bytes
    error: tuple[str, str] | None
    attempts: tuple[Any, ...]
    cost: str
    requests: list[Any]
    slept: list[float]
    bus: list[tuple[str, str]]
    spent: str
    stored: list[str]


@contextmanager
def open_store(wanted: bool) -> Iterator[Store | None]:
    if not wanted:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chats.db"
        path.write_bytes(_empty_store())
        with Store(f"sqlite:///{path}", synchronous="normal") as store:
            yield store


@cache
def _empty_store() -> bytes:
    """Return the file of a store without sessions: to make one takes longer than a turn."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.db"
        with Store(f"sqlite:///{path}"):
            pass
        return path.read_bytes()


def play(driver: Driver, scenario: Scenario) -> Result:
    """Play the scenario with one driver."""
    plugins = {"record": RecordingPlugin(), "deny": DenyingPlugin(WORD), "redact": RedactingPlugin(WORD)}
    budget = None if scenario.budget is None else Budget(usd="100" if scenario.budget == "ample" else "0.2")
    fake_time, seen = FakeTime(), list[Any]()
    published: list[Event] = []
    wire = Wire([*map(to_wire, scenario.replies), *[LAST] * MOST_REPLIES])
    with open_store(scenario.store) as store, EventBus(strict=True) as bus:
        bus.subscribe(published.append)
        session = driver.session(
            {"anthropic": wire},
            fake_time=fake_time,
            session_id=SESSION_ID,
            tools=[add],
            max_rounds=3,
            policy=None if scenario.policy is None else Pipeline([plugins[scenario.policy]]),
            budgets=[] if budget is None else [budget],
            limits=Limits(Limit(tokens=10**9)) if scenario.limits else None,
            store=store,
            events=bus,
        )
        error = None
        try:
            if scenario.streamed:
                _stream(driver, session, seen, scenario.leave_after)
            else:
                seen.append(driver.ask(session, "What is amber?"))
        except DragomanError as raised:
            error = (type(raised).__name__, str(raised))
        assert bus.flush(60)
        stored = [] if store is None or not session.messages else _stored_session(store)
    return Result(
        events=seen,
        history=session.dump(),
        error=error,
        attempts=session.attempts,
        cost=str(session.cost),
        requests=wire.requests,
        slept=fake_time.slept,
        bus=[(event.type, event.payload.model_dump_json(exclude=MEASURED)) for event in published],
        spent="" if budget is None else str(budget.account_for(None).spent),
        stored=stored,
    )


def _stream(driver: Driver, session: Any, seen: list[Any], leave_after: int | None) -> None:
    if isinstance(driver, SyncDriver):
        with session.stream("What is amber?") as stream:
            for event in stream:
                seen.append(event)
                if len(seen) == leave_after:
                    break
        return

    async def main() -> None:
        async with session.stream("What is amber?") as stream:
            async for event in stream:
                seen.append(event)
                if len(seen) == leave_after:
                    break

    driver.runner.run(main())


def _stored_session(store: Store) -> list[str]:
    found = store.load(SESSION_ID)
    return [message.model_dump_json() for message in (*found.messages, *found.attempts)]


@examples(1000, sampled=25)
@given(scenarios)
def test_both_drivers_tell_and_keep_the_same(scenario: Scenario) -> None:
    """For any turn with faults, cancellations, policies, budgets, limits and stores, both drivers yield the same events
    and leave the same history, cost, requests, waits and stored session."""
    expected = play(SyncDriver(), scenario)
    driver = AsyncDriver()
    with driver.runner:
        found = play(driver, scenario)
    assert vars(found) == vars(expected)


@examples(500, sampled=20)
@given(scenarios)
def test_what_a_turn_leaves_is_accounted_for(scenario: Scenario) -> None:
    """After any turn every billed reply is in the history or among the attempts, the store has what the session has,
    nothing denied is kept, and the next turn can be sent."""
    result = play(SyncDriver(), scenario)
    session = Session.load(result.history)
    if scenario.store and session.messages:
        assert len(result.stored) == len(session.messages) + len(session.attempts)
    if scenario.policy in ("deny", "redact"):
        assert WORD not in "".join(message.model_dump_json() for message in session.messages)
    if result.error is not None and result.error[0] == PolicyDeniedError.__name__:
        assert scenario.policy == "deny"
    cancelled = [message for message in session.messages if message.metadata.status is MessageStatus.CANCELLED]
    assert len(cancelled) <= (scenario.leave_after is not None)
    assert str(session.cost) == result.cost
