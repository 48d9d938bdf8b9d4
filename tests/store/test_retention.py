"""Data whose time is over is redacted or deleted, and a record says so."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolResultBlock
from dragoman.canonical.message import Message
from dragoman.cli.app import app
from dragoman.policy import DataPolicy, Extensions, Pipeline, SecurityExtension
from dragoman.policy.extensions import RetentionPolicy
from dragoman.session import Session, tool
from dragoman.store import AsyncStore, RetentionRecord, Store, StoreError
from dragoman.testing import ScriptedProvider, scripted_reply
from tests.tables import each_row

HOUR = timedelta(hours=1)
SECRET = "quince4711"


class Times:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.now


@tool(side_effects="none")
def look() -> str:
    """Looks."""
    return f"The number is {SECRET}."


def settings(**retention: Any) -> dict[str, Any]:
    data = {"look": DataPolicy(apply_labels=["PII"], retention=RetentionPolicy(**retention))}
    return {"policy": Pipeline(), "extensions": Extensions(security=SecurityExtension(data=data)), "tools": [look]}


def chat(store: Store, times: Times, *, session_id: str = "s", **retention: Any) -> str:
    """A greeting, then a turn that reads the number and repeats it."""
    script = ("Hello.", scripted_reply(calls={"look": {}}), f"It is {SECRET}.")
    with ScriptedProvider(*script) as provider:
        given = settings(**retention)
        session = Session(provider.model, store=store, session_id=session_id, clock=times, **given)
        session.ask("Hi")
        session.ask("What is the number?")
        return session.session_id


def texts(store: Store, session_id: str = "s") -> list[str]:
    found = []
    for message in store.load(session_id).messages:
        results = [block.content[0] for block in message.content if isinstance(block, ToolResultBlock)]
        found.append("".join(getattr(block, "text", "") for block in (*message.content, *results)))
    return found


@pytest.fixture
def times() -> Times:
    return Times()


@pytest.fixture
def timed(place: str, times: Times) -> Any:
    with Store(place, synchronous="normal", clock=times) as opened:
        yield opened


GONE = ["Hi", "Hello.", "What is the number?", "", "[deleted]", "[deleted]"]


def test_data_is_redacted_when_its_time_is_over(timed: Store, times: Times) -> None:
    """With the replies after it, which repeat it; earlier messages, labels and ids stay, and it happens once."""
    chat(timed, times, max_age_seconds=3600)
    before = timed.load("s")
    assert timed.enforce_retention() == ()
    times.now += HOUR
    (record,) = timed.enforce_retention()
    found = timed.load("s")
    assert texts(timed) == GONE
    assert [each.id for each in found.messages] == [each.id for each in before.messages]
    source = before.messages[4].id
    assert record == RetentionRecord(
        session_id="s", action="redact", at=times.now, messages=2, attempts=0, sources=(source,)
    )
    assert found.version == before.version + 1
    assert found.extensions[source]["security"] == before.extensions[source]["security"]
    assert timed.enforce_retention() == ()
    assert timed.retention_records() == timed.retention_records("s") == (record,)
    assert timed.retention_records("other") == ()
    assert timed.search(SECRET) == ()


def test_what_comes_after_a_redaction_stays(timed: Store, times: Times) -> None:
    """The session goes on with its labels; new messages do not end with data that is gone."""
    chat(timed, times, max_age_seconds=3600)
    times.now += HOUR
    timed.enforce_retention()
    with ScriptedProvider("Of what?") as provider:
        session = Session.resume("s", timed, model=provider.model, clock=times, **settings(max_age_seconds=3600))
        assert session.labels == {"PII"}
        session.ask("Which number was it?")
    times.now += HOUR
    assert timed.enforce_retention() == ()
    assert texts(timed) == [*GONE, "Which number was it?", "Of what?"]


def test_sessions_with_such_data_are_deleted(timed: Store, times: Times) -> None:
    """Others stay; the record outlives its session."""
    chat(timed, times, max_age_seconds=3600)
    chat(timed, times, session_id="other", max_age_seconds=7200)
    timed.fork("s", new_session_id="fork")
    times.now += HOUR
    version = timed.record("s").version
    assert [each.session_id for each in timed.enforce_retention(action="delete", dry_run=True)] == ["fork", "s"]
    assert timed.record("s").version == version
    done = timed.enforce_retention(action="delete")
    assert [(each.session_id, each.messages) for each in done] == [("fork", 2), ("s", 2)]
    assert [each.id for each in timed.list().sessions] == ["other"]
    assert timed.retention_records() == done


@each_row(
    ("retention", "after", "is_due"),
    [
        ({}, 10_000 * HOUR, False),  # no end
        ({"delete_after": "2001-01-01"}, 0 * HOUR, True),  # a time
        ({"delete_after": "2999-01-01T00:00:00+02:00"}, HOUR, False),  # a later time
        ({"delete_after": "2999-01-01", "max_age_seconds": 60}, HOUR, True),  # the earlier of both
        ({"max_age_seconds": 2**53}, 10_000 * HOUR, False),  # an age beyond all times
        ({"policy": "transient"}, 0 * HOUR, True),  # at once
        ({"policy": "none", "max_age_seconds": 3600}, 0 * HOUR, True),  # never stored
        ({"policy": "session"}, 23 * HOUR, False),  # a session in use
        ({"policy": "session"}, 24 * HOUR, True),  # a session that is over
    ],
)
def test_every_policy_has_its_end(retention: dict[str, Any], after: timedelta, is_due: bool) -> None:
    """The strictest bound counts."""
    times = Times()
    with Store("sqlite://", clock=times) as store:
        chat(store, times, **retention)
        times.now += after
        assert bool(store.enforce_retention()) is is_due


def test_the_strictest_policy_of_a_message_counts_and_a_broken_time_is_over(timed: Store) -> None:
    """Whatever another program wrote into the extensions."""
    for number, kept in enumerate(
        ({"until": "tomorrow"}, {"until": 7}, {"session": True, "until": "2999-01-01T00:00Z"})
    ):
        message = Message.user(SECRET)
        timed.create(messages=[message], session_id=f"s{number}", extensions={message.id: {"retention": kept}})
    done = timed.enforce_retention(session_idle=timedelta(0))
    assert [each.session_id for each in done] == ["s0", "s1", "s2"]
    assert timed.search(SECRET) == ()


def test_a_wrong_time_is_refused_before_anything_is_sent(times: Times) -> None:
    with Store("sqlite://") as store:
        with pytest.raises(ConfigurationError, match="'look': delete_after"):
            chat(store, times, delete_after="tomorrow")
        with pytest.raises(StoreError, match="use redact or delete"):
            store.enforce_retention(action="shred")  # type: ignore[arg-type]


def test_an_async_store_does_the_same(times: Times) -> None:
    async def main() -> None:
        async with AsyncStore(Store("sqlite://", clock=times)) as store:
            chat(store.store, times, policy="none")
            (record,) = await store.enforce_retention()
            assert await store.retention_records("s") == (record,)

    asyncio.run(main())


def test_the_command_says_what_it_does(tmp_path: Any, times: Times) -> None:
    """A dry run changes nothing; it needs no clock of its own."""
    path = tmp_path / "chats.db"
    with Store(f"sqlite:///{path}") as store:
        chat(store, times, policy="none")
    run = CliRunner().invoke
    assert (
        "2 messages of 1 sessions would be redacted"
        in run(app, ["store", "retention", "-s", str(path), "--dry-run"]).output
    )
    done = run(app, ["store", "retention", "-s", str(path), "--json"])
    assert json.loads(done.output)["session_id"] == "s"
    assert "0 messages of 0 sessions deleted" in run(app, ["store", "retention", "-s", str(path), "--delete"]).output
    with Store(f"sqlite:///{path}") as store:
        assert texts(store) == GONE
