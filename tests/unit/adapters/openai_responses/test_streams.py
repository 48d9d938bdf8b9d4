"""Streams: events as data arrives, the whole message at the end, and never a false end."""

import json
import logging
from collections.abc import Sequence

import pytest

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter import errors
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import MessageStatus, StopReason
from tests.unit.adapter.replies.fold_deltas import fold_deltas
from tests.unit.adapters.openai_responses.handwritten import (
    CALL,
    MESSAGE,
    REASONING,
    SEARCH,
    STARTED,
    USAGE,
    Event,
    added,
    completed,
    done,
    event,
    handwritten_llama,
    handwritten_nameless,
    handwritten_never_done,
    handwritten_only_the_end,
    handwritten_only_whole_items,
    handwritten_whole,
)
from tests.unit.adapters.openai_responses.wire import ADAPTER, context, read, response, sse, stream, text_item

WHOLE = [
    handwritten_whole,
    handwritten_llama,
    handwritten_nameless,
    handwritten_only_the_end,
    handwritten_only_whole_items,
    handwritten_never_done,
]


def complete_message(events: Sequence[StreamEvent]) -> Message:
    assert isinstance(events[-1], MessageComplete), events[-1]
    return events[-1].message


def indexes(events: Sequence[StreamEvent]) -> list[int]:
    return [event.content_block_index for event in events if hasattr(event, "content_block_index")]


def test_a_stream_reports_each_change_once() -> None:
    """Deltas carry only new content, under the index of their block."""
    m, call = "00000000000000000000000001", "tu_00000000000000000000000002"
    assert stream(handwritten_whole)[:-2] == [
        MessageStart(m, "gpt-5.4"),
        ThinkingDelta(m, 0, "Fi"),
        ThinkingDelta(m, 0, "rst"),
        ThinkingDelta(m, 0, "\n\nthen"),
        ThinkingDelta(m, 0, "", "gAAA-done"),
        TextDelta(m, 2, "Hel"),
        TextDelta(m, 2, "lo"),
        TextDelta(m, 3, "No."),
        ToolUseStart(m, 4, call, "weather"),
        ToolUseInputDelta(m, 4, call, '{"city":'),
        ToolUseInputDelta(m, 4, call, '"Paris"}'),
        ToolUseEnd(m, 4, call, {"city": "Paris"}),
    ]


def test_a_stream_and_its_whole_reply_agree() -> None:
    """They agree, including the raw fields; the signature is the one of the events."""
    events = stream(handwritten_whole)
    message = complete_message(events)
    whole = read(response([REASONING, SEARCH, MESSAGE, CALL], usage=USAGE))
    assert message == whole
    assert message.metadata.provider_raw == whole.metadata.provider_raw
    assert message.stop_reason is StopReason.TOOL_USE
    (update,) = [event for event in events if isinstance(event, UsageUpdate)]
    assert update.usage.total_tokens == 5


@pytest.mark.parametrize("events", WHOLE)
@pytest.mark.parametrize("named", [True, False])
def test_the_deltas_add_up_to_the_message(events: list[Event], named: bool) -> None:
    """In every dialect, with and without event names and a [DONE]: indexes never decrease, and no part is missing."""
    raw = sse(events, named=named) + b"data: [DONE]\n\n"
    found = list(ADAPTER.iter_stream([raw], context()))
    content = complete_message(found).content
    blocks = [block for block in content if not isinstance(block, ProviderBlock)]
    bare = [block.model_copy(update={"citations": ()}) if isinstance(block, TextBlock) else block for block in blocks]
    assert fold_deltas(found) == tuple(bare)
    assert indexes(found) == sorted(indexes(found))
    calls = [block for block in content if isinstance(block, ToolUseBlock)]
    ends = [event for event in found if isinstance(event, ToolUseEnd)]
    assert [(end.tool_use_id, end.final_input) for end in ends] == [(call.id, call.input) for call in calls]
    for end in ends:
        assert content[end.content_block_index].type == "tool_use"


