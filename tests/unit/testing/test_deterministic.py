"""deterministic(): the same program makes the same messages."""

from datetime import UTC, datetime, timedelta

import pytest

from dragoman import Message, RequestContext, Session
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.ids import new_session_id, new_ulid
from dragoman.testing import ScriptedProvider, deterministic, scripted_reply
from tests.unit.testing.test_scripted_provider import add


def run_conversation() -> list[Message]:
    with ScriptedProvider(scripted_reply(calls={"add": {"a": 1, "b": 2}}), "It is 3.") as provider:
        session = Session(provider.model, tools=[add])
        session.ask("What is 1 and 2?")
        return list(session.messages)


def test_two_runs_make_equal_messages() -> None:
    """Two runs make equal messages with equal ids of messages, calls and sessions, and equal times."""
    with deterministic():
        first = run_conversation()
    with deterministic():
        second = run_conversation()
    assert [message.model_dump() for message in first] == [message.model_dump() for message in second]
    assert first[0].created_at.date() == datetime(2026, 1, 1, tzinfo=UTC).date()
    assert run_conversation()[0].id != first[0].id


def test_ids_sort_by_creation_and_hold_the_time() -> None:
    """They are ULIDs: the first ten characters are the milliseconds."""
    with deterministic(datetime(2030, 1, 1, tzinfo=UTC)) as made:
        one, two = new_ulid(), new_session_id()
        made.clock.tick(1)
        later = Message.user("Hi")
    assert one < two.removeprefix("sess_") < later.id
    assert one[:8] == two.removeprefix("sess_")[:8]
    assert one[:10] < later.id[:10]
    assert later.created_at == datetime(2030, 1, 1, 0, 0, 1, tzinfo=UTC)


def test_the_clock_moves_by_its_step() -> None:
    """Each reading is a step later."""
    with deterministic(step=timedelta(minutes=1)) as made:
        times = [Message.user("Hi").created_at for _ in range(3)]
        assert made.clock.now == times[0] + timedelta(minutes=3)
    assert [each - times[0] for each in times] == [timedelta(minutes=number) for number in range(3)]


def test_explicit_ids_and_clocks_are_kept() -> None:
    """Contexts with their own are unaffected; those without use the deterministic ones."""
    fixed = datetime(2020, 5, 5, tzinfo=UTC)
    with deterministic() as made:
        own = RequestContext(model="m:n", clock=lambda: fixed, tool_ids=ToolIdMap(lambda: "tu_own"))
        assert (own.clock(), own.tool_ids.receive("m", None)) == (fixed, "tu_own")
        assert RequestContext(model="m:n").clock() == made.clock.now - timedelta(milliseconds=1)


def test_nothing_is_left_behind() -> None:
    with pytest.raises(ZeroDivisionError), deterministic():
        _ = 1 / 0
    assert abs(Message.user("Hi").created_at - datetime.now(UTC)) < timedelta(minutes=1)
    assert new_ulid() != new_ulid()


def test_invalid_uses_are_refused() -> None:
    with deterministic(), pytest.raises(ConfigurationError, match="cannot be nested"), deterministic():
        pass
    with pytest.raises(ConfigurationError, match="time zone"), deterministic(datetime(2026, 1, 1)):  # noqa: DTZ001
        pass
