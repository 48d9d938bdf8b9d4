"""Chunks to events for Cohere's chat."""

import pytest

from dragoman.adapter.errors import MalformedReplyError, ServerError, StreamTruncatedError
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ToolUseBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    UsageUpdate,
)
from dragoman.canonical.message import Message, StopReason
from tests.unit.adapters.cohere.wire import (
    ADAPTER,
    START,
    Native,
    call,
    context,
    end,
    event,
    read,
    reply,
    sse,
    stream,
    text,
)

COUNTS = {"billed_units": {"input_tokens": 3, "output_tokens": 2}}
SOURCE = {"start": 0, "end": 2, "text": "Hi", "sources": [], "type": "TEXT_CONTENT", "content_index": 1}

PARTS = [
    event("tool-plan-delta", tool_plan="I will"),
    event("tool-plan-delta", tool_plan=""),
    event("tool-plan-delta", tool_plan=" look."),
    event("content-start", 0, content={"type": "thinking", "thinking": ""}),
    event("content-delta", 0, content={"thinking": "Hm."}),
    event("content-end", 0),
    event("content-start", 1, content={"type": "text", "text": "H"}),
    event("content-delta", 1, content={"text": "i"}),
    event("citation-start", 0, citations=SOURCE),
    event("citation-end", 0),
    event("content-end", 1),
    event("tool-call-start", 0, tool_calls=call("")),
    event("tool-call-delta", 0, tool_calls={"function": {"arguments": '{"city":'}}),
    event("tool-call-delta", 0, tool_calls={"function": {"arguments": '"Paris"}'}}),
    event("tool-call-end", 0),
]


def complete(events: list[StreamEvent]) -> Message:
    assert isinstance(events[-1], MessageComplete), events[-1]
    return events[-1].message


def failure(events: list[StreamEvent]) -> ErrorEvent:
    assert isinstance(events[-1], ErrorEvent), events[-1]
    return events[-1]


def test_a_stream_has_the_content_of_its_events() -> None:
    """Content and calls, which the wire counts separately, share one index by arrival."""
    events = stream(*PARTS, end("TOOL_CALL", usage=COUNTS))
    message = complete(events)
    assert [block.type for block in message.content] == ["thinking", "thinking", "text", "tool_use"]
    assert (message.thinking, message.text) == ("I will look.Hm.", "Hi")
    assert [each.content_block_index for each in events if isinstance(each, TextDelta)] == [2, 2]
    assert [each.content_block_index for each in events if isinstance(each, ThinkingDelta)] == [0, 0, 1]
    (ended,) = (each for each in events if isinstance(each, ToolUseEnd))
    assert (ended.tool_use_id, ended.final_input) == (message.tool_uses[0].id, {"city": "Paris"})
    assert "".join(each.partial_json for each in events if isinstance(each, ToolUseInputDelta)) == '{"city":"Paris"}'
    assert isinstance(events[-2], UsageUpdate)
    assert message.stop_reason is StopReason.TOOL_USE
    (text_block,) = (block for block in message.content if isinstance(block, TextBlock))
    assert [each.data for each in text_block.citations] == [SOURCE]


def test_a_stream_and_its_whole_reply_agree() -> None:
    """Block by block, for streams whose order whole replies share."""
    streamed = complete(stream(*PARTS[3:11], *PARTS[:3], *PARTS[11:], end("TOOL_CALL", usage=COUNTS)))
    whole = reply(
        "TOOL_CALL",
        content=[{"type": "thinking", "thinking": "Hm."}, text("Hi")],
        tool_plan="I will look.",
        tool_calls=[call()],
        citations=[SOURCE],
    )
    assert streamed.content == read({**whole, "usage": COUNTS}).content


def test_a_stream_without_message_end_is_truncated() -> None:
    """The error has the partial message, and an unfinished call does not run."""
    failed = failure(stream(*PARTS[6:8], *PARTS[11:13]))
    assert isinstance(failed.error, StreamTruncatedError)
    assert failed.partial is not None
    text_block, called = failed.partial.content
    assert isinstance(text_block, TextBlock)
    assert isinstance(called, ToolUseBlock)
    assert (text_block.text, called.input, called.raw_input) == ("Hi", {}, '{"city":')


def test_a_done_marker_is_no_end() -> None:
    """[DONE] may follow the end, but does not replace it."""
    events = list(ADAPTER.iter_stream([sse([START]), b"data: [DONE]\n\n"], context()))
    assert isinstance(failure(events).error, StreamTruncatedError)


def test_an_empty_stream_has_no_partial_message() -> None:
    """There is no content for one."""
    failed = failure(list(ADAPTER.iter_stream([b""], context())))
    assert failed.partial is None


ERRORS: list[Native] = [
    {"type": "error", "message": "internal server error"},
    {"id": "e_1", "message": "internal server error"},
    end("ERROR", error="internal server error"),
]


@pytest.mark.parametrize("native", ERRORS)
def test_an_error_in_mid_stream_is_typed(native: Native) -> None:
    failed = failure(stream(*PARTS[6:8], native))
    assert isinstance(failed.error, ServerError)
    assert "internal server error" in str(failed.error)
    assert failed.partial is not None


BROKEN: list[list[Native]] = [
    [START],
    [*PARTS[6:8], PARTS[6]],
    [*PARTS[6:8], PARTS[10], PARTS[7]],
    [*PARTS[6:8], PARTS[10], PARTS[10]],
    [*PARTS[11:15], PARTS[14]],
    [*PARTS[11:15], PARTS[13]],
    [PARTS[12]],
    [PARTS[7]],
    [PARTS[3], event("content-delta", 0, content={"text": "x"})],
]


@pytest.mark.parametrize("events", BROKEN)
def test_events_that_do_not_fit_together_are_malformed(events: list[Native]) -> None:
    assert isinstance(failure(stream(*events, end())).error, MalformedReplyError)


def test_events_before_the_start_are_malformed() -> None:
    events = list(ADAPTER.iter_stream([sse([end()])], context()))
    assert isinstance(failure(events).error, MalformedReplyError)


def test_unknown_events_are_ignored_and_unknown_parts_kept() -> None:
    """A part of a new type comes whole in its start."""
    native = {"type": "hologram", "data": 1}
    message = complete(stream({"type": "debug"}, event("content-start", 0, content=native), PARTS[5], end()))
    assert message.content == (ProviderBlock(provider="cohere", kind="hologram", data=native),)


def test_malformed_arguments_stay_text() -> None:
    """They stay text, as they came."""
    events = stream(event("tool-call-start", 0, tool_calls=call("{half")), PARTS[14], end("TOOL_CALL"))
    assert not [each for each in events if isinstance(each, ToolUseEnd)]
    (called,) = complete(events).tool_uses
    assert (called.input, called.raw_input) == ({}, "{half")
