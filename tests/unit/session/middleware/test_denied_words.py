"""What a policy denies, or takes out, is stored nowhere: neither with a session nor beside it."""

from pathlib import Path
from typing import Any, Literal

import pytest

from dragoman import Message
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.store import Store
from tests.unit.session.drivers import Driver, Wire
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RedactingPlugin


def look() -> str:
    """Looks."""
    return f"It is {SECRET}."


def given() -> list[Message]:
    """A conversation from elsewhere, with the word in it."""
    return [Message.user(f"I am {SECRET}."), Message.assistant("Hello.")]


def open_store(folder: Path) -> Store:
    return Store(f"sqlite:///{folder / 'chats.db'}")


def stored(folder: Path) -> bytes:
    """Return the bytes of the database, with those that wait to be written into it."""
    return b"".join(each.read_bytes() for each in sorted(folder.iterdir()))


@pytest.mark.parametrize("durability", ["step", "turn"])
@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("what", ["messages", "prompt", "result", "reply"])
def test_what_is_denied_is_stored_nowhere(
    driver: Driver, what: str, streams: bool, durability: Literal["step", "turn"], tmp_path: Path
) -> None:
    """Given messages, a question, what a tool returns, and a reply."""
    replies = [handwritten_anthropic(f"It is {SECRET}." if what == "reply" else "Fine."), handwritten_anthropic("Yes.")]
    if what == "result":
        replies = [handwritten_anthropic(Call("toolu_1", "look")), *replies]
    settings: dict[str, Any] = {"messages": given()} if what == "messages" else {}
    with open_store(tmp_path) as store:
        session = driver.session(
            {"anthropic": Wire(replies)},
            policy=Pipeline([DenyingPlugin(SECRET)]),
            store=store,
            durability=durability,
            tools=[look],
            **settings,
        )
        with pytest.raises(PolicyDeniedError):
            (driver.stream if streams else driver.ask)(session, SECRET if what == "prompt" else "Hi")
        if what != "messages":
            driver.ask(session, "And now?")
        assert SECRET.encode() not in stored(tmp_path)
    assert SECRET.encode() not in stored(tmp_path)


@pytest.mark.parametrize("durability", ["step", "turn"])
def test_what_is_taken_out_is_stored_nowhere(
    driver: Driver, durability: Literal["step", "turn"], tmp_path: Path
) -> None:
    """What is stored is what the plugins left, also of messages that a session was given."""
    replies = [handwritten_anthropic(Call("toolu_1", "look")), handwritten_anthropic(f"It is {SECRET}.")]
    with open_store(tmp_path) as store:
        session = driver.session(
            {"anthropic": Wire(replies)},
            policy=Pipeline([RedactingPlugin(SECRET)]),
            store=store,
            durability=durability,
            messages=given(),
            tools=[look],
        )
        driver.ask(session, f"Is it {SECRET}?")
    found = stored(tmp_path)
    assert SECRET.encode() not in found
    assert b"***" in found
