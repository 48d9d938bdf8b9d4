"""Every statement about a session is about that session alone, so that a cluster asks one of its machines."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint

from dragoman.canonical.message import Message
from dragoman.store import Store
from dragoman.store.schema import metadata
from tests.store import integrity
from tests.store.cluster import NODES, key_of, nodes_of, spread, watched
from tests.store.turns import reply, tool_turn

SESSIONS = tuple(f"sess_{number}" for number in range(12))


def live(store: Store, session_id: str) -> None:
    """All that can be done with one session, but for what is done with others: it has a life, and is still there."""
    turn = tool_turn()
    store.create("a:b", turn.messages[:2], session_id=session_id, tool_ids=turn.tool_ids, user_id="usr_1")
    version = store.append(session_id, turn.messages[2:], expected_version=1, tool_ids=turn.tool_ids, model="c:d")
    store.append(session_id, [Message.user("?"), reply("!")], expected_version=version)
    store.append(session_id, attempts=[reply("broken")], expected_version=None)
    store.annotate(session_id, turn.messages[0].id, {"labels": ["a"]}, expected_version=None)
    store.record(session_id)
    store.load(session_id)
    list(store.export(session_id))
    assert store.search("contents", session_id=session_id)


def test_every_key_begins_with_the_session() -> None:
    """And every index, but for those that list the sessions themselves."""
    for table in metadata.sorted_tables:
        keys = [key.columns for key in table.constraints if isinstance(key, UniqueConstraint | PrimaryKeyConstraint)]
        indexes = [] if table.name == "sessions" else [index.columns for index in table.indexes]
        for columns in (*keys, *indexes):
            assert next(column.name for column in columns) == key_of(table.name)


_ABOUT = re.compile(r"\b(?:session_id|sessions\.id) = |INSERT INTO (?:sessions|\w+ \([^)]*\bsession_id\b)")


def test_every_statement_names_its_session(store: Store) -> None:
    """By equality with its id, or by a row that holds it; two sessions are never in one statement."""
    with watched(store) as asked:
        live(store, "sess_a")
        store.fork("sess_a", new_session_id="sess_b")
        store.import_lines(list(store.export("sess_a")), session_id="sess_c")
        store.delete("sess_b")
    assert len(asked) > 20
    for each in asked:
        assert _ABOUT.search(each.statement), each.statement
        values = each.parameters.values() if isinstance(each.parameters, dict) else each.parameters
        told = {"sess_a", "sess_b", "sess_c"} & {value for value in values if isinstance(value, str)}
        copied = {"sess_a"} if "parent_session_id" in each.statement else set()
        assert len(told - copied) <= 1 or told == {"sess_a"}, each.statement


@pytest.fixture
def spread_store(server_place: str) -> Any:
    with Store(server_place) as store:
        spread(store)
        yield store


def test_every_plan_needs_one_node(spread_store: Store) -> None:
    """The one on which all rows of the session are; the sessions are spread over both."""
    homes: dict[str, set[str]] = {}
    for session_id in SESSIONS:
        with watched(spread_store, plans=True) as asked:
            live(spread_store, session_id)
        homes[session_id] = nodes_of(spread_store, session_id)
        assert len(homes[session_id]) == 1
        assert {node for each in asked for node in each.nodes} == homes[session_id]
        unplanned = [each.statement for each in asked if not each.nodes]
        assert all(statement.startswith("INSERT INTO") for statement in unplanned)
        assert len(unplanned) < len(asked) / 2
    assert set.union(*homes.values()) == set(NODES)
    assert integrity.faults(spread_store) == []


def test_a_fork_asks_the_node_of_each_session(spread_store: Store) -> None:
    """Where the two sessions are on different ones, each statement still needs one; and so does deleting it."""
    live(spread_store, SESSIONS[0])
    (home,) = nodes_of(spread_store, SESSIONS[0])
    seen = set()
    for session_id in SESSIONS[1:]:
        with watched(spread_store, plans=True) as asked:
            spread_store.fork(SESSIONS[0], new_session_id=session_id)
        assert {len(each.nodes) for each in asked} == {0, 1}
        (new,) = nodes_of(spread_store, session_id)
        seen.add(new == home)
        with watched(spread_store, plans=True) as asked:
            spread_store.delete(session_id)
        assert [each.nodes for each in asked] == [{new}]
        assert nodes_of(spread_store, session_id) == set()
    assert seen == {True, False}


@pytest.mark.parametrize(
    "ask",
    [
        Store.list,
        lambda store: store.list(user_id="usr_1"),
        lambda store: store.search("contents"),
        lambda store: list(store.bills()),
    ],
    ids=["list", "list of a user", "search", "bills"],
)
def test_lists_and_searches_ask_every_node(spread_store: Store, ask: Callable[[Store], Any]) -> None:
    """They are about sessions that nobody has named: the only ones that do, and this is where it is written down."""
    for session_id in SESSIONS[:6]:
        live(spread_store, session_id)
    with watched(spread_store, plans=True) as asked:
        ask(spread_store)
    assert {each.nodes for each in asked} == {frozenset(NODES)}
