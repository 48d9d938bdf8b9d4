"""A turn is stored as a whole, unchanged, or not at all."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, MessageStatus, read_message, write_message
from dragoman.store import ConflictError, SessionNotFoundError, Store, StoreError
from dragoman.testing import strategies
from tests.sampling import examples
from tests.store.turns import everything, reply, rows, tool_turn


def of(session_id: str, messages: list[Message]) -> tuple[Message, ...]:
    return tuple(message.model_copy(update={"session_id": session_id}) for message in messages)


def test_a_turn_comes_back_unchanged(store: Store) -> None:
    """Messages in order, the map of tool ids, the model that answers next, and the version to append on."""
    session = store.create("anthropic:claude-opus-5-5", title="Files", metadata={"tags": ["a"]})
    turn = tool_turn()
    version = store.append(
        session.id, turn.messages, expected_version=0, tool_ids=turn.tool_ids, model="openai:gpt-6.1-sol"
    )
    found = store.load(session.id)
    assert (version, found.version, found.model) == (1, 1, "openai:gpt-6.1-sol")
    assert found.messages == of(session.id, turn.messages)
    assert ToolIdMap.load(found.tool_ids).dump() == turn.tool_ids.dump()
    assert (found.record.title, found.record.metadata) == ("Files", {"tags": ["a"]})


def test_turns_are_ordered_by_their_versions(store: Store) -> None:
    """Turns are ordered by their versions, whatever the ids and times of their messages."""
    session = store.create()
    messages = [
        Message.user(str(number), created_at=datetime(2026, 1, 30 - number, tzinfo=UTC)) for number in range(20)
    ]
    for version, message in enumerate(reversed(messages)):
        assert store.append(session.id, [message], expected_version=version) == version + 1
    assert [message.text for message in store.load(session.id).messages] == [
        str(number) for number in range(19, -1, -1)
    ]


def test_a_turn_on_an_old_version_is_a_conflict(store: Store) -> None:
    """Two programs continued from the same version: the second gets an error, and nothing is overwritten."""
    session = store.create()
    store.append(session.id, [Message.user("first")], expected_version=0)
    before = everything(store)
    for stale in (0, 2, -1, 2**63, -(2**70)):
        with pytest.raises(ConflictError, match="is at version 1") as refused:
            store.append(session.id, [Message.user("second")], expected_version=stale)
        assert (refused.value.expected, refused.value.found) == (stale, 1)
    assert everything(store) == before


def test_without_an_expected_version_a_turn_is_appended(store: Store) -> None:
    """For concurrent programs that write into one log."""
    session = store.create()
    assert [store.append(session.id, [Message.user(prompt)], expected_version=None) for prompt in "abc"] == [1, 2, 3]


def test_the_same_message_twice_is_a_conflict(store: Store) -> None:
    """A turn that was stored without acknowledgement is not stored twice."""
    session = store.create()
    message = Message.user("once")
    store.append(session.id, [message], expected_version=None)
    before = everything(store)
    with pytest.raises(ConflictError, match="already"):
        store.append(session.id, [Message.user("more"), message], expected_version=None)
    with pytest.raises(ConflictError, match="same id"):
        store.append(session.id, [Message.user("a", id="1"), Message.user("b", id="1")], expected_version=None)
    assert everything(store) == before


def test_a_missing_session_is_named(store: Store) -> None:
    """In every call that needs one."""
    calls: list[Any] = [
        store.load, store.record, store.delete, store.fork, store.export,
        lambda session_id: store.append(session_id, expected_version=0),
        lambda session_id: store.append(session_id, expected_version=None),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(SessionNotFoundError, match="no session 'nowhere'"):
            call("nowhere")


def test_calls_and_results_are_rows_of_their_own(store: Store) -> None:
    """With caller, answer and status; a call waits for its result across turns."""
    session = store.create()
    turn = tool_turn()
    question, call_message, answer, done = turn.messages
    store.append(session.id, [question, call_message], expected_version=0, tool_ids=turn.tool_ids)
    query = "SELECT id, message_id, result_message_id, name, status, provider, provider_id FROM tool_calls"
    known = ("read_file", "pending", "anthropic", "toolu_1")
    assert rows(store, query) == [(turn.call, call_message.id, None, *known)]
    store.append(session.id, [answer, done], expected_version=1, tool_ids=turn.tool_ids)
    assert rows(store, query) == [
        (turn.call, call_message.id, answer.id, "read_file", "succeeded", "anthropic", "toolu_1")
    ]
    assert rows(store, "SELECT completed_at - created_at >= 0 FROM tool_calls")[0][0]


def test_a_call_has_a_final_status(store: Store) -> None:
    """Failed by an error result, cancelled with the reply that broke off, and each use of a repeated id separately."""
    session = store.create()
    calls = [ToolUseBlock(id=name, name="run") for name in ("twice", "fails", "twice")]
    broken = Message.assistant([ToolUseBlock(id="cut", name="run")])
    metadata = broken.metadata.model_copy(update={"status": MessageStatus.CANCELLED})
    turn = [
        Message.assistant(calls),
        Message.tool("twice", "1"),
        Message.tool("fails", "no", is_error=True),
        Message.tool("twice", "2"),
        Message.tool("nobody asked", "3"),
        broken.model_copy(update={"metadata": metadata}),
    ]
    store.append(session.id, turn, expected_version=0)
    found = rows(store, "SELECT id, status, result_message_id FROM tool_calls ORDER BY seq, position")
    assert found == [
        ("twice", "succeeded", turn[3].id),
        ("fails", "failed", turn[2].id),
        ("twice", "succeeded", turn[1].id),
        ("cut", "cancelled", None),
    ]


def test_usage_has_columns(store: Store) -> None:
    """For reports: exact money, the four buckets, user and model; unknown is NULL and never 0."""
    session = store.create()
    known = reply("Known.", usage=reply("").usage.model_copy(update={"cost_usd": Decimal("0.1234567890123456789012")}))  # type: ignore[union-attr]
    store.append(session.id, [Message.user("?"), known], expected_version=0)
    buckets = "input_tokens, output_tokens, cached_input_tokens, cache_creation_input_tokens, reasoning_tokens"
    query = f"SELECT {buckets}, latency_ms, cost_status, pricing_version, model, provider, user_id, team_id, status"
    user, assistant = rows(store, query + " FROM messages ORDER BY seq")
    assert user == (*[None] * 12, "complete")
    assert assistant == (
        8, 42, 100, 7, 30, 1234, "priced", "2026-11-01/abc", "anthropic:claude-opus-5-5", "anthropic", "usr_1",
        "team_1", "complete",
    )  # fmt: skip
    (unknown,), (exact,) = rows(store, "SELECT cost_usd FROM messages ORDER BY seq")
    assert (unknown, Decimal(exact)) == (None, Decimal("0.1234567890123456789012"))


def test_attempts_are_stored_outside_the_history(store: Store) -> None:
    """Replies that broke and were billed are stored with their turn, and are not part of its messages."""
    session = store.create()
    broken = [reply("", usage=reply("").usage).model_copy(update={"content": ()}) for _ in range(3)]
    store.append(session.id, [Message.user("?"), reply("!")], expected_version=0, attempts=broken[:1])
    store.append(session.id, expected_version=1, attempts=broken[1:])
    found = store.load(session.id)
    assert found.attempts == of(session.id, broken)
    assert len(found.messages) == 2
    assert rows(store, "SELECT sum(output_tokens) FROM attempts") == [(126,)]


def test_extensions_come_back_with_their_messages(store: Store) -> None:
    """They are stored with the message, but not inside it."""
    message = Message.user("Labelled.")
    session = store.create(messages=[message], extensions={message.id: {"labels": ["secret"], "n": {"a\0": [1.5]}}})
    assert store.load(session.id).extensions == {message.id: {"labels": ["secret"], "n": {"a\0": [1.5]}}}
    with pytest.raises(StoreError, match="not a message of this turn"):
        store.append(session.id, [Message.user("x")], expected_version=1, extensions={"other": {}})


def test_data_of_a_newer_version_are_kept_verbatim(store: Store) -> None:
    """Unknown fields at every level and unknown kinds of blocks."""
    session = store.create()
    raw = {
        "id": "m1", "session_id": session.id, "role": "assistant", "created_at": "2026-11-21T08:00:00.123456Z",
        "schema_version": 1, "mood": {"deep": [1, {"er": 2.50}]}, "channel": "final",
        "content": [{"type": "hologram", "frames": [{"z": "\0", "a": 1}]},
                    {"type": "text", "text": "x", "citations": [], "blink": True}],
        "metadata": {"status": "complete", "critical": False, "karma": 7,
                     "provider_raw": {"sealed_prefix": {"frame": "f", "length": 3, "items": "i"}, "b": 1, "a": 2}},
    }  # fmt: skip
    message = read_message(raw)
    store.append(session.id, [message], expected_version=0)
    assert write_message(store.load(session.id).messages[0]) == write_message(message)


def test_a_map_that_contradicts_the_stored_one_is_a_conflict(store: Store) -> None:
    """An id that a provider has seen never changes, so the whole turn is refused."""
    turn = tool_turn()
    session = store.create(messages=turn.messages, tool_ids=turn.tool_ids)
    before = everything(store)
    other = {"issued": {turn.call: ["anthropic", "toolu_2"]}, "sent": {}}
    with pytest.raises(ConflictError, match="another native id"):
        store.append(session.id, [Message.user("x")], expected_version=1, tool_ids=other)
    with pytest.raises(StoreError, match="not a dump"):
        store.append(session.id, [Message.user("x")], expected_version=1, tool_ids={"issued": {"a": 1}})
    assert everything(store) == before


def test_a_map_grows_by_its_new_ids(store: Store) -> None:
    """Over a thousand ids, given with each turn, come back in order: the latest use of an id counts."""
    ids = ToolIdMap()
    session = store.create()
    for version, size in enumerate((1200, 1, 700)):
        for number in range(size):
            ids.receive("anthropic", f"call_{number}")
        store.append(session.id, expected_version=version, tool_ids=ids)
    restored = ToolIdMap.load(store.load(session.id).tool_ids)
    assert restored.dump() == ids.dump()
    assert restored.find("anthropic", "call_0") == ids.find("anthropic", "call_0")


@examples(60)
@given(st.lists(strategies.messages, max_size=4), st.lists(strategies.messages, max_size=2))
def test_any_messages_come_back_unchanged(messages: list[Message], broken: list[Message]) -> None:
    """Any canonical data, byte for byte; a message of no session becomes one of the session's."""
    with Store("sqlite://") as store:
        session = store.create(messages=messages, attempts=broken)
        found = store.load(session.id)
    for kept, given_ in zip((*found.messages, *found.attempts), (*messages, *broken), strict=True):
        owned = given_ if given_.session_id else given_.model_copy(update={"session_id": session.id})
        assert write_message(kept) == write_message(owned)
