"""Retention and turns that have not ended: what an open or a failed turn repeats goes with the data."""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.adapter.errors import OverloadedError
from dragoman.canonical.blocks import ResourceBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.policy import DataPolicy, Extensions, Pipeline, SecurityExtension
from dragoman.policy.extensions import RetentionPolicy
from dragoman.session import Session
from dragoman.store import ConflictError, RetentionRecord, Store
from dragoman.testing import ScriptedProvider
from tests.store.load import integrity
from tests.store.test_retention import GONE, HOUR, SECRET, Times, chat, settings, texts
from tests.store.turns import everything, rows

DOCUMENT = "file:///srv/numbers.txt"


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def timed(place: str, times: Times) -> Any:
    with Store(place, synchronous="normal", clock=times) as opened:
        yield opened


def begin_turn(store: Store) -> int:
    """Begin a turn that quotes the number, as a program that is killed leaves it: no reply has come."""
    turn = OpenTurn(prompt=(Message.user(f"Is it {SECRET}?"),), first_message=6)
    store.append("s", expected_version=None, step=TurnStep(begins=True, turn=turn))
    return store.record("s").version


def call_in_turn(store: Store) -> int:
    """As `begin_turn`, with a reply whose call has ended; its result is not in the history yet."""
    number = begin_turn(store)
    call = ToolUseBlock(id="tu_1", name="look", input={"number": SECRET})
    new = [Message.user(f"Is it {SECRET}?"), Message.assistant([TextBlock(text=f"{SECRET}?"), call])]
    store.append("s", new, expected_version=None, step=TurnStep(number=number, started={"tu_1": "none"}))
    result = ToolResultBlock(tool_use_id="tu_1", content=f"Yes, {SECRET}.")
    store.append("s", expected_version=None, step=TurnStep(number=number, ended={"tu_1": result}))
    return number


def fail_turn(store: Store) -> int:
    """As `begin_turn`, and no model could answer."""
    number = begin_turn(store)
    store.append("s", expected_version=None, step=TurnStep(number=number, state="failed", error="OverloadedError"))
    return number


BEGINNINGS = pytest.mark.parametrize("begin", [begin_turn, call_in_turn, fail_turn])


@BEGINNINGS
def test_a_turn_that_repeats_the_data_is_redacted_with_it(
    timed: Store, times: Times, begin: Callable[[Store], int]
) -> None:
    """Nothing in any table has the data any more, and the session goes on."""
    chat(timed, times, max_age_seconds=3600)
    number = begin(timed)
    times.now += HOUR
    before = everything(timed)
    (planned,) = timed.enforce_retention(dry_run=True)
    assert everything(timed) == before
    assert timed.enforce_retention() == (planned,)
    assert SECRET not in str(everything(timed))
    assert (timed.load("s").turn, timed.unfinished(), rows(timed, "SELECT * FROM turns")) == (None, (), [])
    assert integrity.faults(timed) == []
    assert texts(timed)[:6] == GONE
    step = TurnStep(number=number, turn=OpenTurn(number=number, prompt=(Message.user(SECRET),)))
    with pytest.raises(ConflictError):  # the program was not killed: it must not write the data again
        timed.append("s", expected_version=None, step=step)
    with ScriptedProvider("Of what?") as provider:
        given = settings(max_age_seconds=3600)
        session = Session.resume("s", timed, model=provider.model, clock=times, **given)
        assert session.unfinished is None
        if session.pending:
            session.answer({call.id: "no answer" for call in session.pending})
        else:
            session.ask("Which number?")
    assert SECRET not in str(everything(timed))
    assert timed.enforce_retention() == ()


@BEGINNINGS
def test_a_session_is_deleted_with_its_turn(timed: Store, times: Times, begin: Callable[[Store], int]) -> None:
    """Only the record stays."""
    chat(timed, times, max_age_seconds=3600)
    begin(timed)
    times.now += HOUR
    (record,) = timed.enforce_retention(action="delete")
    left = everything(timed)
    assert {table for table, found in left.items() if found} == {"retention_records"}
    assert SECRET not in str(left)
    assert timed.retention_records("s") == (record,)


@pytest.mark.parametrize("action", ["redact", "delete"])
def test_a_prompt_that_nobody_answered_has_an_end_too(timed: Store, times: Times, action: Any) -> None:
    """Its data is in no message of the history: the failed turn has it alone. Before its end it stays."""
    data = {DOCUMENT: DataPolicy(retention=RetentionPolicy(max_age_seconds=3600))}
    given: Any = {"policy": Pipeline(), "extensions": Extensions(security=SecurityExtension(data=data))}
    resource = ResourceBlock(resource_request_id="r", uri=DOCUMENT, resource_type="file", content=SECRET)
    prompt = Message.user([TextBlock(text="Read it."), resource], created_at=times.now)
    with ScriptedProvider(OverloadedError("busy")) as provider:
        session = Session(provider.model, store=timed, session_id="s", clock=times, **given)
        with pytest.raises(OverloadedError):
            session.ask(prompt)
    assert SECRET in str(rows(timed, "SELECT prompt_json FROM turns"))
    assert timed.enforce_retention(action=action) == ()
    times.now += HOUR
    done = timed.enforce_retention(action=action)
    assert done == (
        RetentionRecord(session_id="s", action=action, at=times.now, messages=1, attempts=0, sources=(prompt.id,)),
    )
    assert SECRET not in str(everything(timed))
    assert rows(timed, "SELECT * FROM turns") == []
    assert timed.enforce_retention(action=action) == ()


def test_an_open_turn_comes_back_with_its_end(timed: Store, times: Times) -> None:
    """A later program keeps it when it writes the turn again."""
    prompt = Message.user(SECRET)
    end = {prompt.id: {"until": (times.now + HOUR).isoformat()}}
    asked = OpenTurn(prompt=(prompt, Message.user("?")), retention=end)
    timed.create("a:b", session_id="s", step=TurnStep(begins=True, turn=asked))
    found = timed.load("s").turn
    assert found is not None
    assert (found.prompt, found.retention) == (asked.prompt, end)
    assert not found.prompt[0].model_extra
    assert timed.enforce_retention() == ()
    times.now += HOUR
    (record,) = timed.enforce_retention()
    assert (record.messages, record.sources) == (1, (prompt.id,))
    assert timed.load("s").turn is None
