"""The store against a model that is too simple to be wrong."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test

from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import TextBlock
from dragoman.canonical.message import Message
from dragoman.store import ConflictError, SessionNotFoundError, Store
from dragoman.store.rows import fold
from dragoman.testing import strategies
from tests.store.databases import SKIP_REASON, postgres_place, postgres_url


@dataclass
class Expected:
    version: int = 0
    model: str | None = None
    messages: list[Message] = field(default_factory=list)
    attempts: list[Message] = field(default_factory=list)
    inherited: int = 0
    tool_ids: ToolIdMap = field(default_factory=ToolIdMap)


def with_session(message: Message, session_id: str) -> Message:
    return message if message.session_id else message.model_copy(update={"session_id": session_id})


def move_to(message: Message, old: str, new: str) -> Message:
    return message.model_copy(update={"session_id": new}) if message.session_id == old else message


turns = st.lists(strategies.messages, max_size=3)
native_ids = st.lists(strategies.texts, max_size=2)


class Machine(RuleBasedStateMachine):
    url = "sqlite://"
    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.store = _shared_rows(self.url)
        self.expected: dict[str, Expected] = {}

    @rule(target=sessions, model=st.none() | strategies.texts, added=turns, broken=turns)
    def create(self, model: str | None, added: list[Message], broken: list[Message]) -> str:
        made = self.store.create(model, added, attempts=broken)
        messages = [with_session(message, made.id) for message in added]
        attempts = [with_session(message, made.id) for message in broken]
        self.expected[made.id] = Expected(1 if added or broken else 0, model, messages, attempts)
        return made.id

    @rule(
        session_id=sessions,
        added=turns,
        broken=turns,
        stale=st.integers(-1, 1),
        natives=st.lists(strategies.texts, max_size=2),
    )
    def append(
        self, session_id: str, added: list[Message], broken: list[Message], stale: int, natives: list[str]
    ) -> None:
        state = self.expected.get(session_id)
        if state is None:
            with pytest.raises(SessionNotFoundError):
                self.store.append(session_id, added, expected_version=0)
            return
        ids = ToolIdMap.load(state.tool_ids.dump())
        for native in natives:
            ids.receive("anthropic", native)
        arguments: dict[str, Any] = {"tool_ids": ids, "attempts": broken, "expected_version": state.version + stale}
        if stale:
            with pytest.raises(ConflictError):
                self.store.append(session_id, added, **arguments)
            return
        state.version = self.store.append(session_id, added, model="m", **arguments)
        state.model, state.tool_ids = "m", ids
        state.messages += [with_session(message, session_id) for message in added]
        state.attempts += [with_session(message, session_id) for message in broken]

    @rule(target=sessions, session_id=sessions, share=st.floats(0, 1))
    def fork(self, session_id: str, share: float) -> str:
        state = self.expected.get(session_id)
        if state is None or not state.messages:
            return session_id
        count = 1 + int(share * (len(state.messages) - 1))
        made = self.store.fork(session_id, state.messages[count - 1].id)
        kept = [move_to(message, session_id, made.id) for message in state.messages[:count]]
        self.expected[made.id] = replace(
            state, version=0, messages=kept, attempts=[], inherited=count,
            tool_ids=ToolIdMap.load(state.tool_ids.dump()),
        )  # fmt: skip
        return made.id

    @rule(session_id=consumes(sessions))
    def delete(self, session_id: str) -> None:
        if self.expected.pop(session_id, None) is None:
            with pytest.raises(SessionNotFoundError):
                self.store.delete(session_id)
        else:
            self.store.delete(session_id)

    @rule(target=sessions, session_id=sessions)
    def export_and_import(self, session_id: str) -> str:
        state = self.expected.get(session_id)
        if state is not None:
            lines = list(self.store.export(session_id))
            self.store.delete(session_id)
            assert self.store.import_lines(lines).version == state.version
        return session_id

    @rule(text=st.text(max_size=3) | st.sampled_from(["ello", "H", "b"]))
    def search(self, text: str) -> None:
        found = {(hit.session_id, hit.seq) for hit in self.store.search(text, limit=1000)}
        if text.isascii() and len(fold(text)) == len(text) and "\0" not in text and text:
            expected = {
                (session_id, seq)
                for session_id, state in self.expected.items()
                for seq, message in enumerate(state.messages)
                if any(
                    text.lower() in expected.text.lower()
                    for expected in message.content
                    if isinstance(expected, TextBlock)
                )
            }
            assert found >= expected
        else:
            assert all(session_id in self.expected for session_id, _ in found)

    @invariant()
    def everything_is_as_expected(self) -> None:
        for session_id, state in self.expected.items():
            found = self.store.load(session_id)
            assert (found.version, found.model, found.inherited) == (state.version, state.model, state.inherited)
            assert found.messages == tuple(state.messages)
            assert found.attempts == tuple(state.attempts)
            assert found.tool_ids["issued"] == state.tool_ids.dump()["issued"]
        listed = {record.id: record.version for record in self.store.list(limit=1000).sessions}
        assert listed == {session_id: state.version for session_id, state in self.expected.items()}

    def teardown(self) -> None:
        for record in self.store.list(limit=1000).sessions:
            self.store.delete(record.id)


_stores: dict[str, Store] = {}


def _shared_rows(url: str) -> Store:
    """One store for all examples: each leaves it empty."""
    if url not in _stores:
        _stores[url] = Store(url)
    return _stores[url]


def run(url: str, count: int) -> None:
    machine = type("MachineHere", (Machine,), {"url": url})
    few = settings(max_examples=count, stateful_step_count=15)
    try:
        run_state_machine_as_test(machine, settings=few)
    finally:
        _stores.pop(url).close()


def test_sqlite_does_as_the_model(exhaustive: bool) -> None:
    run("sqlite://", 25 if exhaustive else 5)


def test_postgresql_does_as_the_model(exhaustive: bool) -> None:
    server = postgres_url()
    if server is None:
        pytest.skip(SKIP_REASON)
    with postgres_place(server) as url:
        run(url, 25 if exhaustive else 5)
