"""A program that is killed in a turn: what a later one finds, and how it goes on."""

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman.adapter.errors import CallNotPendingError
from dragoman.policy import Pipeline
from dragoman.session import AsyncSession, Session, tool
from dragoman.store import AsyncStore, ConflictError, Store, StoreError
from dragoman.tools.context import CallDeferred
from tests.store.load import integrity
from tests.store.turns import rows
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, AsyncDriver, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama
from tests.unit.session.turn.crashes import Crash, record_crashes

LOST = "What it did is not known"
QUESTION = "Pay and look."
CALLS = (Call("toolu_1", "pay", {"amount": 3}), Call("toolu_2", "look", {"at": "a"}))


class Tools:
    """Tools that log their runs."""

    def __init__(self) -> None:
        self.runs: list[str] = []

        @tool(side_effects="write")
        def pay(amount: int) -> str:
            """Pay."""
            self.runs.append("pay")
            return f"paid {amount}"

        @tool(side_effects="read")
        def look(at: str) -> str:
            """Look."""
            self.runs.append("look")
            return f"{at}: fine"

        self.all = [pay, look]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        yield store


def resume(driver: Driver, store: Store, wires: dict[str, Wire], **settings: Any) -> Any:
    """The session as a new program has it."""
    fresh = driver.session(wires)
    settings = {"providers": fresh.providers, **settings}
    if isinstance(driver, SyncDriver):
        return Session.resume("sess_1", store, **settings)
    return driver.runner.run(AsyncSession.resume("sess_1", store, **settings))


def go_on(driver: Driver, session: Any, *, streamed: bool) -> str:
    if not streamed:
        return driver.ask(session, None).text
    driver.stream(session, None)
    text: str = session.messages[-1].text
    return text


def record_turn(driver: Driver, store: Store, folder: Path, **settings: Any) -> tuple[list[Crash], Any]:
    """A turn of two rounds: the crashes that it may have, and the session at its end."""
    tools = Tools()
    calls = [handwritten_anthropic("I pay.", *CALLS), handwritten_anthropic(Call("toolu_3", "pay", {"amount": 4}))]
    wire = Wire([*calls, handwritten_anthropic("Done.")])
    session = driver.session({"anthropic": wire}, tools=tools.all, store=store, system="Be brief.", **settings)
    with record_crashes(store, folder, tools.runs) as crashes:
        assert driver.ask(session, QUESTION).text == "Done."
    return crashes, session


def test_every_step_is_a_transaction(driver: Driver, store: Store, tmp_path: Path) -> None:
    """The prompt, a reply, the start of its calls, the first result, the others, and so on."""
    crashes, session = record_turn(driver, store, tmp_path)
    stored = []
    for crash in crashes:
        with Store(crash.url) as found:
            stored.append([str(message.role) for message in found.load("sess_1").messages])
            assert integrity.faults(found) == []
    first = ["system", "user", "assistant"]
    second = [*first, "tool", "tool", "assistant"]
    assert stored == [
        ["system"],
        *[first] * 3,
        second[:-1],
        *[second] * 2,
        [*second, "tool"],
        [*second, "tool", "assistant"],
    ]
    assert session.unfinished is None


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_killed_turn_goes_on(driver: Driver, store: Store, tmp_path: Path, elsewhere: bool) -> None:
    """After a kill at any step, also as a stream of another provider: nothing is lost, and no payment made twice."""
    crashes, session = record_turn(driver, store, tmp_path)
    make, model = (handwritten_ollama, OLLAMA) if elsewhere else (handwritten_anthropic, ANTHROPIC)
    for crash in crashes[:-1]:
        tools, wire = Tools(), Wire([make("Went on.")])
        with Store(crash.url, synchronous="normal") as found:
            later = resume(driver, found, {model.partition(":")[0]: wire}, model=model, tools=tools.all)
            unfinished, before = later.unfinished, later.messages
            assert [message.text for message in unfinished.prompt] == [QUESTION]
            assert before == session.messages[: len(before)]
            started = [call.name for call in (*unfinished.ran, *unfinished.may_have_run)]
            assert all(crash.done.count(name) <= started.count(name) for name in ("pay", "look"))

            assert go_on(driver, later, streamed=elsewhere) == "Went on."
            assert later.messages[: len(before)] == before
            assert [message.text for message in later.messages if message.role == "user"] == [QUESTION]
            called = [call.name for message in later.messages for call in message.tool_uses]
            assert [*crash.done, *tools.runs].count("pay") <= called.count("pay")
            assert sum(len(message.tool_results) for message in later.messages) == len(called)
            assert later.unfinished is None
            assert found.load("sess_1").messages == later.messages
            assert (found.unfinished(), found.unanswered(), integrity.faults(found)) == ((), (), [])


