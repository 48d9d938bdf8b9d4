"""An answer that has to be a message body: requested, read, and cancelled as soon as it is certain to be invalid."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.events import TextDelta
from dragoman.canonical.message import MessageStatus
from dragoman.formats import MessageBodyError, MessageBodySchema, MessageBodySchemaPart
from dragoman.session import SessionEvent, tool
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic, handwritten_ollama

CHAT = MessageBodySchema((MessageBodySchemaPart(content_type="text/*", required=True),))
RIGHT = json.dumps({"parts": [{"contentType": "text/plain", "content": "Blue, as ever."}]})
WRONG = json.dumps(
    {"parts": [{"contentType": "image/png", "contentUrl": "https://example.org/a.png"}, {"contentType": "text/plain"}]}
)


@tool
def look() -> str:
    """Look up."""
    return "blue"


def words(events: Iterable[SessionEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_the_answer_schema_is_sent_and_the_answer_read(driver: Driver) -> None:
    """The JSON Schema of the body is sent, on a wire that has a field for it; the message is the model's text."""
    wire = Wire([handwritten_anthropic(Thought("Hm."), RIGHT)])
    reply = driver.ask(driver.session({"anthropic": wire}), "Which colour?", output_schema=CHAT)
    assert wire.requests[0]["output_config"]["format"]["schema"]["properties"]["parts"]["type"] == "array"
    assert reply.text == RIGHT
    assert CHAT.read(reply.message).text() == "Blue, as ever."


def test_a_session_may_always_request_bodies(driver: Driver) -> None:
    """A turn can turn that off; the preview shows the request as it is sent."""
    options: Any = {"output_schema": CHAT}
    wire = Wire([handwritten_ollama(RIGHT), handwritten_ollama("Blue."), handwritten_ollama("Blue.")])
    session = driver.session({"ollama": wire}, OLLAMA, options=AdapterOptions(**options))
    assert session.preview(ANTHROPIC).fits
    assert CHAT.read(driver.ask(session, "Which colour?").message).text() == "Blue, as ever."
    assert driver.ask(session, "And now?", output_schema=None).text == "Blue."
    assert ["format" in request for request in wire.requests] == [True, False]
    with pytest.raises(MessageBodyError):
        driver.ask(session, "And now?")


def test_an_invalid_answer_raises_with_every_violation_and_stays(driver: Driver) -> None:
    """It is kept, because it was billed, and the model can be asked to correct it."""
    wire = Wire([handwritten_anthropic(WRONG), handwritten_anthropic(RIGHT)])
    session = driver.session({"anthropic": wire})
    with pytest.raises(MessageBodyError) as caught:
        driver.ask(session, "Which colour?", output_schema=CHAT)
    assert [each.path for each in caught.value.violations] == ["$.parts[0]", "$.parts[1]", "$"]
    assert caught.value.reply == session.messages[-1]
    assert [str(message.role) for message in session.messages] == ["user", "assistant"]
    reply = driver.ask(session, f"That was wrong: {caught.value}", output_schema=CHAT)
    assert CHAT.read(reply.message).text() == "Blue, as ever."


def test_a_valid_stream_is_shown_to_its_end(driver: Driver) -> None:
    """All of its events, whatever its pieces."""
    wire = Wire([handwritten_anthropic(Thought("Hm."), RIGHT)], chunk=7)
    session = driver.session({"anthropic": wire})
    events = driver.stream(session, "Which colour?", output_schema=CHAT)
    assert words(events) == RIGHT
    assert events[-1].type == "message_complete"


def test_an_invalid_stream_is_abandoned_at_once(driver: Driver) -> None:
    """At the start of a type that no part may have: the rest is not shown, and the connection is released at once. The
    partial reply is kept, as for any abandoned stream.
    """
    wire = Wire([handwritten_anthropic(WRONG)])
    session = driver.session({"anthropic": wire})
    seen: list[Any] = []
    with pytest.raises(MessageBodyError) as caught:
        driver.stream(session, "Which colour?", seen=seen, output_schema=CHAT)
    shown = words(seen)
    assert WRONG.startswith(shown)
    assert '"i' not in shown
    assert [each.path for each in caught.value.violations] == ["$.parts[0]"]
    assert caught.value.reply is None
    (_, left) = session.messages
    assert left.metadata.status is MessageStatus.CANCELLED
    assert left.text.startswith(shown)
    assert len(left.text) <= len(shown) + 4
    assert wire.bodies[0].closed


def test_a_missing_part_is_an_error_at_the_end(driver: Driver) -> None:
    """Not before: the next part might have been it."""
    seen: list[Any] = []
    session = driver.session({"anthropic": Wire([handwritten_anthropic('{"parts": []}')])})
    with pytest.raises(MessageBodyError, match="it lacks a part without a name of the type text"):
        driver.stream(session, "Which colour?", seen=seen, output_schema=CHAT)
    assert words(seen) == '{"parts"'


def test_text_before_a_call_is_no_answer(driver: Driver) -> None:
    """With tools, a reply is validated when it is complete: it may still call one."""
    replies = [handwritten_anthropic("I look it up.", Call("toolu_1", "look")), handwritten_anthropic(RIGHT)]
    session = driver.session({"anthropic": Wire(replies)}, tools=[look])
    events = driver.stream(session, "Which colour?", output_schema=CHAT)
    assert [event.type for event in events].count("message_complete") == 2
    assert CHAT.read(session.messages[-1]).text() == "Blue, as ever."


def test_the_last_reply_is_the_answer_even_with_calls(driver: Driver) -> None:
    """A refusal with a call runs nothing, and is no body."""
    refused = handwritten_anthropic("No.", Call("toolu_1", "look"), stop="refusal")
    session = driver.session({"anthropic": Wire([refused, refused])}, tools=[look])
    for ask in (driver.ask, driver.stream):
        with pytest.raises(MessageBodyError, match="the reply ended with refusal"):
            ask(session, "Which colour?", output_schema=CHAT)


def test_a_truncated_answer_is_reported(driver: Driver) -> None:
    """Streamed or whole, and with its partial text in the history."""
    cut = handwritten_anthropic(RIGHT[:20], stop="max_tokens")
    session = driver.session({"anthropic": Wire([cut, cut])})
    for ask in (driver.ask, driver.stream):
        with pytest.raises(
            MessageBodyError, match=r"not complete|before it is complete \(the reply ended with max_tokens"
        ):
            ask(session, "Which colour?", output_schema=CHAT)
        assert session.messages[-1].text == RIGHT[:20]


def test_an_invalid_schema_is_refused_before_anything_is_sent(driver: Driver) -> None:
    """The error names its type."""
    wire = Wire([])
    session = driver.session({"anthropic": wire})
    for ask in (driver.ask, driver.stream):
        with pytest.raises(RequestError, match="a MessageBodySchema, not a list"):
            ask(session, "Which colour?", output_schema=[])
    assert wire.requests == []
    assert session.messages == ()
