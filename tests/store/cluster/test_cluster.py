"""Every statement about a session is about that session only, so a cluster uses one of its machines."""

import re
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint
from sqlalchemy.exc import DBAPIError

from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.store import Store, StoreError, citus_statements
from dragoman.store.schema import distribution_column, metadata
from tests.store.cluster.sharding import (
    NODES,
    create_database,
    nodes_with_rows,
    record_statements,
    shard_over_databases,
    shard_tables,
)
from tests.store.databases import SKIP_REASON, postgres_url
from tests.store.load import integrity
from tests.store.turns import change, everything, reply, rows, tool_turn

SESSIONS = tuple(f"sess_{number}" for number in range(12))


def use_session(store: Store, session_id: str) -> None:
    """Everything that can be done with one session, except actions that involve others; it exists at the end."""
    turn = tool_turn()
    store.create("a:b", turn.messages[:2], session_id=session_id, tool_ids=turn.tool_ids, user_id="usr_1")
    version = store.append(session_id, turn.messages[2:], expected_version=1, tool_ids=turn.tool_ids, model="c:d")
    store.append(session_id, [Message.user("?"), reply("!")], expected_version=version)
    store.append(session_id, attempts=[reply("broken")], expected_version=None)
    asked = OpenTurn(prompt=(Message.user("And?"),))
    store.append(session_id, expected_version=None, step=TurnStep(begins=True, turn=asked))
    number = store.record(session_id).version
    called = Message.assistant([ToolUseBlock(id="tu_open", name="look")])
    store.append(session_id, [called], expected_version=None, step=TurnStep(number=number, turn=asked))
    store.append(session_id, expected_version=None, step=TurnStep(number=number, started={"tu_open": "write"}))
    store.append(session_id, expected_version=None, step=TurnStep(number=number, ended={"tu_open": None}))
    assert store.load(session_id).turn is not None
    assert store.unanswered(session_id=session_id)
    store.append(session_id, expected_version=None, step=TurnStep(number=number, state="done"))
    store.annotate(session_id, turn.messages[0].id, {"labels": ["a"]}, expected_version=None)
    store.record(session_id)
    store.load(session_id)
    list(store.export(session_id))
    assert store.search("contents", session_id=session_id)


def test_every_key_starts_with_the_session() -> None:
    """Every key and every index starts with the session, except those that list the sessions themselves."""
    for table in metadata.sorted_tables:
        keys = [key.columns for key in table.constraints if isinstance(key, UniqueConstraint | PrimaryKeyConstraint)]
        indexes = [] if table.name == "sessions" else [index.columns for index in table.indexes]
        for columns in (*keys, *indexes):
            assert next(column.name for column in columns) == distribution_column(table)


_ABOUT = re.compile(r"\b(?:session_id|sessions\.id) = |INSERT INTO (?:sessions|\w+ \([^)]*\bsession_id\b)")


def test_every_statement_names_its_session(store: Store) -> None:
    """By equality with its id, or by a row that holds it; no statement is about two sessions."""
    with record_statements(store) as statements:
        use_session(store, "sess_a")
        store.fork("sess_a", new_session_id="sess_b")
        store.import_lines(list(store.export("sess_a")), session_id="sess_c")
        store.delete("sess_b")
    assert len(statements) > 20
    for each in statements:
        assert _ABOUT.search(each.statement), each.statement
        values = each.parameters.values() if isinstance(each.parameters, dict) else each.parameters
        session_ids = {"sess_a", "sess_b", "sess_c"} & {value for value in values if isinstance(value, str)}
        copied = {"sess_a"} if "parent_session_id" in each.statement else set()
        assert len(session_ids - copied) <= 1 or session_ids == {"sess_a"}, each.statement


def test_the_cluster_sql_covers_every_table() -> None:
    """The sessions first, since the others refer to them; by the columns that the tables are split by here."""
    first, *others = citus_statements()
    assert first == "SELECT create_distributed_table('sessions', 'id')"
    table_arguments = [re.findall("'([^']*)'", statement) for statement in others]
    names = ("retention_records", "attempts", "messages", "tool_ids", "turns", "tool_calls")
    assert table_arguments == [[name, "session_id", "sessions"] for name in names]
    assert {"sessions", *(name for name, *_ in table_arguments)} == set(metadata.tables)


@pytest.fixture(scope="module")
def other_database() -> Iterator[str]:
    """A database with the tables of a store."""
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    try:
        with create_database(server) as url:
            Store(url).close()
            yield url
    except DBAPIError as error:
        pytest.skip(f"the tests may not make another database: {error.orig}")


@pytest.fixture
def apart(server_place: str, other_database: str) -> Iterator[tuple[Store, Store, str]]:
    """A store over two databases, the second of them as a store of its own, and the first one's name for its server."""
    with (
        Store(server_place) as store,
        Store(other_database) as other,
        shard_over_databases(store, other_database) as server,
    ):
        yield store, other, server
        for session in other.list().sessions:
            other.delete(session.id)