def crash_at(crashes: list[Crash], ran: int, may_have_run: int) -> Crash:
    """The first crash with that many calls of each kind."""
    for crash in crashes:
        with Store(crash.url) as found, Session.resume("sess_1", found) as session:
            turn = session.unfinished
            if turn is not None and (len(turn.ran), len(turn.may_have_run)) == (ran, may_have_run):
                return crash
    raise AssertionError("no such crash")


def results_of(session: Any) -> list[str]:
    return [result.content[0].text for message in session.messages for result in message.tool_results]


def test_a_call_that_may_have_run_is_not_run_again(driver: Driver, store: Store, tmp_path: Path) -> None:
    """A payment, of which the model is told; what only reads is run again."""
    crashes, _ = record_turn(driver, store, tmp_path)
    tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
    with Store(crash_at(crashes, ran=0, may_have_run=2).url) as found:
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all)
        assert [call.name for call in later.unfinished.may_have_run] == ["pay", "look"]
        assert [(call.name, call.side_effects) for call in found.unanswered()] == [("pay", "write"), ("look", "read")]
        assert all(call.started_at is not None for call in found.unanswered())
        driver.ask(later, None)
        assert tools.runs == ["look"]
        paid, looked = results_of(later)
        assert (LOST in paid, looked) == (True, "a: fine")
        assert [call.name for call in found.failed_calls()] == ["pay"]


def test_the_result_of_a_lost_call_can_be_given(driver: Driver, store: Store, tmp_path: Path) -> None:
    """Somebody has looked whether it ran. The results that are known come along, and cannot be given again."""
    crashes, _ = record_turn(driver, store, tmp_path, max_parallel_tools=1)
    tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
    with Store(crash_at(crashes, ran=1, may_have_run=1).url) as found:
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all)
        turn = later.unfinished
        (ran,), (lost,) = turn.ran, turn.may_have_run
        assert (ran.name, lost.name, later.pending) == ("pay", "look", (lost,))
        with pytest.raises(CallNotPendingError, match="has its result already"):
            answer(driver, later, {ran.id: "twice"})
        assert answer(driver, later, {lost.id: "it was fine"}).text == "Went on."
        assert (results_of(later), tools.runs, later.unfinished) == (["paid 3", "it was fine"], [], None)


def answer(driver: Driver, session: Any, results: dict[str, Any]) -> Any:
    if isinstance(driver, SyncDriver):
        return session.answer(results)

    async def main() -> Any:
        return await session.answer(results)

    return driver.runner.run(main())


def test_some_results_leave_the_turn_open(driver: Driver, store: Store, tmp_path: Path) -> None:
    """The other calls can still be run."""
    crashes, _ = record_turn(driver, store, tmp_path)
    tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
    with Store(crash_at(crashes, ran=0, may_have_run=2).url) as found:
        first = resume(driver, found, {"anthropic": Wire([])}, tools=tools.all)
        paid, looked = first.pending
        answer(driver, first, {paid.id: "paid"})
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all)
        for session in (first, later):
            assert (session.unfinished.may_have_run, session.pending) == ((looked,), (looked,))
        assert driver.ask(later, None).text == "Went on."
        assert (results_of(later), tools.runs) == (["paid", "a: fine"], ["look"])


