"""Sessions are created, listed, searched, forked, exported and deleted."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.blocks import TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.open_turns import OpenTurn, TurnStep
from dragoman.store import (
    ConflictError,
    SessionNotFoundError,
    Store,
    StoreError,
    StoreVersionError,
    UnreadableError,
    queries,
)
from dragoman.testing import strategies
from tests.sampling import examples
from tests.store.turns import TABLES, Clock, everything, reply, rows, tool_turn


def test_a_session_is_created_with_its_first_turn(store: Store) -> None:
    """In one transaction, so a program that dies leaves no empty session behind."""
    turn = tool_turn()
    made = store.create(
        "a:b", turn.messages, session_id="mine", tool_ids=turn.tool_ids, title="T", workspace="C:\\work",
        routing_policy={"rules": []}, metadata={"k": [1]}, user_id="u", team_id="t",
    )  # fmt: skip
    found = store.load("mine")
    assert found.record == made
    assert (made.version, made.model, made.workspace, made.routing_policy) == (1, "a:b", "C:\\work", {"rules": []})
    assert len(found.messages) == 4
    with pytest.raises(ConflictError, match="'mine' exists already"):
        store.create(session_id="mine")


def test_several_sessions_are_stored_together_or_not_at_all(store: Store) -> None:
    store.create_all([{"session_id": name, "messages": [Message.user(name)], "user_id": "u"} for name in ("a", "b")])
    assert {record.id for record in store.list(user_id="u").sessions} == {"a", "b"}
    with pytest.raises(ConflictError, match=r"one of 2 sessions \('c', 'b'\) exists already"):
        store.create_all([{"session_id": "c"}, {"session_id": "b"}])
    with pytest.raises(StoreError, match="cannot be stored"):
        store.create_all([{"session_id": "d"}, {"session_id": "e", "title": 7}])
    assert {record.id for record in store.list().sessions} == {"a", "b"}


def test_a_list_is_paged_by_last_use(place: str) -> None:
    with Store(place, clock=Clock()) as store:
        made = [store.create(session_id=f"s{number}") for number in range(7)]
        store.append("s2", [Message.user("x")], expected_version=0)
        found: list[str] = []
        cursor = None
        while True:
            page = store.list(limit=3, cursor=cursor)
            found += [record.id for record in page.sessions]
            cursor = page.cursor
            if cursor is None:
                break
        assert found == ["s2", "s6", "s5", "s4", "s3", "s1", "s0"]
        assert [record.id for record in store.list(since=made[5].created_at).sessions] == ["s2", "s6", "s5"]


def test_sessions_of_one_moment_are_paged_once_each(place: str) -> None:
    """A clock that does not advance loses none."""
    with Store(place, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC)) as store:
        made = {store.create().id for _ in range(10)}
        first = store.list(limit=4)
        second = store.list(limit=4, cursor=first.cursor)
        third = store.list(limit=4, cursor=second.cursor)
        found = [record.id for page in (first, second, third) for record in page.sessions]
        assert sorted(found) == sorted(made)
        assert third.cursor is None


def test_a_list_is_filtered(store: Store) -> None:
    store.create("a:b", session_id="1", user_id="ann", team_id="red")
    store.create("a:c", session_id="2", user_id="bob", team_id="red")
    assert [record.id for record in store.list(user_id="ann").sessions] == ["1"]
    assert [record.id for record in store.list(model="a:c", team_id="red").sessions] == ["2"]
    assert store.list(user_id="an").sessions == ()


@pytest.mark.parametrize("cursor", ["", "x", "WzFd", "bm9uZQ==", "WyJhIiwgImIiXQ==", "\ud800", "W1sxXSwgImIiXQ=="])
def test_a_forged_cursor_is_refused(store: Store, cursor: str) -> None:
    """It is untrusted data, and no part of the query."""
    with pytest.raises(StoreError, match="not a cursor"):
        store.list(cursor=cursor)


def test_a_page_size_is_limited(store: Store) -> None:
    """Minus one session is an error, and so are all of them."""
    for limit in (0, -1, 1001):
        with pytest.raises(StoreError, match="limit"):
            store.list(limit=limit)
        with pytest.raises(StoreError, match="limit"):
            store.search("x", limit=limit)
    with pytest.raises(StoreError, match="needs a time zone"):
        store.list(since=datetime(2026, 1, 1))  # noqa: DTZ001 - the point


def test_text_is_found_in_any_case_and_script(store: Store) -> None:
    """Anywhere in a text block or a tool's answer; thinking and arguments are not searched."""
    call = ToolUseBlock(id="c", name="grep", input={"pattern": "argument"})
    messages = [
        Message.user("Wo ist die STRASSE nach Łódź?"),
        Message.assistant([ThinkingBlock(text="hidden thought"), TextBlock(text="今日の天気は100% 良い"), call]),
        Message.tool("c", "a file: notes_2026.txt"),
    ]
    session = store.create(messages=messages, user_id="ann")
    for text, places in {
        "straße": [0], "łódź": [0], "天気": [1], "気": [1], "100%": [1], "notes_2026": [2], "NOTES": [2], "a": [2, 0],
        "%": [1], "_": [2], "hidden": [], "argument": [], "STRASSE łódź": [], "": [], "nach Łódź?": [0], "0% 良": [1],
    }.items():  # fmt: skip
        assert [(hit.session_id, hit.seq) for hit in store.search(text)] == [(session.id, seq) for seq in places], text
    assert store.search("straße", user_id="ann")[0].message == store.load(session.id).messages[0]
    assert store.search("straße", user_id="bob") == ()
    assert store.search("straße", session_id="other") == ()