@pytest.fixture
def spread_store(server_place: str) -> Iterator[Store]:
    with Store(server_place) as store:
        shard_tables(store)
        yield store


@pytest.fixture(params=["one database", "two databases"])
def each_spread(request: pytest.FixtureRequest) -> Store:
    if request.param == "two databases":
        store: Store = request.getfixturevalue("apart")[0]
        return store
    found: Store = request.getfixturevalue("spread_store")
    return found


@pytest.mark.exhaustive
def test_every_plan_needs_one_node(each_spread: Store) -> None:
    """The one with all rows of the session; the sessions are spread over both."""
    homes: dict[str, set[str]] = {}
    for session_id in SESSIONS:
        with record_statements(each_spread, plans=True) as statements:
            use_session(each_spread, session_id)
        homes[session_id] = nodes_with_rows(each_spread, session_id)
        assert len(homes[session_id]) == 1
        assert {node for each in statements for node in each.nodes} == homes[session_id]
        unplanned = [each.statement for each in statements if not each.nodes]
        assert all(statement.startswith("INSERT INTO") for statement in unplanned)
        assert len(unplanned) < len(statements) / 2
    assert set.union(*homes.values()) == set(NODES)
    assert integrity.faults(each_spread) == []


def test_a_fork_uses_the_node_of_each_session(each_spread: Store) -> None:
    """If the two sessions are on different ones, each statement still needs one; and so does deleting it."""
    use_session(each_spread, SESSIONS[0])
    (home,) = nodes_with_rows(each_spread, SESSIONS[0])
    seen = set()
    for session_id in SESSIONS[1:]:
        with record_statements(each_spread, plans=True) as statements:
            each_spread.fork(SESSIONS[0], new_session_id=session_id)
        assert {len(each.nodes) for each in statements} == {0, 1}
        (new,) = nodes_with_rows(each_spread, session_id)
        seen.add(new == home)
        with record_statements(each_spread, plans=True) as statements:
            each_spread.delete(session_id)
        assert [each.nodes for each in statements] == [{new}]
        assert nodes_with_rows(each_spread, session_id) == set()
    assert seen == {True, False}


def test_each_database_is_a_store_by_itself(apart: tuple[Store, Store, str]) -> None:
    """It holds its sessions completely, by its own keys, and reads them as the cluster does."""
    store, other, _ = apart
    for session_id in SESSIONS:
        use_session(store, session_id)
    there = {session.id for session in other.list().sessions}
    assert 0 < len(there) < len(SESSIONS)
    assert there == {session_id for session_id in SESSIONS if nodes_with_rows(store, session_id) == {"node1"}}
    assert [other.load(session_id) for session_id in there] == [store.load(session_id) for session_id in there]
    assert integrity.faults(other) == integrity.faults(store) == []
    before = everything(other)
    use_session(store, next(f"sess_x{number}" for number in count() if _home(store, f"sess_x{number}") == "node0"))
    assert everything(other) == before


def test_sessions_of_one_database_need_no_other(apart: tuple[Store, Store, str]) -> None:
    """While the second one is away, the sessions of the first work; those of the second wait, and are then
    unchanged.
    """
    store, _, server = apart
    homes = {session_id: _home(store, session_id) for session_id in SESSIONS}
    away = [session_id for session_id in SESSIONS if homes[session_id] == "node1"]
    for session_id in away:
        use_session(store, session_id)
    before = [store.load(session_id) for session_id in away]
    ((port,),) = rows(store, f"SELECT split_part(unnest(srvoptions), '=', 2) FROM pg_foreign_server"
                             f" WHERE srvname = '{server}' OFFSET 1 LIMIT 1")  # fmt: skip
    change(store, f"ALTER SERVER {server} OPTIONS (SET port '1')")
    for session_id in SESSIONS:
        if session_id not in away:
            use_session(store, session_id)
        else:
            with pytest.raises(StoreError, match="could not connect"):
                store.append(session_id, [Message.user("?"), reply("!")], expected_version=None)
    with pytest.raises(StoreError, match="could not connect"):
        store.list()
    change(store, f"ALTER SERVER {server} OPTIONS (SET port '{port}')")
    assert [store.load(session_id) for session_id in away] == before


def _home(store: Store, session_id: str) -> str:
    """The node that a session would be on."""
    query = "SELECT satisfies_hash_partition('sessions'::regclass, 2, 0, CAST(:id AS varchar))"
    ((first,),) = rows(store, query, id=session_id)
    return NODES[0] if first else NODES[1]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "ask",
    [
        Store.list,
        lambda store: store.list(user_id="usr_1"),
        lambda store: store.search("contents"),
        lambda store: list(store.billed_replies()),
    ],
    ids=["list", "list of a user", "search", "bills"],
)
def test_only_lists_and_searches_use_every_node(spread_store: Store, ask: Callable[[Store], Any]) -> None:
    """Only these concern sessions that are not named."""
    for session_id in SESSIONS[:6]:
        use_session(spread_store, session_id)
    with record_statements(spread_store, plans=True) as statements:
        ask(spread_store)
    assert {each.nodes for each in statements} == {frozenset(NODES)}