def test_a_new_prompt_gives_the_turn_up(driver: Driver, store: Store, tmp_path: Path) -> None:
    """Its prompt, if no reply came, and its calls."""
    crashes, _ = record_turn(driver, store, tmp_path)
    for crash, prompts in ((crashes[0], ["Never mind."]), (crashes[2], [QUESTION, "Never mind."])):
        with Store(crash.url) as found:
            wire = Wire([handwritten_anthropic("All right.")])
            later = resume(driver, found, {"anthropic": wire}, tools=Tools().all)
            driver.ask(later, "Never mind.")
            assert [message.text for message in later.messages if message.role == "user"] == prompts
            assert (later.unfinished, found.unfinished()) == (None, ())


def test_a_suspended_call_still_waits(driver: Driver, store: Store, tmp_path: Path) -> None:
    """Its tool has ended: ask(None) runs the others, and its result comes from elsewhere."""
    runs: list[str] = []

    @tool(side_effects="write")
    def pay(amount: int) -> str:
        """Pay."""
        runs.append("pay")
        raise CallDeferred("an officer decides")

    look = Tools().all[1]
    wire = Wire([handwritten_anthropic(*CALLS)])
    session = driver.session({"anthropic": wire}, tools=[pay, look], store=store, max_parallel_tools=1)
    with record_crashes(store, tmp_path, runs) as crashes:
        driver.ask(session, QUESTION)
    assert (session.unfinished, [call.name for call in session.pending]) == (None, ["pay"])
    with Store(crash_at(crashes, ran=0, may_have_run=1).url) as found:
        wire = Wire([handwritten_anthropic("Went on.")])
        later = resume(driver, found, {"anthropic": wire}, tools=[pay, look])
        assert [call.name for call in later.unfinished.may_have_run] in (["pay"], ["look"])
    with Store(crashes[-2].url) as found:
        later = resume(driver, found, {"anthropic": wire}, tools=[pay, look])
        (lost,) = later.unfinished.may_have_run
        assert lost.name == "look"
        assert [call.name for call in driver.ask(later, None).pending] == ["pay"]
        assert (later.unfinished, runs, wire.requests) == (None, ["pay"], [])
        assert answer(driver, later, {later.pending[0].id: "granted"}).text == "Went on."


def test_failed_attempts_are_known(driver: Driver, store: Store, tmp_path: Path) -> None:
    """With what the provider has reported of their cost, which no other number counts twice."""
    frames = handwritten_anthropic("I begin to", usage=(100, 50)).frames
    broken = Wire([httpx.Response(503, json={}), frames[:4], handwritten_anthropic("Fine.")])
    session = driver.session({"anthropic": broken}, store=store)
    with record_crashes(store, tmp_path, []) as crashes, pytest.raises(Exception, match="stream"):
        driver.stream(session, "Hi")
    with Store(crashes[-2].url) as found:
        later = resume(driver, found, {"anthropic": Wire([handwritten_anthropic("Fine.")])})
        turn = later.unfinished
        assert [(each.model, each.error, each.cost_usd is None) for each in turn.attempts] == [
            (ANTHROPIC, "OverloadedError", True)
        ]
        assert (turn.awaits_reply, turn.cost.replies) == (True, 0)
    assert session.unfinished is None
    ((state, attempts),) = rows(store, "SELECT state, attempts_json FROM turns")
    assert state == "failed"
    assert attempts.count('"cost_usd":"0.') == 1
    assert session.cost.usd is not None
    assert store.total_spend().cost_usd == session.cost.usd > Decimal(0)


def test_a_killed_turn_goes_on_as_a_whole(driver: Driver, store: Store, tmp_path: Path) -> None:
    """With durability="turn" the rest is one transaction, which closes the turn."""
    crashes, _ = record_turn(driver, store, tmp_path)
    tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
    with Store(crash_at(crashes, ran=0, may_have_run=2).url) as found:
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all, durability="turn")
        version = found.record("sess_1").version
        assert driver.ask(later, None).text == "Went on."
        kept = found.load("sess_1")
        assert (kept.version, kept.turn, kept.messages) == (version + 1, None, later.messages)