def test_the_newest_hits_come_first(store: Store) -> None:
    start = datetime(2026, 11, 21, tzinfo=UTC)
    messages = [Message.user(f"word {number}", created_at=start + timedelta(days=number)) for number in range(9)]
    store.create(messages=messages)
    assert [hit.seq for hit in store.search("word", limit=3)] == [8, 7, 6]


def test_a_search_without_the_index_finds_the_same(store: Store) -> None:
    """If SQLite has no full-text search, the texts themselves are read."""
    store.create(messages=[Message.user(prompt) for prompt in ("abcabc", 'quo"te', "ab", "a%b_c", "abcd NEAR OR abc*")])
    for text in ("abc", 'quo"', "ab", "%b_", "near or", "abc*", '"'):
        with_index = store.search(text)
        with patch.object(queries, "SEARCH_TABLE", "no_index"):
            assert store.search(text) == with_index


def test_a_fork_is_independent(store: Store) -> None:
    """It starts with the same messages and ids, so requests keep their prefix; neither changes the other."""
    turn = tool_turn()
    session = store.create("a:b", turn.messages, tool_ids=turn.tool_ids, title="T", user_id="u", metadata={"k": 1})
    store.append(session.id, [Message.user("later"), reply("!")], expected_version=1, attempts=[reply("broken")])
    before = store.load(session.id)
    made = store.fork(session.id, turn.messages[1].id, new_session_id="fork")
    found = store.load("fork")
    assert found.record == made
    assert [message.id for message in found.messages] == [message.id for message in turn.messages[:2]]
    assert {message.session_id for message in found.messages} == {"fork"}
    assert found.tool_ids == before.tool_ids
    assert (made.version, made.model, made.title, made.user_id, made.metadata) == (0, "a:b", "T", "u", {"k": 1})
    assert (made.parent_session_id, made.parent_message_id) == (session.id, turn.messages[1].id)
    assert (found.attempts, found.inherited) == ((), 2)
    # The result came later, so in the fork the call is still pending.
    assert rows(store, "SELECT status, result_message_id FROM tool_calls WHERE session_id = 'fork'") == [
        ("pending", None)
    ]
    store.append("fork", [Message.tool(turn.call, "other contents")], expected_version=0)
    assert rows(store, "SELECT status FROM tool_calls WHERE session_id = 'fork'") == [("succeeded",)]
    assert store.load(session.id) == before


def test_a_fork_is_not_billed_twice(store: Store) -> None:
    """A report leaves out what the first session was billed for."""
    session = store.create(messages=[Message.user("?"), reply("!")])
    made = store.fork(session.id)
    store.append(made.id, [Message.user("?"), reply("!")], expected_version=0)
    assert rows(store, "SELECT sum(output_tokens) FROM messages WHERE NOT inherited") == [(84,)]
    twice = store.fork(made.id)
    assert store.load(twice.id).inherited == 4


def test_an_empty_session_can_be_forked(store: Store) -> None:
    """There is nothing to copy, and no message to fork at."""
    session = store.create()
    assert store.load(store.fork(session.id).id).messages == ()
    with pytest.raises(SessionNotFoundError, match="no message 'x'"):
        store.fork(session.id, "x")
    with pytest.raises(ConflictError, match="exists already"):
        store.fork(session.id, new_session_id=session.id)


def test_deleting_removes_everything(store: Store) -> None:
    """Messages, calls, ids, attempts and searchable text; forks and other sessions stay."""
    turn = tool_turn("findable")
    session = store.create(messages=turn.messages, tool_ids=turn.tool_ids, attempts=[reply("broken")])
    kept = store.create(session_id="kept", messages=[Message.user("findable, too")])
    store.append(session.id, expected_version=None, step=TurnStep(begins=True, turn=OpenTurn()))
    fork = store.fork(session.id)
    store.delete(session.id)
    for table in TABLES[1:]:
        assert rows(store, f"SELECT * FROM {table} WHERE session_id = :id", id=session.id) == []
    assert {hit.session_id for hit in store.search("findable")} == {"kept", fork.id}
    store.delete(fork.id)
    assert store.list().sessions == (kept,)
    assert {table: len(found) for table, found in everything(store).items()} == {
        "sessions": 1, "messages": 1, "attempts": 0, "tool_calls": 0, "tool_ids": 0, "turns": 0, "retention_records": 0,
    }  # fmt: skip


