"""The rows of open turns, and the keys of tool calls."""

import shutil
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message, MessageStatus
from dragoman.open_turns import CallProgress, FailedAttempt, OpenTurn, TurnStep
from dragoman.store import ConflictError, Store, UnreadableError
from tests.store.load import integrity
from tests.store.turns import change, everything, rows, tool_turn

ASKED = OpenTurn(prompt=(Message.user("Pay \0 \\0 Łódź", session_id="sess_1"),))
MUSEUM = Path(__file__).parents[1] / "compatibility" / "stores"


def begin(store: Store) -> int:
    store.create("a:b", session_id="sess_1", step=TurnStep(begins=True, turn=ASKED))
    return store.record("sess_1").version


def test_a_turn_comes_back(store: Store) -> None:
    """A turn comes back with its prompt, its attempts, and the progress of its calls."""
    number = begin(store)
    attempts = (
        FailedAttempt(model="a:b", error="OverloadedError"),
        FailedAttempt(model="c:d", error="StreamTruncatedError", cost_usd=Decimal("0.000000000001"), reply_id="m"),
    )
    asked = OpenTurn(number=number, prompt=ASKED.prompt, attempts=attempts)
    store.append("sess_1", expected_version=1, step=TurnStep(number=number, turn=asked))
    assert store.load("sess_1").turn == asked
    assert store.unfinished() == ("sess_1",)

    turn = tool_turn()
    result = ToolResultBlock(tool_use_id=turn.call, content="paid \0", is_error=True)
    states: list[CallProgress | None] = []
    store.append("sess_1", turn.messages[:2], expected_version=2, tool_ids=turn.tool_ids)
    for step in (
        TurnStep(number=number, started={turn.call: "write"}),
        TurnStep(number=number, ended={turn.call: None}),
        TurnStep(number=number, ended={turn.call: result}),
        TurnStep(number=number, started={turn.call: None}),
    ):
        store.append("sess_1", expected_version=None, step=step)
        found = store.load("sess_1").turn
        assert found is not None
        states.append(found.calls.get(turn.call))
    assert states == [
        CallProgress(side_effects="write"),
        CallProgress(side_effects="write", waits=True),
        CallProgress(side_effects="write", result=result),
        CallProgress(side_effects=None),
    ]
    store.append("sess_1", turn.messages[2:], expected_version=None, step=TurnStep(number=number, state="failed"))
    assert (store.load("sess_1").turn, store.unfinished(), store.unanswered()) == (None, (), ())
    assert rows(store, "SELECT status, result_json FROM tool_calls") == [("succeeded", None)]


def test_a_call_of_a_broken_reply_has_no_result(store: Store) -> None:
    """It never runs and nothing answers it, so the open turn that it belongs to comes back without its result."""
    number = begin(store)
    turn = tool_turn()
    question, reply = turn.messages[:2]
    metadata = reply.metadata.model_copy(update={"status": MessageStatus.CANCELLED})
    broken = (question, reply.model_copy(update={"metadata": metadata}))
    step = TurnStep(number=number)
    store.append("sess_1", broken, expected_version=1, tool_ids=turn.tool_ids, step=step)
    found = store.load("sess_1").turn
    assert found is not None
    assert found.calls == {turn.call: CallProgress(started=False, side_effects=None)}


def test_a_turn_that_is_gone_is_a_conflict(store: Store) -> None:
    """Nobody writes about a turn that another program has closed."""
    number = begin(store)
    change(store, "DELETE FROM turns")
    with pytest.raises(ConflictError, match="not in the store any more"):
        store.append("sess_1", expected_version=1, step=TurnStep(number=number, turn=ASKED))
    assert store.record("sess_1").version == 1


def test_a_step_on_an_old_version_is_a_conflict(store: Store) -> None:
    """It neither begins a turn nor ends one."""
    number = begin(store)
    before = everything(store)
    for step in (TurnStep(begins=True, turn=ASKED), TurnStep(number=number, state="done")):
        with pytest.raises(ConflictError, match="is at version 1"):
            store.append("sess_1", [Message.user("?")], expected_version=0, step=step)
    assert everything(store) == before


@pytest.mark.parametrize(
    ("column", "value"), [("prompt_json", "{"), ("prompt_json", '[{"role": 1}]'), ("attempts_json", "[1]")]
)
def test_a_damaged_turn_is_unreadable(store: Store, column: str, value: str) -> None:
    """The error names the session, and quotes nothing."""
    begin(store)
    change(store, f"UPDATE turns SET {column} = :value", value=value)
    with pytest.raises(UnreadableError, match="the open turn of the session 'sess_1'"):
        store.load("sess_1")


def test_a_call_belongs_to_its_messages(store: Store) -> None:
    """A call belongs to its messages by foreign keys: no call and no result without its message."""
    turn = tool_turn()
    store.create(messages=turn.messages, session_id="sess_1", tool_ids=turn.tool_ids)
    for statement in (
        "UPDATE tool_calls SET message_id = 'nobody'",
        "UPDATE tool_calls SET result_message_id = 'nobody'",
        "DELETE FROM messages WHERE seq = 1",
        "DELETE FROM messages WHERE seq = 2",
    ):
        with pytest.raises(IntegrityError), store._database.engine.begin() as connection:
            connection.execute(text(statement))
    assert integrity.faults(store) == []
    store.delete("sess_1")
    assert rows(store, "SELECT count(*) FROM tool_calls") == [(0,)]


def test_orphans_of_an_older_store_go(tmp_path: Path) -> None:
    """They would not fit the new keys: a call without its message, and a reference to a result that is not there."""
    file = tmp_path / "sessions.db"
    shutil.copy(MUSEUM / "v0002.db", file)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE tool_calls SET result_message_id = 'nobody' WHERE session_id = 'sess_first'")
        connection.execute("UPDATE tool_calls SET message_id = 'nobody' WHERE session_id = 'sess_fork'")
    connection.close()
    with Store(f"sqlite:///{file}") as store:
        assert set(rows(store, "SELECT session_id, result_message_id FROM tool_calls")) == {("sess_first", None)}
        assert integrity.faults(store) == []
        assert len(store.load("sess_first").messages) == 6
