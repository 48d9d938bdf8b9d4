"""Messages, replies and sessions in a notebook: IPython asks for ``_repr_html_``."""

import sys

import pytest

from dragoman.canonical import message
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.session import AsyncSession, Reply, Session
from dragoman.view.page import environment, fragment

TALK = (
    Message.user("How far is it? <script>alert(1)</script>"),
    Message.assistant([ToolUseBlock(id="tu_1", name="distance", input={"to": "Bern"})]),
    Message.tool("tu_1", "116 km"),
    Message.assistant("It is 116 km."),
)


def test_a_reply_shows_the_turn() -> None:
    """All messages, a call with its result, and no markup from inside a message."""
    shown = Reply(output="It is 116 km.", messages=TALK)._repr_html_()
    assert shown is not None
    for text in ("How far is it?", "distance", "116 km", "It is 116 km."):
        assert text in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_a_message_shows_itself() -> None:
    """A message shows itself: one message, without styles or scripts of its own."""
    shown = TALK[0]._repr_html_()
    assert shown is not None
    assert shown.count("<p><b>") == 1
    assert "<style" not in shown


@pytest.mark.parametrize("kind", [Session, AsyncSession])
def test_a_session_shows_its_history(kind: type[Session] | type[AsyncSession]) -> None:
    """Escaped, as a reply is; without messages IPython shows the repr."""
    shown = kind("local:smollm2-135m", messages=TALK)._repr_html_()
    assert shown is not None
    assert "It is 116 km." in shown
    assert "<script>" not in shown
    assert "messages:" not in shown
    assert kind("local:smollm2-135m")._repr_html_() is None


def test_a_long_session_shows_its_end() -> None:
    """A cell's output is stored with the notebook. A result stays with its call."""
    session = Session("local:smollm2-135m", messages=[each for _ in range(30) for each in (*TALK, TALK[0])])
    shown = session._repr_html_()
    assert shown is not None
    assert "The last 20 of 150 messages:" in shown
    assert shown.count("116 km.") == 4
    session = Session("local:smollm2-135m", messages=[*TALK[:2], *TALK[2:3] * 2, *[TALK[0]] * 18])
    assert "The last 18 of 22 messages:" in (session._repr_html_() or "")


def test_a_message_prints_as_its_text_and_its_repr_is_one_line() -> None:
    """print(message) shows the text; the repr names role and kinds of blocks."""
    assert str(TALK[3]) == "It is 116 km."
    assert repr(TALK[1]) == "Message(assistant, '', tool_use)"
    assert len(repr(Message.user("word\n" * 100))) < 120
    assert "\n" not in repr(Message.user("word\n" * 100))


def test_without_jinja_there_is_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython then shows the repr."""
    environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert fragment(TALK) is None
    environment.cache_clear()


def test_without_a_renderer_there_is_no_html(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canonical form imports nothing of the page: a renderer that is not installed is None."""
    monkeypatch.setattr(message, "entry_points", lambda **_: ())
    message._renderer.cache_clear()
    assert TALK[0]._repr_html_() is None
    message._renderer.cache_clear()
