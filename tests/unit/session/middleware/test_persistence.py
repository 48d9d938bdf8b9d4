"""Sessions and their store: each turn is stored while it runs, and a later program continues the session."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.routing import Router
from dragoman.session import AsyncSession, Session, tool
from dragoman.store import ConflictError, SessionNotFoundError, Store
from tests.store.turns import rows
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama


@tool(side_effects="none")
def look(at: str) -> str:
    """Look at something."""
    return f"{at}: fine"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(f"sqlite:///{tmp_path / 'chats.db'}", synchronous="normal") as store:
        yield store


def resume(driver: Driver, store: Store, wires: dict[str, Wire], **settings: Any) -> Any:
    """The session as a new program would have it."""
    fresh = driver.session(wires)
    settings = {"providers": fresh.providers, "tools": [look], **settings}
    if isinstance(fresh, Session):
        return Session.resume("sess_1", store, **settings)
    return asyncio.run(AsyncSession.resume("sess_1", store, **settings))


def test_a_turn_is_stored_when_it_ends(driver: Driver, store: Store) -> None:
    """With its calls, results and ids, each step by itself; a session without a turn is not stored."""
    wire = Wire([handwritten_anthropic(Call("toolu_1", "look", {"at": "a"})), handwritten_anthropic("Fine.")])
    session = driver.session({"anthropic": wire}, tools=[look], store=store, user_id="u1", system="Be brief.")
    with pytest.raises(SessionNotFoundError):
        store.load("sess_1")
    driver.ask(session, "Look at a.")
    kept = store.load("sess_1")
    assert kept.messages == session.messages
    steps = 5  # the prompt, the call, its start, its result, and the answer
    assert (kept.version, kept.model, kept.record.user_id, kept.turn) == (steps, ANTHROPIC, "u1", None)
    assert kept.tool_ids == session.tool_ids.dump()


def test_the_workspace_and_the_routing_policy_are_stored(driver: Driver, store: Store, tmp_path: Path) -> None:
    """A later program reads them from the record; without either the columns are empty."""
    router = Router(global_default=OLLAMA)
    wire = Wire([handwritten_anthropic("Fine."), handwritten_anthropic("Fine.")])
    driver.ask(driver.session({"anthropic": wire}, store=store, workspace=tmp_path, router=router), "Hi")
    driver.ask(driver.session({"anthropic": wire}, store=store, session_id="sess_2"), "Hi")
    record = store.load("sess_1").record
    assert record.workspace == str(tmp_path)
    assert record.routing_policy is not None
    assert Router.from_configuration(record.routing_policy).configuration == router.configuration
    other = store.load("sess_2").record
    assert (other.workspace, other.routing_policy) == (None, None)


def test_another_program_continues_with_the_same_prefix(driver: Driver, store: Store) -> None:
    """On the same provider byte for byte, and on another with the ids that it was sent before."""
    wires = {
        "anthropic": Wire([handwritten_anthropic(Call("toolu_1", "look", {"at": "a"})), handwritten_anthropic("1.")]),
        "ollama": Wire([handwritten_ollama("2.")]),
    }
    session = driver.session(wires, tools=[look], store=store)
    driver.ask(session, "Look at a.")
    session.swap(OLLAMA)
    driver.ask(session, "And?")

    later = {"anthropic": Wire([handwritten_anthropic("3.")]), "ollama": Wire([handwritten_ollama("4.")])}
    again = resume(driver, store, later)
    assert (again.model, again.messages) == (OLLAMA, session.messages)
    driver.ask(again, "Still there?")
    before, after = wires["ollama"].requests[-1]["messages"], later["ollama"].requests[-1]["messages"]
    assert json.dumps(after[: len(before)]) == json.dumps(before)
    again.swap(ANTHROPIC)
    driver.ask(again, "And you?")
    before, after = wires["anthropic"].requests[-1]["messages"], later["anthropic"].requests[-1]["messages"]
    assert json.dumps(after[: len(before)]) == json.dumps(before)
    assert store.load("sess_1").messages == again.messages


@pytest.mark.parametrize("prompts", [1, 2])
def test_a_turn_can_be_stored_as_a_whole(driver: Driver, store: Store, prompts: int) -> None:
    """With durability="turn" it is one transaction, and a turn that fails stores nothing."""
    replies = [handwritten_anthropic(Call("toolu_1", "look", {"at": "a"})), handwritten_anthropic("Fine.")]
    wire = Wire([*replies * prompts, *[ConnectionError("no")] * 3])
    session = driver.session({"anthropic": wire}, tools=[look], store=store, durability="turn")
    for _ in range(prompts):
        driver.ask(session, "Look at a.")
    with pytest.raises((ProviderError, ConnectionError)):
        driver.ask(session, "Hi")
    kept = store.load("sess_1")
    assert (kept.version, kept.turn, kept.messages) == (prompts, None, session.messages)
    with pytest.raises(ConfigurationError, match="use step or turn"):
        driver.session({}, durability="never")


def test_two_programs_do_not_overwrite_each_other(driver: Driver, store: Store) -> None:
    """The second program to begin a turn gets an error before it sends anything."""
    session = driver.session({"anthropic": Wire([handwritten_anthropic("1.")])}, store=store)
    driver.ask(session, "One?")
    first = resume(driver, store, {"anthropic": Wire([handwritten_anthropic("2.")])})
    wire = Wire([handwritten_anthropic("II.")])
    second = resume(driver, store, {"anthropic": wire})
    driver.ask(first, "Two?")
    with pytest.raises(ConflictError):
        driver.ask(second, "Two?")
    assert (wire.requests, second.messages) == ([], session.messages)
    assert store.load("sess_1").messages == first.messages


def test_a_partial_reply_is_stored(store: Store) -> None:
    """The part of a reply that had arrived, with its status, at the latest when the session is closed."""
    driver = SyncDriver()
    session = driver.session({"anthropic": Wire([handwritten_anthropic("One two three.")], chunk=90)}, store=store)
    events = session.stream("Count.")
    for event in events:
        if event.type == "text_delta":
            break
    session.close()
    kept = store.load("sess_1").messages
    assert [message.metadata.status for message in kept] == ["complete", "cancelled"]


def test_a_failed_turn_is_closed(driver: Driver, store: Store) -> None:
    """It leaves nothing in the history, and the next turn is a new one. Its attempts stay."""
    session = driver.session({"anthropic": Wire([ConnectionError("no")] * 3)}, store=store)
    with pytest.raises((ProviderError, ConnectionError)):
        driver.ask(session, "Hi")
    kept = store.load("sess_1")
    assert (kept.messages, kept.turn, session.unfinished, store.unfinished()) == ((), None, None, ())
    (turn,) = rows(store, "SELECT state, error, prompt_json, attempts_json FROM turns")
    assert turn[:2] == ("failed", "NetworkError")
    assert [message["content"][0]["text"] for message in json.loads(turn[2])] == ["Hi"]
    assert {(each["model"], each["cost_usd"]) for each in json.loads(turn[3])} == {(ANTHROPIC, None)}


def test_resuming_needs_a_session_and_a_model(store: Store) -> None:
    """A session without a known model needs a model, and a fork is resumed by its own id."""
    with pytest.raises(SessionNotFoundError):
        Session.resume("sess_0", store)
    store.create(None, session_id="sess_2")
    with pytest.raises(ConfigurationError, match="has no model"):
        Session.resume("sess_2", store)
    with Session.resume("sess_2", store, model=ANTHROPIC) as session:
        assert (session.session_id, session.model) == ("sess_2", ANTHROPIC)


def test_a_resumed_session_has_its_user(store: Store) -> None:
    """Unless another user continues it."""
    store.create(ANTHROPIC, session_id="sess_3", user_id="u3", team_id="t3")
    session = Session.resume("sess_3", store, team_id="t4")
    assert (session.user_id, session.team_id) == ("u3", "t4")