class SlowStore(Store):
    """Waits in one of its writes."""

    waits_at = -1

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.reached, self.may_go_on = threading.Event(), threading.Event()

    def append(self, *arguments: Any, **facts: Any) -> int:
        self.waits_at -= 1
        if self.waits_at == 0:
            self.reached.set()
            assert self.may_go_on.wait(60)
        return super().append(*arguments, **facts)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_task_is_cancelled_in_a_step(tmp_path: Path, number: int) -> None:
    """The write ends by itself, and the store then has what the session has."""
    tools = Tools()
    replies = [handwritten_anthropic(*CALLS), handwritten_anthropic("Done.")]
    driver = AsyncDriver()
    with SlowStore(f"sqlite:///{tmp_path / 'chats.db'}") as store, driver.runner:
        session = driver.session({"anthropic": Wire(replies)}, tools=tools.all, store=store)
        store.waits_at = number

        async def main() -> None:
            task = asyncio.create_task(session.ask(QUESTION))
            await asyncio.to_thread(store.reached.wait, 60)
            task.cancel()
            await asyncio.sleep(0)
            store.may_go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            await session.close()

        driver.runner.run(main())
        kept = store.load("sess_1")
        assert kept.messages == session.messages
        assert (kept.turn is None) == (session.unfinished is None)
        assert integrity.faults(store) == []


@pytest.mark.exhaustive
def test_two_programs_go_on_with_one_turn(driver: Driver, store: Store, tmp_path: Path) -> None:
    """One wins. The other gets a ConflictError before it runs or sends anything."""
    crashes, _ = record_turn(driver, store, tmp_path)
    for crash in crashes[:-1]:
        with Store(crash.url) as found:
            tools, wires = (Tools(), Tools()), [Wire([handwritten_anthropic("Went on.")]) for _ in range(2)]
            first, second = (
                resume(driver, found, {"anthropic": wire}, tools=its.all)
                for wire, its in zip(wires, tools, strict=True)
            )
            assert driver.ask(first, None).text == "Went on."
            with pytest.raises(ConflictError):
                driver.ask(second, None)
            assert (wires[1].requests, tools[1].runs) == ([], [])
            assert found.load("sess_1").messages == first.messages


class FailingStore(Store):
    """Fails at one of its writes."""

    fails_at = -1

    def append(self, *arguments: Any, **facts: Any) -> int:
        self.fails_at -= 1
        if self.fails_at == 0:
            raise StoreError("the disk is full")
        return super().append(*arguments, **facts)


def test_a_store_that_fails_in_a_step(driver: Driver, tmp_path: Path) -> None:
    """The caller gets the error. The session has everything, and goes on when the store works again."""
    failed = 0
    for number in range(1, 9):
        tools = Tools()
        replies = [handwritten_anthropic(*CALLS), handwritten_anthropic("Done.")]
        with FailingStore(f"sqlite:///{tmp_path / f'{number}.db'}") as store:
            session = driver.session({"anthropic": Wire(replies)}, tools=tools.all, store=store)
            store.fails_at = number
            try:
                text = driver.ask(session, QUESTION).text
            except StoreError:
                failed += 1
                text = session.messages[-1].text if session.unfinished is None else driver.ask(session, None).text
            driver.close(session)
            assert text == "Done." == session.messages[-1].text
            assert sorted(tools.runs) == ["look", "pay"]
            assert results_of(session) == ["paid 3", "a: fine"]
            assert store.load("sess_1").messages == session.messages
            assert (session.unfinished, store.unfinished(), store.unanswered()) == (None, (), ())
    assert failed >= 3


def test_a_clock_that_goes_back(driver: Driver, tmp_path: Path) -> None:
    """Nothing depends on the order of times."""
    time = [datetime(2026, 11, 22, tzinfo=UTC)]

    def clock() -> datetime:
        time[0] -= timedelta(hours=1)
        return time[0]

    with Store(f"sqlite:///{tmp_path / 'chats.db'}", clock=clock) as store:
        crashes, session = record_turn(driver, store, tmp_path, clock=clock)
        assert store.load("sess_1").messages == session.messages
        assert (store.unfinished(), store.unanswered()) == ((), ())
    with Store(crash_at(crashes, ran=0, may_have_run=2).url, clock=clock) as found:
        tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all, clock=clock)
        assert [call.name for call in later.unfinished.may_have_run] == ["pay", "look"]
        assert driver.ask(later, None).text == "Went on."
        assert (tools.runs, found.unfinished()) == (["look"], ())


