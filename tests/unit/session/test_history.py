"""The history of a session: its messages, and billed attempts that were not kept."""

from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import Usage
from dragoman.session.history import History


def reply(text: str) -> Message:
    usage = Usage(input_tokens=1)
    return Message.assistant(text, metadata=MessageMetadata(model="a:x", provider="a", usage=usage))


def test_what_was_billed_since_a_mark_has_both_messages_and_attempts() -> None:
    """What was billed since a mark has both messages and attempts in this order, and nothing from before the mark."""
    history = History([Message.user("1"), reply("One.")])
    history.attempts.record(reply("Old."))
    mark = history.mark()
    assert history.billed_since(mark) == []
    second, broken = reply("Two."), reply("Br")
    history.messages.append(second)
    history.attempts.record(broken)
    attempt = broken.model_copy(update={"content": ()})
    assert history.since(mark) == ((second,), (attempt,))
    assert history.billed_since(mark) == [second, attempt]
    assert history.billed == [*history.messages, *history.attempts.all]
    assert len(history.billed) == 5


def test_a_restored_history_has_its_attempts_and_labels() -> None:
    """Attempts replace those of the new session, labels are added to its own."""
    history = History([], extensions={"m1": "kept"})
    history.restore([reply("Old.")], {"m2": "restored"})
    assert [attempt.text for attempt in history.attempts.all] == ["Old."]
    assert history.extensions == {"m1": "kept", "m2": "restored"}