def test_deleted_data_is_overwritten(tmp_path: Path) -> None:
    """SQLite would leave it in free pages of the file, for anyone to read."""
    file = tmp_path / "sessions.db"
    with Store(f"sqlite:///{file}") as store:
        session = store.create(messages=[Message.user("xyzzy " * 2000)])
        store.delete(session.id)
    assert b"xyzzy" not in file.read_bytes()


def test_a_session_is_exported_and_imported_as_lines(store: Store) -> None:
    """A session is exported and imported as lines into another store under its own id, or into the same one under
    another.
    """
    turn = tool_turn()
    fields = {"title": "T\0", "metadata": {"k": [1]}, "routing_policy": {"r": 1}, "user_id": "u", "workspace": "/w"}
    session = store.create("a:b", turn.messages, tool_ids=turn.tool_ids, attempts=[reply("x")], **fields)  # type: ignore[arg-type]
    fork = store.fork(session.id)
    message = Message.user("more")
    store.append(fork.id, [message], expected_version=0, extensions={message.id: {"label": 1}})
    for session_id in (session.id, fork.id):
        lines = list(store.export(session_id))
        assert all("\n" not in line for line in lines)
        with Store("sqlite://") as other:
            assert other.import_lines(lines).id == session_id
            assert other.load(session_id) == store.load(session_id)
            assert list(other.export(session_id)) == lines
        with pytest.raises(ConflictError, match="exists already"):
            store.import_lines(lines)
        copied = store.import_lines([line.encode() + b"\n" for line in lines] + ["\n"], session_id=f"{session_id}-2")
        assert {message.session_id for message in store.load(copied.id).messages} == {copied.id}
        assert len(store.load(copied.id).messages) == len(store.load(session_id).messages)


def test_invalid_lines_are_refused(store: Store) -> None:
    """Truncated, of another kind, of a newer version, unsafe: nothing of them is stored."""
    session = store.create("a:b", [Message.user("one"), reply("two")])
    lines = list(store.export(session.id))
    store.delete(session.id)
    header = json.loads(lines[0])
    deep = '{"message": ' + '{"a":' * 300 + "1" + "}" * 300 + "}"
    wrong: list[tuple[list[str], type[StoreError], str]] = [
        ([], UnreadableError, "line 1"),
        (["nonsense"], UnreadableError, "line 1"),
        (["[1]"], UnreadableError, "line 1"),
        (['{"a": 1}'], UnreadableError, "not an exported session"),
        (lines[:-1], UnreadableError, "not all of the session"),
        ([*lines, lines[-1]], UnreadableError, "not all of the session"),
        ([json.dumps({**header, "dragoman_store": 2}), *lines[1:]], StoreVersionError, "upgrade"),
        ([json.dumps({**header, "session": {"id": 1}}), *lines[1:]], UnreadableError, "line 1"),
        ([json.dumps({**header, "session": {**header["session"], "version": -1}}), *lines[1:]], UnreadableError, "1"),
        ([lines[0], lines[1][:-9], lines[2]], UnreadableError, "line 2"),
        ([lines[0], lines[1], '{"message": {"role": ""}}'], UnreadableError, "line 3"),
        ([lines[0], lines[1], '{"message": 5}'], UnreadableError, "line 3"),
        ([lines[0], lines[1], deep], UnreadableError, "line 3"),
        ([lines[0], lines[1], lines[2].replace('"two"', "1e999")], UnreadableError, "line 3"),
        ([lines[0], lines[1], lines[1]], ConflictError, "same id"),
    ]
    for given_, error, expected in wrong:
        with pytest.raises(error, match=expected):
            store.import_lines(given_)
    assert store.list().sessions == ()


@pytest.mark.exhaustive
@examples(40)
@given(strategies.histories())
def test_any_history_is_exported_as_lines(history: list[Message]) -> None:
    with Store("sqlite://") as store:
        unique = list({message.id: message for message in history}.values())
        session = store.create(messages=unique)
        lines = list(store.export(session.id))
        found = store.load(session.id)
        store.delete(session.id)
        store.import_lines(lines)
        assert store.load(session.id) == found


@examples(60)
@given(st.lists(st.text(max_size=8), max_size=6), st.text(max_size=4))
def test_a_search_finds_what_holds_the_text(texts: list[str], text: str) -> None:
    """A search finds what holds the text with the index as without it, and nothing else."""
    with Store("sqlite://") as store:
        store.create(messages=[Message.user(words) for words in texts])
        indexed = {hit.seq for hit in store.search(text)}
        with patch.object(queries, "SEARCH_TABLE", "no_index"):
            assert {hit.seq for hit in store.search(text)} == indexed
        if text.isascii() and text and "\0" not in text:
            assert indexed >= {seq for seq, words in enumerate(texts) if text in words}
