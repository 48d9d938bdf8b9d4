"""A failure at any statement leaves the old state or the new one, and never a part."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import event

from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.store import Store, StoreError
from tests.store.load import integrity
from tests.store.turns import everything, reply, tool_turn


class CrashError(Exception):
    """A failure of a driver, a signal or a full disk."""


@contextmanager
def fail_at(store: Store, number: int, when: str) -> Iterator[list[str]]:
    """Raises at the given statement: before it runs, after it ran, or at the commit."""
    seen: list[str] = []

    def strike(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)
        if len(seen) == number:
            raise CrashError(statement)

    def strike_commit(_: Any) -> None:
        raise CrashError("commit")

    name, action = {"before": ("before_cursor_execute", strike), "after": ("after_cursor_execute", strike)}.get(
        when, ("commit", strike_commit)
    )
    event.listen(store._database.engine, name, action)
    try:
        yield seen
    finally:
        event.remove(store._database.engine, name, action)


Work = Callable[[Store], Any]


def _append(store: Store) -> Any:
    turn = tool_turn()
    return store.append(
        "there", turn.messages, expected_version=1, tool_ids=turn.tool_ids, model="c:d", attempts=[reply("broken")],
        extensions={turn.messages[0].id: {"a": 1}},
    )  # fmt: skip


FIRST = "01M7YJFK7P2ZFT4X2CGGZQ0001"
WORKS: dict[str, Work] = {
    "append": _append,
    "answer": lambda store: store.append("there", [Message.tool("waiting", "x")], expected_version=1),
    "start": lambda store: store.append("there", expected_version=1, step=TurnStep(started={"waiting": "write"})),
    "annotate": lambda store: store.annotate("there", FIRST, {"labels": ["a"]}, expected_version=1),
    "create": lambda store: store.create("a:b", tool_turn().messages, session_id="new", attempts=[reply("x")]),
    "fork": lambda store: store.fork("there", new_session_id="new"),
    "delete": lambda store: store.delete("there"),
    "import": lambda store: store.import_lines(list(store.export("there")), session_id="new"),
}


def prepare_store(store: Store) -> None:
    turn = tool_turn(native="toolu_0")
    waiting = turn.messages[1].model_copy(
        update={"content": (turn.messages[1].tool_uses[0].model_copy(update={"id": "waiting"}),)}
    )
    question = turn.messages[0].model_copy(update={"id": FIRST})
    store.create("a:b", [question, waiting], session_id="there", tool_ids=turn.tool_ids, attempts=[reply("y")])


@pytest.mark.exhaustive
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", WORKS)
def test_a_failure_at_every_statement_leaves_the_old_state(store: Store, name: str, when: str) -> None:
    """After the last statement, the new state is complete."""
    prepare_store(store)
    before = everything(store)
    number = 0
    while True:
        number += 1
        with fail_at(store, number, when) as seen:
            try:
                WORKS[name](store)
            except CrashError:
                pass
            else:
                break
        assert everything(store) == before, seen[-1]
    assert number > {"append": 5, "answer": 2, "start": 2, "annotate": 2, "delete": 1}.get(name, 4)
    assert everything(store) != before


STEPS = {
    "none": None,
    "begins": TurnStep(begins=True, turn=OpenTurn(prompt=(Message.user("And?"),))),
    "ends": TurnStep(number=2, state="done"),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("number", "when"), [(1, "before"), (1, "after"), (2, "before"), (2, "after"), (0, "commit")])
def test_a_turn_of_one_statement_is_stored_as_a_whole_or_not_at_all(
    store: Store, number: int, when: str, step: str
) -> None:
    """PostgreSQL commits such a turn with its statement: a later failure has stored it."""
    prepare_store(store)
    version = store.append("there", expected_version=1, step=STEPS["begins"]) if step == "ends" else 1
    before = everything(store)
    turn = [Message.user("One."), reply("Two.")]
    with fail_at(store, number, when), suppress(CrashError):
        store.append("there", turn, expected_version=version, step=STEPS[step])
    found = store.load("there")
    if found.version == version:
        assert everything(store) == before
    else:
        assert [message.id for message in found.messages[-2:]] == [each.id for each in turn]
        assert (found.version, found.turn is not None) == (version + 1, step == "begins")
    assert integrity.faults(store) == []


@pytest.mark.parametrize("name", WORKS)
def test_a_failure_at_the_commit_leaves_the_old_state(store: Store, name: str) -> None:
    """The last moment at which nothing is stored yet."""
    prepare_store(store)
    before = everything(store)
    with fail_at(store, 0, "commit"), pytest.raises(CrashError):
        WORKS[name](store)
    assert everything(store) == before
    WORKS[name](store)
    assert everything(store) != before


def test_an_error_of_the_database_is_a_store_error(store: Store) -> None:
    """An error of the database is a store error with the message of the database, and without data of others."""
    prepare_store(store)
    with store._database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE tool_ids")
    with pytest.raises(StoreError, match="tool_ids") as failed:
        store.append("there", [Message.user("my secret")], expected_version=1, tool_ids=tool_turn().tool_ids)
    assert "my secret" not in str(failed.value)
    assert store.record("there").version == 1
