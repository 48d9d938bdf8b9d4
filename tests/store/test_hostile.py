"""Hostile strings stay data, and a row that was changed by hand gives a message of plain data or a typed error."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import pytest

from dragoman.adapter.errors import DragomanError
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.sql import MAX_ID
from dragoman.store import SessionNotFoundError, Store, StoreError, UnreadableError
from tests.sampling import sample
from tests.store.turns import TABLES, change, everything, tool_turn

_SEEDS = (
    "'; DROP TABLE sessions; --", '" OR 1=1 --', "' OR ''='", "1); DELETE FROM messages; --", "\\'; SELECT 1; --",
    "%", "_", "%%", "\\%", "\\_", "/%", "*", "?", ":x", ":session_id", "%s", "%(id)s", "$1", "{}", "{0}",
    "{id.__class__}",
    "NULL", "null", "None", "true", "0", "-1", "1e999", "NaN", "\\", "\\\\", "\\0", "\\\\0", "\\x00", "''", '""', "`",
    "\0", "a\0b", "\0\0", "a\\\0", "\n", "\r\n", "\t", "\x1b[31m", "\x7f", "\u2028", "\u202e", "\ufeff", "\ufffe",
    "\uffff",     "\U0010ffff", "😀", "e\u0301", "é", "ß", "ẞ", "SS", "\u0131", "İ",
    "ﬁ", "\u212b", "Å", "\U0001d518", "\u0378", "\uff46\uff55", " ", "  a  ",
    "../../etc/passwd", "/etc/passwd", "C:\\Windows", "file:///etc/passwd", "sess_\n", "__class__", "__reduce__",
    "__proto__", "constructor", "model_config", "model_fields", "!!python/object:os.system", "${jndi:ldap://x}",
    "{{7*7}}", "<script>alert(1)</script>", "NEAR(a b)", "a AND b", "a OR b", "NOT a", '"a" *', "a:b", "^a", "-a", "+a",
    "search_text:a", "rowid", "message_search", "MATCH", "sqlite_master", "pg_catalog", "a" * MAX_ID, "я" * 190,
    "(", ")", "[", "]", "COPY x FROM PROGRAM 'id'", "'||pg_sleep(9)||'", "ATTACH DATABASE 'x' AS y",
    "PRAGMA user_version",
)  # fmt: skip
HOSTILE = tuple(dict.fromkeys([*_SEEDS, *(f"a{seed}b"[:MAX_ID] for seed in _SEEDS)]))


def test_there_are_two_hundred_hostile_strings() -> None:
    assert len(HOSTILE) >= 200


def _near(name: str) -> str:
    return name[: MAX_ID - 10]


@pytest.mark.exhaustive
def test_hostile_strings_stay_data(lasting_store: Store) -> None:
    """As the id of a session, a message, a call, a user and a team; as title, model and tool name; as filter and
    search; each finds what has exactly that name.
    """
    store = lasting_store
    for name in HOSTILE:
        turn = [
            Message.assistant([ToolUseBlock(id=name, name=name)], id=name, metadata=MessageMetadata(user_id=name)),
            Message.tool(name, name, id=_near(name) + "-result"),
        ]
        sent = {"issued": {name: [name, name]}, "sent": {name: {name: name}}}
        fields = {"title": name, "user_id": name, "team_id": name, "workspace": name, "metadata": {name: name}}
        store.create(name, turn, session_id=name, tool_ids=sent, extensions={name: {name: name}}, **fields)  # type: ignore[arg-type]
    assert {record.id for record in store.list(limit=1000).sessions} == set(HOSTILE)
    for name in HOSTILE:
        found = store.load(name)
        record = found.record
        assert (record.id, record.model, record.title, record.user_id, record.workspace) == (name,) * 5
        assert (found.messages[0].id, found.messages[0].session_id, found.messages[1].text) == (name, name, "")
        assert found.messages[0].tool_uses[0].name == name
        assert found.tool_ids == {"issued": {name: [name, name]}, "sent": {name: {name: name}}}
        assert (found.extensions, record.metadata) == ({name: {name: name}}, {name: name})
        for wanted in ({"user_id": name}, {"team_id": name}, {"model": name}):
            assert [record.id for record in store.list(**wanted).sessions] == [name]  # type: ignore[arg-type]
        assert name in {hit.session_id for hit in store.search(name, limit=1000)}
        assert {hit.session_id for hit in store.search(name, user_id=name)} == {name}
    for name in HOSTILE[:40]:
        fork = store.fork(name, name, new_session_id=_near(name) + "-fork")
        assert fork.parent_message_id == name
        copied = store.import_lines(store.export(name), session_id=_near(name) + "-copy")
        assert store.load(copied.id).messages[0].session_id == copied.id
        store.delete(name)


@pytest.mark.parametrize("name", ["", "a" * (MAX_ID + 1), "\ud800", "a\udfffb", "\0" * MAX_ID])
def test_an_id_that_no_index_can_hold_is_refused(store: Store, name: str) -> None:
    """Before anything is written, with the store's own error."""
    session = store.create(session_id="there")
    before = everything(store)
    calls: list[Any] = [
        lambda: store.create(session_id=name), lambda: store.create(user_id=name), lambda: store.load(name),
        lambda: store.delete(name), lambda: store.fork(name), lambda: store.fork(session.id, new_session_id=name),
        lambda: store.append(name, expected_version=0), lambda: store.record(name),
        lambda: store.fork(session.id, name),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(StoreError):
            call()
    assert everything(store) == before


@pytest.mark.parametrize("name", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_refused_everywhere(store: Store, name: str) -> None:
    """No database could hold it."""
    calls: list[Any] = [
        lambda: store.create(name), lambda: store.create(title=name), lambda: store.create(metadata={"a": name}),
        lambda: store.list(user_id=name), lambda: store.search(name), lambda: store.search("a", session_id=name),
        lambda: store.create(metadata={"a": float("nan")}), lambda: store.create(metadata={"a": object()}),
        lambda: store.create(tool_ids={"issued": {"a": ["b", name]}}),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(DragomanError):
            call()
    assert store.list().sessions == ()


_DEEP = '{"a":' * 500 + "1" + "}" * 500
_CHANGED: list[tuple[str, str]] = [
    ("content_json", "not json"), ("content_json", "5"), ("content_json", "null"), ("content_json", _DEEP),
    ("content_json", '[{"type": "text"}]'), ("content_json", '[{"type": "text", "text": "\\ud800"}]'),
    ("content_json", "[1e999]"), ("content_json", "[" * 100_000), ("content_json", '[{"type": ["text"]}]'),
    ("content_json", ""), ("metadata_json", "[]"), ("metadata_json", '{"usage": "free"}'), ("metadata_json", _DEEP),
    ("metadata_json", '{"usage": {"input_tokens": -1}}'), ("metadata_json", '{"provider_raw": []}'),
    ("role", ""), ("role", "x" * 101), ("fields_json", "[1]"), ("fields_json", "{"), ("fields_json", _DEEP),
    ("extensions_json", "[]"), ("extensions_json", _DEEP), ("fields_json", '{"session_id": 5}'),
    ("fields_json", '{"channel": 1}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("column", "value"),
    sample((pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(_CHANGED)), 4),
)
def test_a_damaged_message_row_is_refused(store: Store, column: str, value: str) -> None:
    """The error names the row; other sessions can still be read."""
    session = store.create(messages=[Message.user("one"), Message.user("two")])
    whole = store.create(messages=[Message.user("three")])
    change(
        store, f"UPDATE messages SET {column} = :value WHERE session_id = :id AND seq = 1", value=value, id=session.id
    )
    with pytest.raises(UnreadableError, match="message 1"):
        store.load(session.id)
    assert store.load(whole.id).messages[0].text == "three"


@pytest.mark.parametrize(("column", "value"), [("schema_version", 99), ("schema_version", 0), ("created_at", 2**62)])
def test_an_impossible_number_is_refused(store: Store, column: str, value: int) -> None:
    """An impossible number is refused: a version from the future, a time beyond the calendar."""
    session = store.create(messages=[Message.user("one")])
    change(store, f"UPDATE messages SET {column} = :value", value=value)
    with pytest.raises(UnreadableError, match="message 0"):
        store.load(session.id)


@pytest.mark.parametrize("column", ["metadata_json", "routing_policy_json", "created_at"])
def test_a_damaged_session_row_is_refused(store: Store, column: str) -> None:
    session = store.create()
    value: Any = 2**62 if column == "created_at" else "[1]"
    change(store, f"UPDATE sessions SET {column} = :value", value=value)
    for call in (lambda: store.load(session.id), lambda: store.record(session.id), store.list):
        with pytest.raises(UnreadableError, match="the session"):
            call()


def test_class_names_and_reserved_keys_stay_plain_data(store: Store) -> None:
    """Nothing in a row is imported, called or looked up as an attribute."""
    session = store.create(messages=[Message.user("one")])
    hostile = {
        "__class__": "os.system", "__reduce__": ["os.system", ["id"]], "py/object": "subprocess.Popen",
        "model_config": {"frozen": False}, "model_fields": 1, "__dict__": {}, "$ref": "#/x", "__proto__": {"admin": 1},
        "model_extra": {}, "__pydantic_extra__": {"x": 1}, "copy": 1, "lc": 1, "type": "constructor", "kwargs": {},
    }  # fmt: skip
    block = {**hostile, "type": "os.system"}
    text = {**hostile, "type": "text", "text": "one"}
    for column, value in (("content_json", [text, block]), ("metadata_json", hostile), ("fields_json", hostile)):
        change(store, f"UPDATE messages SET {column} = :value", value=json.dumps(value))
    (found,) = store.load(session.id).messages
    assert (found.role, found.text, found.content[1].type) == ("user", "one", "os.system")
    assert json.loads(found.model_dump_json())["metadata"]["__class__"] == "os.system"
    assert found.model_extra is not None
    assert found.model_extra["py/object"] == "subprocess.Popen"
    # And the columns cannot be overruled by the other fields.
    change(store, "UPDATE messages SET fields_json = :value", value='{"role": "system", "id": "x", "content": "y"}')
    (found,) = store.load(session.id).messages
    assert (found.role, found.text) == ("user", "one")


def test_the_map_of_ids_holds_text_only(store: Store) -> None:
    turn = tool_turn()
    session = store.create(messages=turn.messages, tool_ids=turn.tool_ids)
    change(store, "UPDATE tool_ids SET provider = '__class__', kind = 'other', provider_id = '\\q'")
    assert store.load(session.id).tool_ids == {"issued": {}, "sent": {"__class__": {turn.call: "\\q"}}}


def test_the_comparison_covers_every_table() -> None:
    """The helper that compares states looks at every table of the schema."""
    from dragoman.store.schema import metadata

    assert set(TABLES) == set(metadata.tables)


MESSAGE = Message.user("Hi")


@pytest.mark.parametrize("wrong", [5, b"sess_1", MESSAGE, ["sess_1"]], ids=["number", "bytes", "message", "list"])
@pytest.mark.parametrize(
    "use",
    [
        lambda store, wrong: store.load(wrong),
        lambda store, wrong: store.record(wrong),
        lambda store, wrong: store.append(wrong, [MESSAGE], expected_version=None),
        lambda store, wrong: store.fork(wrong),
        lambda store, wrong: store.delete(wrong),
        lambda store, wrong: list(store.export(wrong)),
    ],
    ids=["load", "record", "append", "fork", "delete", "export"],
)
def test_an_id_of_a_wrong_class_is_refused(lasting_store: Store, use: Callable[[Store, Any], Any], wrong: Any) -> None:
    with pytest.raises(StoreError, match=r"session's id must be a text such as 'sess_1', not a value of the class"):
        use(lasting_store, wrong)


@pytest.mark.parametrize("wrong", ["Hi", ["Hi"], MESSAGE, [{"role": "user"}], 5, [MESSAGE, None]])
def test_messages_of_a_wrong_class_are_refused(lasting_store: Store, wrong: Any) -> None:
    """Nothing is stored."""
    expected = r"messages must be a list of Message, such as \[Message.user\(...\)\], and has a value of the class"
    with pytest.raises(StoreError, match=expected):
        lasting_store.create("anthropic:claude-opus-5-5", wrong, session_id="sess_wrong")
    with pytest.raises(SessionNotFoundError):
        lasting_store.load("sess_wrong")
    lasting_store.create(None, session_id="sess_right")
    with pytest.raises(StoreError, match=expected):
        lasting_store.append("sess_right", wrong, expected_version=0)
    lasting_store.append("sess_right", iter([MESSAGE]), expected_version=0)  # type: ignore[arg-type]
    assert lasting_store.load("sess_right").messages[0].text == "Hi"
    lasting_store.delete("sess_right")


def test_a_filter_of_a_wrong_class_is_refused(lasting_store: Store) -> None:
    with pytest.raises(StoreError, match="a text is needed, not a value of the class int"):
        lasting_store.list(user_id=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda store: store.create(metadata=5), "metadata must be a dict and has a value of the class int"),
        (lambda store: store.create(routing_policy=[]), "routing_policy must be a dict"),
        (lambda store: store.create(extensions=5), "extensions must be a dict"),
        (lambda store: store.create_all([5]), "each session must be a dict"),
        (lambda store: store.create_all([None]), "each session must be a dict"),
        (lambda store: store.append("s", expected_version="1"), "expected_version must be an integer"),
        (lambda store: store.append("s", expected_version=0.5), "expected_version must be an integer"),
        (lambda store: store.append("s", expected_version=0, step="open"), "step must be a TurnStep"),
        (lambda store: store.annotate("s", "m", [], expected_version=None), "extensions must be a dict"),
        (lambda store: store.annotate("s", "m", None, expected_version=None), "extensions must be a dict"),
        (lambda store: store.list(limit="9"), "limit must be an integer"),
        (lambda store: store.search("x", limit=None), "limit must be an integer"),
        (lambda store: store.list(since="today"), r"a time must be a datetime, such as datetime.now\(UTC\), and has"),
        (lambda store: store.total_spend(since=date(2026, 1, 1)), "a time must be a datetime"),
        (lambda store: store.export_replies("x", since="today"), r"a day must be a date, such as date\("),
        (lambda store: store.export_replies("x", until=datetime(2026, 1, 1, tzinfo=UTC)), "a day must be a date"),
        (lambda store: store.import_lines('{"dragoman_store": 1}'), "lines must be an iterable of lines"),
        (lambda store: store.import_lines([5]), "line 1 cannot be read"),
    ],
)
def test_a_value_of_a_wrong_class_is_named(store: Store, call: Callable[[Store], Any], expected: str) -> None:
    """With what it must be, and before anything is stored."""
    store.create(messages=[Message.user("?")], session_id="s")
    with pytest.raises(StoreError, match=expected):
        call(store)
    assert [session.id for session in store.list().sessions] == ["s"]