@pytest.mark.parametrize("events", WHOLE)
def test_a_truncated_stream_is_an_error_with_the_partial_message(events: list[Event]) -> None:
    """Cut before any event, it ends with StreamTruncated; a call that was cut keeps its arguments as text."""
    for end in range(len(events)):
        found = stream(events[:end])
        assert isinstance(found[-1], ErrorEvent)
        assert isinstance(found[-1].error, errors.StreamTruncatedError)
        partial = found[-1].partial
        assert (partial is None) == (end == 0)
        if partial is None:
            continue
        assert partial.metadata.status is MessageStatus.ERROR
        ended = {event.tool_use_id for event in found if isinstance(event, ToolUseEnd)}
        for call in partial.tool_uses:
            assert (call.raw_input is None) or call.id not in ended
            assert call.raw_input is not None or call.input


def test_a_partial_message_holds_every_fragment() -> None:
    """Text with its citations, refusals, reasoning, half a call, and half the input of a native one."""
    custom = {"id": "ctc_1", "type": "custom_tool_call", "name": "sh", "call_id": "c", "input": ""}
    events = [
        *handwritten_whole[:7],
        *(given for given in handwritten_whole[8:22] if given["type"] != "response.output_item.done"),
        added(4, custom),
        event("custom_tool_call_input.delta", 4, item_id="ctc_1", delta="ls "),
        event("custom_tool_call_input.delta", 4, item_id="ctc_1", delta="-l"),
    ]
    last = stream(events)[-1]
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    thought, _, text_part, refused, call, native = last.partial.content
    assert thought == ThinkingBlock(text="First\n\nthen", signature=None)
    assert isinstance(text_part, TextBlock)
    assert (text_part.text, text_part.citations[0].url) == ("Hello", "https://a.test")
    assert refused == TextBlock(text="No.")
    assert isinstance(call, ToolUseBlock)
    assert (call.input, call.raw_input) == ({}, '{"city":')
    assert native == ProviderBlock(provider="openai", kind="custom_tool_call", data={**custom, "input": "ls -l"})


def test_an_open_call_delays_the_next() -> None:
    """Calls may arrive interleaved; the events of one call are complete before the next begins."""
    second = {**CALL, "id": "fc_2", "call_id": "call_2", "name": "time", "arguments": "{}"}
    events = [
        STARTED,
        added(0, {**CALL, "arguments": ""}),
        added(1, {**second, "arguments": ""}),
        event("function_call_arguments.delta", 1, item_id="fc_2", delta="{}"),
        event("function_call_arguments.delta", 0, item_id="fc_1", delta=CALL["arguments"]),
        done(1, second),
        done(0, CALL),
        completed([CALL, second]),
    ]
    seen = [
        (given.type, given.content_block_index) for given in stream(events) if hasattr(given, "content_block_index")
    ]
    kinds = ("tool_use_start", "tool_use_input_delta", "tool_use_end")
    assert seen == [(kind, index) for index in (0, 1) for kind in kinds]


def test_late_reasoning_is_left_to_the_message() -> None:
    """Reasoning that ends after the text keeps its signature in the message; the indexes do not decrease."""
    message = text_item("Hi")
    events = [
        STARTED,
        added(0, {**REASONING, "summary": []}),
        added(1, {**message, "content": []}),
        event("output_text.delta", 1, item_id="msg_1", content_index=0, delta="Hi"),
        done(1, message),
        done(0, REASONING),
        completed([REASONING, message]),
    ]
    found = stream(events)
    assert indexes(found) == [1]
    assert complete_message(found).content == (
        ThinkingBlock(text="First\n\nthen", signature="gAAA-done"),
        TextBlock(text="Hi"),
    )


@pytest.mark.parametrize(("arguments", "status"), [('{"city":', "completed"), ("{}", "incomplete")])
def test_a_call_without_complete_arguments_never_ends(arguments: str, status: str) -> None:
    """Malformed or cut off by the provider: no end event, and nothing runs."""
    call = {**CALL, "arguments": arguments, "status": status}
    found = stream([STARTED, added(0, {**CALL, "arguments": ""}), done(0, call), completed([call])])
    assert not [given for given in found if isinstance(given, ToolUseEnd)]
    assert complete_message(found).tool_uses[0].raw_input == arguments


