"""Replies of Mistral: thinking in parts, references, both kinds of arguments, and its stop reasons."""

import json
from typing import Any

import pytest

from dragoman.adapter.errors import (
    AuthenticationError,
    ContextOverflowError,
    InvalidRequestError,
    ProviderError,
    RateLimitError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.canonical.blocks import Citation, TextBlock, ThinkingBlock
from dragoman.canonical.events import ErrorEvent, TextDelta, ThinkingDelta
from dragoman.canonical.message import Message, StopReason
from dragoman_adapters.mistral.adapter import MistralAdapter
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    encode_request,
    handwritten_call,
    handwritten_chunk,
    handwritten_reply,
    read,
    stream,
    stream_message,
)

ADAPTER = MistralAdapter("mistral-medium-latest")
REFERENCE = {"type": "reference", "reference_ids": [0, 2]}
THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}], "closed": True}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_content_may_be_a_list() -> None:
    """Thinking is a separate block; the reply is sent back unchanged."""
    content = [THINKING, text("Hi")]
    message = read(handwritten_reply({"content": content}), ADAPTER)
    assert message.content == (ThinkingBlock(text="Hm"), TextBlock(text="Hi"))
    assert encode_request([message, Message.user("?")], ADAPTER)[0]["messages"][0]["content"] == content


def test_references_are_citations_of_the_text_before_them() -> None:
    """They are its citations, and return to their places when the reply is sent back."""
    content = [text("Paris"), REFERENCE, REFERENCE, text(" is big")]
    message = read(handwritten_reply({"content": content}), ADAPTER)
    cited = Citation(kind="reference", data=REFERENCE)
    assert message.content == (TextBlock(text="Paris", citations=(cited, cited)), TextBlock(text=" is big"))
    body, wire = encode_request([message, Message.user("?")], ADAPTER)
    assert body["messages"][0]["content"] == content
    assert not wire.losses


def test_a_reference_without_text_is_kept() -> None:
    """As a separate part, which only Mistral can read."""
    content = [REFERENCE, text("Hi")]
    message = read(handwritten_reply({"content": content}), ADAPTER)
    assert [block.type for block in message.content] == ["provider", "text"]
    assert encode_request([message, Message.user("?")], ADAPTER)[0]["messages"][0]["content"] == content


def test_a_stream_and_its_whole_reply_agree() -> None:
    """Content comes as texts or as lists of parts, and a text after a reference is a new block."""
    chunks = [
        handwritten_chunk({"content": [{"type": "thinking", "thinking": [text("H")]}]}),
        handwritten_chunk({"content": [{"type": "thinking", "thinking": [text("m")], "closed": True}]}),
        handwritten_chunk({"content": "Par"}),
        handwritten_chunk({"content": [text("is"), REFERENCE]}),
        handwritten_chunk({"content": [REFERENCE]}),
        handwritten_chunk({"content": " is big"}, "stop"),
        DONE,
    ]
    events = stream(chunks, ADAPTER)
    assert [event.text for event in events if isinstance(event, ThinkingDelta)] == ["H", "m"]
    deltas = [(event.content_block_index, event.text) for event in events if isinstance(event, TextDelta)]
    assert deltas == [(1, "Par"), (1, "is"), (2, " is big")]
    whole = read(
        handwritten_reply({"content": [THINKING, text("Paris"), REFERENCE, REFERENCE, text(" is big")]}), ADAPTER
    )
    assert stream_message(chunks, ADAPTER) == whole


@pytest.mark.parametrize("arguments", ['{"city": "Paris"}', {"city": "Paris"}])
def test_arguments_are_text_or_an_object(arguments: Any) -> None:
    call = {"id": "abcdefghi", "function": {"name": "weather", "arguments": arguments}, "index": 0}
    whole = read(handwritten_reply({"content": "", "tool_calls": [call]}, "tool_calls"), ADAPTER)
    piecemeal = stream_message(
        [handwritten_chunk(handwritten_call(arguments, id="abcdefghi", name="weather"), "tool_calls"), DONE], ADAPTER
    )
    for message in (whole, piecemeal):
        assert [(use.name, use.input) for use in message.tool_uses] == [("weather", {"city": "Paris"})]
        assert message.stop_reason is StopReason.TOOL_USE


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("model_length", StopReason.CONTEXT_OVERFLOW),
    ],
)
def test_stop_reasons_are_read(finish: str, reason: StopReason) -> None:
    """model_length is the window of the model, not the requested limit."""
    assert read(handwritten_reply({"content": "Hi"}, finish), ADAPTER).stop_reason is reason


def test_a_failed_reply_is_an_error() -> None:
    """In a whole reply or in the middle of a stream, whose partial message is kept."""
    with pytest.raises(ServerError):
        read(handwritten_reply({"content": "Hi"}, "error"), ADAPTER)
    last = stream([handwritten_chunk({"content": "Hi"}), handwritten_chunk({}, "error"), DONE], ADAPTER)[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, ServerError)
    assert last.partial is not None
    assert last.partial.text == "Hi"


def test_an_error_object_ends_a_stream() -> None:
    """It is recognised without a field named error."""
    error = {"object": "error", "message": "Slow down", "type": "rate_limit_error", "code": "1300"}
    last = stream([handwritten_chunk({"content": "Hi"}), b"data: " + json.dumps(error).encode() + b"\n\n"], ADAPTER)[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, RateLimitError)


def test_a_stream_without_its_marker_is_truncated() -> None:
    last = stream([handwritten_chunk({"content": "Hi"}, "stop")], ADAPTER)[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, StreamTruncatedError)


FIELD_REQUIRED = {"type": "missing", "loc": ["body", "messages", 0], "msg": "Field required", "input": {}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "expected"),
    [
        (
            400,
            {"object": "error", "message": "Invalid model: x", "type": "invalid_model", "code": "1500"},
            InvalidRequestError,
            "Invalid model: x",
        ),
        (
            400,
            {"object": "error", "message": "Prompt is too large for model with 32768 maximum context length"},
            ContextOverflowError,
            "maximum context length",
        ),
        (422, {"detail": [FIELD_REQUIRED]}, InvalidRequestError, "body.messages.0: Field required"),
        (
            422,
            {"object": "error", "message": {"detail": [FIELD_REQUIRED]}, "type": "invalid_request_error"},
            InvalidRequestError,
            "body.messages.0: Field required",
        ),
        (422, {"detail": ["no", {"msg": "never"}]}, InvalidRequestError, "no; never"),
        (401, {"detail": "Unauthorized"}, AuthenticationError, "Unauthorized"),
        (429, {"message": "Requests rate limit exceeded"}, RateLimitError, "rate limit"),
        (503, b"<html>", ProviderError, "<html>"),
    ],
)
def test_errors_of_all_shapes_are_read(status: int, body: Any, kind: type[ProviderError], expected: str) -> None:
    """Errors of all shapes are read: its own shape, that of its web framework, and bodies without one."""
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = ADAPTER.error(status, given, {"mistral-correlation-id": "id-1"})
    assert isinstance(error, kind)
    assert expected in error.message
    assert (error.status, error.request_id) == (status, "id-1")