def test_a_policy_judges_results_before_they_are_stored(driver: Driver, store: Store, tmp_path: Path) -> None:
    """Of a call that has ended the store has no result until then, and the call is not run again."""
    crashes, _ = record_turn(driver, store, tmp_path, policy=Pipeline(), max_parallel_tools=1)
    with Store(crash_at(crashes, ran=1, may_have_run=1).url) as found:
        assert "paid 3" not in str(rows(found, "SELECT * FROM tool_calls"))
        tools, wire = Tools(), Wire([handwritten_anthropic("Went on.")])
        later = resume(driver, found, {"anthropic": wire}, tools=tools.all, policy=Pipeline())
        driver.ask(later, None)
        assert tools.runs == ["look"]
        assert "before its result was checked" in results_of(later)[0]
        assert "paid 3" not in str(wire.requests)


def test_a_typed_answer_is_corrected_after_a_kill(driver: Driver, store: Store, tmp_path: Path) -> None:
    """The request to answer again is not lost."""
    wire = Wire([handwritten_anthropic("no number"), handwritten_anthropic('{"answer": 7}')])
    session = driver.session({"anthropic": wire}, store=store)
    with record_crashes(store, tmp_path, []) as crashes:
        assert driver.ask(session, "How many?", output=int).output == 7
    with Store(crashes[2].url) as found:
        wire = Wire([handwritten_anthropic('{"answer": 8}')])
        later = resume(driver, found, {"anthropic": wire})
        assert [message.role for message in later.messages] == ["user", "assistant"]
        assert len(later.unfinished.prompt) == 2
        assert driver.ask(later, None, output=int).output == 8
        assert [message.role for message in later.messages] == ["user", "assistant"] * 2
        assert found.unfinished() == ()


def test_a_store_without_steps_gets_turns(driver: Driver, store: Store) -> None:
    """A store of another kind works as before."""

    class Plain:
        def __init__(self) -> None:
            self.writes: list[str] = []

        def create(self, *arguments: Any, **facts: Any) -> Any:
            assert "step" not in facts
            self.writes.append("create")
            return store.create(*arguments, **facts)

        def append(self, *arguments: Any, **facts: Any) -> int:
            assert "step" not in facts
            self.writes.append("append")
            return store.append(*arguments, **facts)

        def load(self, session_id: str) -> Any:
            return store.load(session_id)

    plain = Plain()
    wire = Wire([handwritten_anthropic(CALLS[1]), handwritten_anthropic("Done."), handwritten_anthropic("Yes.")])
    session = driver.session({"anthropic": wire}, tools=Tools().all, store=plain)
    driver.ask(session, "Look.")
    driver.ask(session, "Really?")
    assert plain.writes == ["create", "append"]
    assert store.load("sess_1").messages == session.messages


def test_the_labels_of_a_prompt_survive(driver: Driver, store: Store, tmp_path: Path) -> None:
    """A program that is killed before the first reply does not lose them."""
    session = driver.session({"anthropic": Wire([handwritten_anthropic("Fine.")])}, store=store, **_LABELS)
    with record_crashes(store, tmp_path, []) as crashes:
        driver.ask(session, "Hi")
    with Store(crashes[0].url) as found:
        wire = Wire([handwritten_anthropic("Fine.")])
        later = resume(driver, found, {"anthropic": wire}, labels_without_policy="allow")
        driver.ask(later, None)
        assert later.labels == {"pii"}


_LABELS: dict[str, Any] = {"labels": ["pii"], "labels_without_policy": "allow"}


def test_an_async_store_reports_calls(store: Store, tmp_path: Path) -> None:
    crashes, _ = record_turn(SyncDriver(), store, tmp_path)

    async def main() -> None:
        with Store(crash_at(crashes, ran=0, may_have_run=2).url) as found:
            reports = AsyncStore(found)
            assert await reports.unanswered(session_id="sess_1") == found.unanswered()
            assert await reports.unanswered(user_id="nobody") == ()
            assert await reports.failed_calls() == ()
            assert await reports.unfinished() == ("sess_1",)

    asyncio.run(main())
