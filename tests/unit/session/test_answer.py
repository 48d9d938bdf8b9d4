"""An answer that has to be a message body: asked for, read, asked for again, and left as soon as it is certainly
invalid."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

import pytest

from dragoman.adapter.errors import RequestError
from dragoman.canonical.events import OutputPartial, TextDelta
from dragoman.canonical.message import MessageStatus
from dragoman.formats import MessageBody, MessageBodySchema, MessageBodySchemaPart
from dragoman.output.errors import OutputError
from dragoman.session import SessionEvent, tool
from tests.unit.session.drivers import Driver, Wire
from tests.unit.session.handwritten_replies import Call, Thought, handwritten_anthropic

CHAT = MessageBodySchema((MessageBodySchemaPart(content_type="text/*", required=True),))
CHAT_BODY = Annotated[MessageBody, CHAT]
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


def paths(error: OutputError) -> list[str]:
    return [str(problem).partition(":")[0] for problem in error.problems]


def test_the_schema_is_sent_and_the_answer_is_a_body(driver: Driver) -> None:
    """The JSON Schema of the body is sent, on a wire that has a field for it; the message is the model's text."""
    wire = Wire([handwritten_anthropic(Thought("Hm."), RIGHT)])
    reply = driver.ask(driver.session({"anthropic": wire}), "Which colour?", output=CHAT_BODY)
    assert wire.requests[0]["output_config"]["format"]["schema"]["properties"]["parts"]["type"] == "array"
    assert reply.text == RIGHT
    assert isinstance(reply.output, MessageBody)
    assert reply.output.text() == "Blue, as ever."


def test_an_invalid_answer_is_asked_for_again(driver: Driver) -> None:
    """With every violation, as for any other type; the invalid answer stays in the history."""
    wire = Wire([handwritten_anthropic(WRONG), handwritten_anthropic(RIGHT)])
    session = driver.session({"anthropic": wire})
    reply = driver.ask(session, "Which colour?", output=CHAT_BODY)
    assert reply.output.text() == "Blue, as ever."
    said = wire.requests[1]["messages"][-1]["content"]
    assert "$.parts[0]" in str(said)
    assert [str(message.role) for message in session.messages] == ["user", "assistant", "user", "assistant"]


def test_the_last_invalid_answer_raises_with_every_violation(driver: Driver) -> None:
    """It is kept, because it was billed."""
    session = driver.session({"anthropic": Wire([handwritten_anthropic(WRONG)])})
    with pytest.raises(OutputError) as caught:
        driver.ask(session, "Which colour?", output=CHAT_BODY, output_retries=0)
    assert paths(caught.value) == ["$.parts[0]", "$.parts[1]", "$"]
    assert caught.value.text == WRONG
    assert caught.value.reply.message == session.messages[-1]


def test_a_valid_stream_shows_its_parts(driver: Driver) -> None:
    """All of its events, whatever its pieces, and each part when it is complete."""
    wire = Wire([handwritten_anthropic(Thought("Hm."), RIGHT)], chunk=7)
    session = driver.session({"anthropic": wire})
    events = driver.stream(session, "Which colour?", output=CHAT_BODY)
    assert words(events) == RIGHT
    assert events[-1].type == "output_complete"
    assert events[-1].value.text() == "Blue, as ever."
    assert [event.value.text() for event in events if isinstance(event, OutputPartial)] == ["Blue, as ever."]


def test_an_invalid_stream_is_abandoned_at_once(driver: Driver) -> None:
    """At the start of a type that no part may have, if the model is not asked again: the rest is not shown, and the
    connection is released at once. The partial reply is kept, as for any abandoned stream.
    """
    wire = Wire([handwritten_anthropic(WRONG)])
    session = driver.session({"anthropic": wire})
    seen: list[Any] = []
    with pytest.raises(OutputError) as caught:
        driver.stream(session, "Which colour?", seen=seen, output=CHAT_BODY, output_retries=0)
    shown = words(seen)
    assert WRONG.startswith(shown)
    assert '"i' not in shown
    assert paths(caught.value) == ["$.parts[0]"]
    assert caught.value.reply is None
    (_, left) = session.messages
    assert left.metadata.status is MessageStatus.CANCELLED
    assert left.text.startswith(shown)
    assert len(left.text) <= len(shown) + 4
    assert wire.bodies[0].closed


def test_a_stream_that_is_asked_for_again_is_read_to_its_end(driver: Driver) -> None:
    """The model has to know all that is wrong; the second answer ends as soon as it is certainly wrong."""
    wire = Wire([handwritten_anthropic(WRONG), handwritten_anthropic(WRONG)])
    session = driver.session({"anthropic": wire})
    with pytest.raises(OutputError) as caught:
        driver.stream(session, "Which colour?", output=CHAT_BODY)
    assert [message.metadata.status for message in session.messages[1::2]] == [
        MessageStatus.COMPLETE,
        MessageStatus.CANCELLED,
    ]
    assert paths(caught.value) == ["$.parts[0]"]


def test_a_missing_part_is_an_error_at_the_end(driver: Driver) -> None:
    """The next part might have been the missing one."""
    seen: list[Any] = []
    session = driver.session({"anthropic": Wire([handwritten_anthropic('{"parts": []}')])})
    with pytest.raises(OutputError, match="it lacks a part without a name of the type text"):
        driver.stream(session, "Which colour?", seen=seen, output=CHAT_BODY, output_retries=0)
    assert words(seen) == '{"parts"'


def test_text_before_a_call_is_no_answer(driver: Driver) -> None:
    """With tools, a reply is judged when it is complete: it may still call one."""
    replies = [handwritten_anthropic("I look it up.", Call("toolu_1", "look")), handwritten_anthropic(RIGHT)]
    session = driver.session({"anthropic": Wire(replies)}, tools=[look])
    events = driver.stream(session, "Which colour?", output=CHAT_BODY, output_retries=0)
    assert [event.type for event in events].count("message_complete") == 2
    assert events[-1].value.text() == "Blue, as ever."


def test_a_refusal_is_not_asked_again(driver: Driver) -> None:
    """A refusal with a call runs nothing, and is not a body."""
    refused = handwritten_anthropic("No.", Call("toolu_1", "look"), stop="refusal")
    session = driver.session({"anthropic": Wire([refused, refused])}, tools=[look])
    for ask in (driver.ask, driver.stream):
        with pytest.raises(OutputError, match="the model refused to answer"):
            ask(session, "Which colour?", output=CHAT_BODY)


def test_a_truncated_answer_is_reported(driver: Driver) -> None:
    """The partial text of a truncated answer is in the history, streamed or whole."""
    cut = handwritten_anthropic(RIGHT[:20], stop="max_tokens")
    session = driver.session({"anthropic": Wire([cut, cut])})
    for ask in (driver.ask, driver.stream):
        with pytest.raises(OutputError, match="the answer was cut at the limit of output tokens"):
            ask(session, "Which colour?", output=CHAT_BODY, output_retries=0)
        assert session.messages[-1].text == RIGHT[:20]


def test_an_output_schema_is_a_json_schema(driver: Driver) -> None:
    """Anything else is refused before it is sent, with what to write."""
    wire = Wire([])
    session = driver.session({"anthropic": wire})
    wrong: Any
    for wrong in (CHAT, []):
        for ask in (driver.ask, driver.stream):
            with pytest.raises(RequestError, match=f"not a value of the class {type(wrong).__name__}"):
                ask(session, "Which colour?", output_schema=wrong)
    assert wire.requests == []
    assert session.messages == ()
