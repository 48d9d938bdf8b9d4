"""Streams under a policy: what is shown and when, and that no denied content is shown."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.canonical.events import MessageComplete, TextDelta, ThinkingDelta
from dragoman.canonical.message import Message, MessageStatus
from dragoman.policy import Pipeline, PolicyDeniedError
from tests.sampling import examples
from tests.unit.session.drivers import Driver, SyncDriver, Wire, types
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_overloaded
from tests.unit.session.middleware.policy_plugins import SECRET, DenyingPlugin, RecordingPlugin, RedactingPlugin

OUTPUT = "cmf.llm_output"
LONG = "All is well here. " * 6


def visible_text(events: Any) -> str:
    """The text and the thoughts that a caller of the stream has read."""
    return "".join(event.text for event in events if isinstance(event, (TextDelta, ThinkingDelta)))


def stream(driver: Driver, reply: Any, *plugins: Any) -> tuple[Any, list[Any]]:
    """The session, and the events of its first reply."""
    session = driver.session({"anthropic": Wire([reply])}, policy=Pipeline(plugins))
    return session, driver.stream(session, "Go", until="message_complete")


def test_without_a_window_nothing_is_shown_before_the_end(driver: Driver) -> None:
    """At the end the whole text is shown unchanged."""
    plain = driver.session({"anthropic": Wire([handwritten_anthropic(Thought("Hm."), LONG)])})
    expected = driver.stream(plain, "Go")
    seen = RecordingPlugin(hooks=[OUTPUT])
    _, events = stream(driver, handwritten_anthropic(Thought("Hm."), LONG), seen)
    assert types(events) == types(expected)
    assert visible_text(events) == visible_text(expected)
    assert not any(step.partial for step in seen.steps)


def test_a_window_is_held_back_and_the_rest_is_shown(driver: Driver) -> None:
    """The text comes in pieces, each checked before it is shown, and none is lost."""
    recording = RecordingPlugin(hooks=[OUTPUT], window=12)
    session, events = stream(driver, handwritten_anthropic(Thought(LONG), LONG, Call("toolu_1", "f")), recording)
    assert visible_text(events) == LONG + LONG
    assert len([event for event in events if isinstance(event, TextDelta)]) > 3
    assert [step.partial for step in recording.steps].count(False) == 1
    in_order = [kind for kind in types(events) if kind not in ("usage_update", "thinking_delta", "text_delta")]
    called = ["tool_use_start", "tool_use_input_delta", "tool_use_end"]
    assert in_order == ["message_start", *called, "message_complete"]
    assert session.messages[-1].thinking == LONG
    assert any(isinstance(event, ThinkingDelta) and event.signature for event in events)


@pytest.mark.parametrize("window", [None, 8, 30])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_denied_text_is_never_shown(driver: Driver, window: int | None, place: int) -> None:
    """In text, thinking and the arguments of a call, however the stream is cut."""
    word = SECRET
    parts: list[Any] = [Thought(LONG), LONG, Call("toolu_1", "f", {"text": LONG})]
    parts[place] = [Thought(LONG + word + LONG), LONG + word + LONG, Call("toolu_1", "f", {"text": word})][place]
    session = driver.session(
        {"anthropic": Wire([handwritten_anthropic(*parts)])}, policy=Pipeline([DenyingPlugin(word, window=window)])
    )
    seen: list[Any] = []
    with pytest.raises(PolicyDeniedError):
        _collect(driver, session, seen)
    assert not any(word[:4] in repr(event) for event in seen)
    assert session.messages == ()
    assert len(session.attempts) == 1


def _collect(driver: Driver, session: Any, seen: list[Any]) -> None:
    if isinstance(driver, SyncDriver):
        seen.extend(session.stream("Go"))
        return

    async def main() -> None:
        async for event in session.stream("Go"):
            seen.append(event)  # noqa: PERF401 - what was shown before an error counts

    driver.runner.run(main())


@pytest.mark.parametrize("window", [None, 8])
def test_changed_text_is_shown_changed(driver: Driver, window: int | None) -> None:
    """In text, thinking and arguments; what is shown adds up to what the history holds."""
    reply = handwritten_anthropic(Thought(LONG + SECRET), LONG + SECRET + LONG, Call("toolu_1", "f", {"text": SECRET}))
    session, events = stream(driver, reply, RedactingPlugin(window=window))
    assert SECRET[:4] not in repr(events)
    message = session.messages[1]
    assert visible_text(events).endswith(message.text)
    assert message.text == LONG + "***" + LONG
    assert message.tool_uses[0].input == {"text": "***"}


def test_an_abandoned_stream_keeps_what_plugins_left(driver: Driver) -> None:
    """The partial reply is judged too, although it was not shown yet; if it is denied, only its cost is kept."""
    reply = handwritten_anthropic(LONG + SECRET + LONG * 3)
    for plugin in (RedactingPlugin(window=8), DenyingPlugin(SECRET, window=8, hooks=[OUTPUT])):
        session = driver.session({"anthropic": Wire([reply])}, policy=Pipeline([plugin]))
        driver.stream(session, "Go", until="text_delta")
        assert SECRET not in repr(session.messages)
        assert all(message.metadata.status is not MessageStatus.COMPLETE for message in session.messages[1:])


@pytest.mark.parametrize("plugin", [RedactingPlugin(window=8), DenyingPlugin(SECRET, window=200, hooks=[OUTPUT])])
def test_a_broken_reply_is_judged_too(driver: Driver, plugin: Any) -> None:
    """The error's partial message holds what the plugins let pass."""
    frames = [*handwritten_anthropic(SECRET + " " + LONG).frames[:-4], handwritten_overloaded()]
    session = driver.session({"anthropic": Wire([frames] * 3)}, policy=Pipeline([plugin]))
    with pytest.raises(Exception, match="Overloaded") as broken:
        driver.stream(session, "Go")
    partial: Message = broken.value.partial  # type: ignore[attr-defined]
    assert ("*** " + LONG).startswith(partial.text)
    assert partial.metadata.status is MessageStatus.ERROR