def test_an_incomplete_response_is_a_whole_message() -> None:
    """It stopped early, and its stop reason is known."""
    why = {"reason": "max_output_tokens"}
    reply = response([text_item("Hi")], status="incomplete", incomplete_details=why)
    last = {"type": "response.incomplete", "response": reply}
    assert complete_message(stream([STARTED, last])).stop_reason is StopReason.MAX_TOKENS


ERRORS: list[tuple[Event, type[errors.ProviderError]]] = [
    (
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow", "param": None, "sequence_number": 3},
        errors.RateLimitError,
    ),
    ({"type": "error", "error": {"code": "server_error", "message": "oops"}}, errors.ServerError),
    ({"error": {"code": "context_length_exceeded", "message": "long"}}, errors.ContextOverflowError),
    (
        {
            "type": "response.failed",
            "response": response([], status="failed", error={"code": "server_error", "message": "oops"}),
        },
        errors.ServerError,
    ),
    ({"type": "response.output_text.delta", "delta": 1, "output_index": 0}, errors.MalformedReplyError),
    ({"type": "response.function_call_arguments.delta", "delta": "x", "output_index": 7}, errors.MalformedReplyError),
    (event("output_text.delta", 0, content_index=10**9, delta="x"), errors.MalformedReplyError),
]


@pytest.mark.parametrize(("failing", "kind"), ERRORS)
def test_an_error_inside_a_stream_is_the_last_event(failing: Event, kind: type[errors.ProviderError]) -> None:
    """In each form it has the class that the same error has by HTTP, with the partial message."""
    item = added(0, {**text_item(""), "content": []})
    text_part = event("output_text.delta", 0, item_id="msg_1", content_index=0, delta="Hi")
    raw = sse([STARTED, item, text_part]) + sse([failing], named=False) + sse([completed([])])
    *_, last = ADAPTER.iter_stream([raw], context())
    assert isinstance(last, ErrorEvent)
    assert type(last.error) is kind
    assert last.partial is not None
    assert last.partial.text == "Hi"


def test_an_unknown_event_is_ignored_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Progress events of native items are known and cause none."""
    unknown = {"type": "response.telepathy.delta", "delta": "?"}
    known = event("shell_call_command.delta", 0, delta="ls")
    with caplog.at_level(logging.WARNING, logger="dragoman.adapter"):
        found = stream([STARTED, unknown, known, unknown, completed([text_item("Hi")])])
    assert complete_message(found).text == "Hi"
    assert [record.message for record in caplog.records] == [
        "openai: the stream event 'response.telepathy.delta' is unknown to this version and is ignored"
    ]


def test_a_second_response_in_one_stream_is_not_read() -> None:
    """The first terminal event ends the reply: recordings with several responses are joined replies to requests."""
    first, second = ([
        {"type": "response.created", "response": {"id": name, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": f"m_{name}",
         "role": "assistant", "content": []}},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": name},
        {"type": "response.completed", "response": {"id": name, "status": "completed", "output": []}},
    ] for name in ("one", "two"))  # fmt: skip
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in (*first, *second)).encode()
    model = "openai:gpt-5.4"
    for chunks in ([body], [body[place : place + 7] for place in range(0, len(body), 7)]):
        events = list(get_adapter(model).iter_stream(chunks, RequestContext.for_model(model)))
        assert [event.type for event in events if event.type == "message_complete"] == ["message_complete"]
        last = events[-1]
        assert isinstance(last, MessageComplete)
        assert last.message.text == "one"


def test_an_output_without_a_call_id_is_kept() -> None:
    """The SDK's type has the field as optional. It goes back as it came."""
    item = {"type": "function_call_output", "output": "3"}
    body = {"model": "gpt-5.4", "input": [item], "previous_response_id": "resp_1"}
    adapter = get_adapter("openai:gpt-5.4")
    wire = adapter.to_wire(*adapter.from_wire_request(body, RequestContext.for_model("openai:gpt-5.4")))
    assert json.loads(wire.body)["input"] == [item]
