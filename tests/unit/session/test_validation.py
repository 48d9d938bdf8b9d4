"""Mistakes in a session's arguments are reported by name when it is created, without quoting a value."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.events import EventBus
from dragoman.policy import Pipeline
from dragoman.session import AsyncSession, Budget, Session, tool
from dragoman.store import AsyncStore, Store
from tests.tables import each_row

MODEL = "anthropic:claude-opus-5-5"


def look(path: str) -> str:
    """Look."""
    return path


@each_row("kind", [Session, AsyncSession])
@each_row(
    ("name", "value", "message_pattern"),
    [
        ("options", {"temperature": 0}, "class AdapterOptions, not .*: create one with"),
        ("limits", 60, "class Limits, not"),
        ("router", "sonnet", "class Router, not"),
        ("events", print, "class EventBus, not"),
        ("policy", [], r"class Pipeline, not .*: create one with Pipeline\(\[...\]\)"),
        ("extensions", {"security": {}}, "class Extensions, not"),
        ("tool_ids", {}, "class ToolIdMap, not"),
        ("tools", look, r"write tools=\[...\]"),
        ("tools", "look", r"write tools=\[...\]"),
        ("tools", tool(look), r"write tools=\[...\]"),
        ("tools", ["look"], "a tool must be a function"),
        ("messages", Message.user("my secret"), r"write messages=\[...\]"),
        ("messages", ["my secret"], r"messages\[0\]: .* is not a Message: dragoman.formats reads"),
        ("messages", [{"role": "user", "content": "my secret"}], r"messages\[0\]"),
        ("budgets", Budget(usd="5"), r"write budgets=\[...\]"),
        ("fetch", "https://a.example", "must be a function"),
        ("approve", "yes", "must be a function"),
        ("clock", 5, "must be a function"),
        ("store", "sqlite:///my secret.db", "create one with Store"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused(kind: Any, name: str, value: Any, message_pattern: str) -> None:
    with pytest.raises(ConfigurationError, match=message_pattern) as refused:
        kind(MODEL, **{name: value})
    assert name in str(refused.value) or "a tool" in message_pattern
    assert "secret" not in str(refused.value)


def test_an_async_store_is_refused() -> None:
    """A session could not write to it; both kinds of sessions accept the store that it wraps."""
    with Store("sqlite://") as store, pytest.raises(ConfigurationError, match=r"must be a Store, not .* AsyncStore"):
        AsyncSession(MODEL, store=AsyncStore(store))  # type: ignore[arg-type]


@pytest.mark.parametrize("store", ["sqlite:///my secret.db", Path("my secret.db"), None, 5])
def test_resuming_needs_a_store(store: Any) -> None:
    """Whoever opens a store closes it."""
    expected = r"store must be a Store, not .*: create one with Store\('sqlite:///chats.db'\)"
    with pytest.raises(ConfigurationError, match=expected) as refused:
        Session.resume("sess_1", store)
    assert "secret" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=expected):
        asyncio.run(AsyncSession.resume("sess_1", store))


def test_valid_arguments_are_accepted() -> None:
    with Session(
        MODEL,
        tools=(each for each in (look,)),
        messages=iter([Message.user("Hi")]),
        budgets={Budget(usd="5")},
        options=AdapterOptions(temperature=0),
        events=EventBus(),
        policy=Pipeline([]),
        approve=None,
    ) as session:
        assert [message.text for message in session.messages] == ["Hi"]
        assert [definition.name for definition in session.toolbox.definitions] == ["look"]


def test_an_unknown_side_effect_is_refused() -> None:
    """The error lists the valid ones."""
    with pytest.raises(ConfigurationError, match="'reads' is not a side effect: use one of none, read, write"):
        tool(side_effects="reads")(look)