@examples(60, deadline=None)
@given(
    words=st.lists(st.sampled_from(["a", "bb", SECRET, "no ", " ", "hunter", "\n", "2", "x" * 30]), max_size=40),
    window=st.integers(len(SECRET), 40),
    chunk=st.integers(40, 400),
)
def test_a_stream_and_a_whole_reply_agree(words: list[str], window: int, chunk: int) -> None:
    """The history does not depend on streaming, and what was shown is what the history holds."""
    text = "".join(words)
    if not text:
        return
    driver, reply = SyncDriver(), handwritten_anthropic(text)
    redacting = RedactingPlugin(window=window)
    whole = driver.session({"anthropic": Wire([reply])}, policy=Pipeline([redacting]))
    streamed = driver.session({"anthropic": Wire([reply], chunk=chunk)}, policy=Pipeline([redacting]))
    answer = driver.ask(whole, "Go")
    events = driver.stream(streamed, "Go")
    assert answer.text == text.replace(SECRET, "***") == streamed.messages[-1].text
    assert visible_text(events) == answer.text


@examples(60, deadline=None)
@given(before=st.text("ab \n", max_size=80), after=st.text("ab \n", max_size=80), window=st.integers(len(SECRET), 30))
def test_no_denied_text_is_shown_wherever_it_lies(before: str, after: str, window: int) -> None:
    """Not a single letter, if the text is not longer than the window."""
    driver = SyncDriver()
    wire = Wire([handwritten_anthropic(before + SECRET + after)])
    session = driver.session({"anthropic": wire}, policy=Pipeline([DenyingPlugin(SECRET, window=window)]))
    seen: list[Any] = []
    with pytest.raises(PolicyDeniedError):
        _collect(driver, session, seen)
    assert set(visible_text(seen)) <= set(before)
    assert (before + SECRET + after).startswith(visible_text(seen))


def test_a_plugin_that_exceeds_its_window_shows_no_more_than_declared(driver: Driver) -> None:
    """If the whole text is changed in another way than its pieces, the rest is only in the message."""

    class Late(RedactingPlugin):
        def check(self, step: Any) -> Any:
            return None if step.partial else super().check(step)

    session, events = stream(driver, handwritten_anthropic(LONG + SECRET), Late(window=10))
    assert SECRET not in visible_text(events)
    assert session.messages[-1].text == LONG + "***"
    assert isinstance(events[-1], MessageComplete)


def test_dropping_everything_leaves_an_empty_reply(driver: Driver) -> None:
    """The history holds the same."""

    class Dropping(RedactingPlugin):
        def check(self, step: Any) -> Any:
            return step.message.model_copy(update={"content": ()}) if step.message.role == "assistant" else None

    for window in (None, 8):
        session, events = stream(driver, handwritten_anthropic(LONG), Dropping(window=window))
        assert visible_text(events) == ""
        assert session.messages[-1].content == ()
