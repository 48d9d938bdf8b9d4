"""Streams: deltas in every shape that servers send, and every way to end."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import (
    MalformedReplyError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    RequestCancelledError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.canonical.blocks import AudioBlock, ProviderBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.events import (
    ErrorEvent,
    MessageComplete,
    StreamEvent,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import Message, MessageStatus, StopReason
from tests.unit.adapters.openai_chat.wire import (
    DONE,
    adapter,
    context,
    encode_request,
    handwritten_call,
    handwritten_chunk,
    handwritten_reply,
    read,
    stream,
    stream_message,
)

HANDWRITTEN_CALLS = [
    handwritten_chunk({"role": "assistant", "content": None}),
    handwritten_chunk(handwritten_call("", id="call_1", type="function", name="weather")),
    handwritten_chunk(handwritten_call('{"city"')),
    handwritten_chunk(handwritten_call("", index=1, id="call_2", type="function", name="now")),
    handwritten_chunk(handwritten_call(':"Oslo"}')),
    handwritten_chunk(handwritten_call("{}", index=1)),
    handwritten_chunk({}, "tool_calls"),
    handwritten_chunk(usage={"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}),
    DONE,
]


def kinds(events: list[StreamEvent]) -> list[str]:
    return [event.type for event in events]


def calls(message: Message) -> list[tuple[str, dict[str, Any], str | None]]:
    return [(call.name, call.input, call.raw_input) for call in message.tool_uses]


def test_interleaved_calls_are_told_apart() -> None:
    """Fragments go to the call of their index; the events come call by call."""
    events = stream(HANDWRITTEN_CALLS)
    assert kinds(events) == [
        "message_start", "tool_use_start", "tool_use_input_delta", "tool_use_input_delta", "tool_use_end",
        "tool_use_start", "tool_use_input_delta", "tool_use_end", "usage_update", "message_complete",
    ]  # fmt: skip
    ends = [event for event in events if isinstance(event, ToolUseEnd)]
    assert [(end.content_block_index, end.final_input) for end in ends] == [(0, {"city": "Oslo"}), (1, {})]
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert [call.id for call in last.message.tool_uses] == [end.tool_use_id for end in ends]


@given(st.permutations([0, 0, 0, 1, 1, 1, 2, 2, 2]))
def test_the_index_of_parallel_calls_never_goes_down(order: list[int]) -> None:
    """Whatever the order in which the fragments of three calls arrive, their events come call by call, and each call
    has its own arguments."""
    arguments = ['{"a":', " 1", "}"]
    given, chunks = [0, 0, 0], []
    for number in order:
        first = {"id": f"call_{number}", "name": f"tool_{number}"} if given[number] == 0 else {}
        chunks.append(handwritten_chunk(handwritten_call(arguments[given[number]], number, **first)))
        given[number] += 1
    events = stream([*chunks, handwritten_chunk({}, "tool_calls"), DONE])
    indices = [
        event.content_block_index
        for event in events
        if isinstance(event, ToolUseStart | ToolUseInputDelta | ToolUseEnd)
    ]
    assert indices == sorted(indices)
    ends = [event for event in events if isinstance(event, ToolUseEnd)]
    assert [end.final_input for end in ends] == [{"a": 1}] * 3
    assert sorted(calls(stream_message([*chunks, handwritten_chunk({}, "tool_calls"), DONE]))) == [
        (f"tool_{number}", {"a": 1}, None) for number in range(3)
    ]


def test_a_stream_and_its_whole_reply_agree() -> None:
    """The message of a stream is that of the same reply in one piece, and goes back the same."""
    message = {"content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
    ]}  # fmt: skip
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    whole = read(handwritten_reply(message, "tool_calls", usage=usage))
    piecemeal = stream_message(HANDWRITTEN_CALLS)
    assert piecemeal == whole
    assert encode_request([piecemeal])[0] == encode_request([whole])[0]


HANDWRITTEN_DELTAS: list[tuple[str, list[dict[str, Any]], list[tuple[str, dict[str, Any], str | None]]]] = [
    ("a whole call in one delta", [handwritten_call('{"a":1}', id="c", name="f")], [("f", {"a": 1}, None)]),
    (
        "whole calls without an index",
        [handwritten_call('{"a":1}', None, id="", name="f"), handwritten_call('{"a":2}', None, id="", name="f")],
        [("f", {"a": 1}, None), ("f", {"a": 2}, None)],
    ),
    (
        "two calls under one index",
        [handwritten_call('{"a":1}', 0, id="c", name="f"), handwritten_call('{"a":2}', 0, id="d", name="g")],
        [("f", {"a": 1}, None), ("g", {"a": 2}, None)],
    ),
    (
        "an empty id and name in what goes on",
        [
            handwritten_call("", id="c", name="f"),
            handwritten_call('{"a"', id="", name=""),
            handwritten_call(":1}", id=None),
        ],
        [("f", {"a": 1}, None)],
    ),
    (
        "the name in every delta",
        [handwritten_call("", id="0", name="f"), handwritten_call("{}", id="0", name="f")],
        [("f", {}, None)],
    ),
    (
        "arguments before the name",
        [handwritten_call('{"a"', id="c"), handwritten_call(":1}", name="f")],
        [("f", {"a": 1}, None)],
    ),
    ("no arguments at all", [handwritten_call(None, id="c", name="f")], [("f", {}, None)]),
    ("malformed arguments", [handwritten_call('{"a":', id="c", name="f")], [("f", {}, '{"a":')]),
    (
        "the older form",
        [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"a":1}'}}],
        [("f", {"a": 1}, None)],
    ),
    (
        "a custom tool",
        [
            {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "sum", "input": "4"}}]},
            {"tool_calls": [{"index": 0, "custom": {"input": "+4"}}]},
        ],
        [("sum", {"input": "4+4"}, None)],
    ),
]


@pytest.mark.parametrize(
    ("deltas", "expected"), [case[1:] for case in HANDWRITTEN_DELTAS], ids=[c[0] for c in HANDWRITTEN_DELTAS]
)
def test_calls_are_assembled_from_any_shape_of_delta(
    deltas: list[dict[str, Any]], expected: list[tuple[str, dict[str, Any], str | None]]
) -> None:
    """Each call starts once, under its name, and ends once if its arguments are an object."""
    events = stream([*map(handwritten_chunk, deltas), handwritten_chunk({}, "tool_calls"), DONE])
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert calls(last.message) == expected
    assert last.message.stop_reason is StopReason.TOOL_USE
    started = [event.tool_use_id for event in events if isinstance(event, ToolUseStart)]
    ended = [event.tool_use_id for event in events if isinstance(event, ToolUseEnd)]
    assert started == [call.id for call in last.message.tool_uses]
    assert ended == [call.id for call in last.message.tool_uses if call.raw_input is None]


@pytest.mark.parametrize(("arguments", "kept"), [('{"a":', '{"a":'), ("", "")])
def test_a_truncated_call_never_ends(arguments: str, kept: str) -> None:
    """If the limit cut the call, neither half an object nor an empty text becomes its input."""
    events = stream(
        [handwritten_chunk(handwritten_call(arguments, id="c", name="f")), handwritten_chunk({}, "length"), DONE]
    )
    assert "tool_use_end" not in kinds(events)
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert calls(last.message) == [("f", {}, kept)]
    assert last.message.stop_reason is StopReason.MAX_TOKENS


def test_blocks_are_in_order_of_arrival() -> None:
    """Text after another kind of block is a new block, so indexes never decrease."""
    events = stream(
        [
            handwritten_chunk({"content": "", "reasoning": "a"}),
            handwritten_chunk({"content": "c", "reasoning": "b"}),
            handwritten_chunk({"content": "d"}),
            handwritten_chunk(handwritten_call("{}", id="c", name="f")),
            handwritten_chunk({"content": "e"}),
            handwritten_chunk({}, "tool_calls"),
            DONE,
        ]
    )
    last = events[-1]
    assert isinstance(last, MessageComplete)
    thinking, first, call, second = last.message.content
    assert thinking == ThinkingBlock(text="ab")
    assert (first, second) == (TextBlock(text="cd"), TextBlock(text="e"))
    assert isinstance(call, ToolUseBlock)


def test_reasoning_under_two_names_counts_once() -> None:
    """A reply with the same text under both names has it once."""
    both = {"reasoning": "Hm", "reasoning_content": "Hm", "content": None}
    message = stream_message(
        [handwritten_chunk(both), handwritten_chunk({"content": "Hi"}), handwritten_chunk({}, "stop"), DONE]
    )
    assert (message.thinking, message.text) == ("Hm", "Hi")


def test_unknown_fields_are_collected() -> None:
    """Strings join, lists grow, other values are replaced; a further choice is kept separately."""
    deltas: list[dict[str, Any]] = [{"poem": "a", "marks": [1], "mood": 1}, {"poem": "b", "marks": [2], "mood": 2}]
    message = stream_message(
        [
            *(handwritten_chunk(delta, obfuscation="xyz") for delta in deltas),
            handwritten_chunk({"content": "other"}, "stop", index=1),
            handwritten_chunk({"content": "Hi"}, "stop"),
            DONE,
        ]
    )
    raw = message.metadata.provider_raw
    assert raw is not None
    assert raw["message"] == {"poem": "ab", "marks": [1, 2], "mood": 2}
    assert raw["choices"] == [{"index": 1, "message": {"content": "other"}, "finish_reason": "stop"}]
    assert "obfuscation" not in raw["reply"]
    assert message.text == "Hi"


def test_logprobs_are_collected() -> None:
    """The tokens of all chunks are in one list."""
    choices = [
        {"delta": {"content": token}, "logprobs": {"content": [{"token": token}], "refusal": None}} for token in "ab"
    ]
    chunks = [b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n" for choice in choices]
    raw = stream_message([*chunks, handwritten_chunk({}, "stop"), DONE]).metadata.provider_raw
    assert raw is not None
    assert raw["choice"]["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}


def test_a_refusal_streams_as_text() -> None:
    """It is text, it is the stop reason, and it is sent back as a refusal."""
    message = stream_message(
        [handwritten_chunk({"refusal": "N"}), handwritten_chunk({"refusal": "o."}), handwritten_chunk({}, "stop"), DONE]
    )
    assert (message.text, message.stop_reason) == ("No.", StopReason.REFUSAL)
    assert encode_request([message])[0]["messages"] == [{"role": "assistant", "content": None, "refusal": "No."}]


def test_generated_audio_is_collected() -> None:
    """Sound and transcript come in fragments, the id once."""
    deltas = [
        {"audio": {"id": "a1"}},
        {"audio": {"data": "QU", "transcript": "He"}},
        {"audio": {"data": "JD", "transcript": "y"}},
    ]
    message = stream_message([*map(handwritten_chunk, deltas), handwritten_chunk({}, "stop"), DONE])
    (block,) = message.content
    assert isinstance(block, AudioBlock)
    assert (block.source.data, block.transcript) == ("QUJD", "Hey")


@pytest.mark.parametrize(
    "places", [[1], [0, 1, 2], [2, 2]], ids=["with the content", "in every chunk", "twice at the end"]
)
def test_the_last_usage_counts(places: list[int]) -> None:
    """The last counts apply; repeated counts cause no event."""
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    deltas: list[tuple[Any, str | None]] = [({"content": "H"}, None), ({"content": "i"}, "stop"), (None, None)]
    given: list[dict[str, Any]] = [{"usage": usage} if place in places else {} for place in range(3)]
    chunks = [handwritten_chunk(delta, finish, **extra) for (delta, finish), extra in zip(deltas, given, strict=True)]
    extra = [handwritten_chunk(usage=usage)] * (places.count(2) - 1)
    events = stream([*chunks, *extra, DONE])
    updates = [event for event in events if isinstance(event, UsageUpdate)]
    assert [update.usage.total_tokens for update in updates] == [12]
    last = events[-1]
    assert isinstance(last, MessageComplete)
    assert last.message.usage is not None
    assert last.message.usage.total_tokens == 12


def test_a_stream_without_usage_has_none() -> None:
    """Unknown is None, never 0."""
    assert stream_message([handwritten_chunk({"content": "Hi"}, "stop"), DONE]).usage is None


def test_a_finish_reason_sent_twice_ends_once() -> None:
    """Some routers repeat the last chunk with the usage."""
    call = handwritten_call("{}", id="c", name="f")
    events = stream(
        [
            handwritten_chunk(call, "tool_calls"),
            handwritten_chunk({"role": "assistant", "content": ""}, "tool_calls", usage={"prompt_tokens": 1}),
            DONE,
        ]
    )
    assert kinds(events).count("tool_use_end") == 1
    assert kinds(events)[-1] == "message_complete"


@pytest.mark.parametrize(
    "ending", [[], [b": ping\n\n"], [handwritten_chunk({}, "stop")]], ids=["cut", "ping", "no marker"]
)
def test_without_done_a_stream_is_truncated(ending: list[bytes]) -> None:
    """OpenAI always sends [DONE]: a stream without it is incomplete."""
    events = stream([handwritten_chunk({"content": "Hi"}), *ending])
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, StreamTruncatedError)
    assert last.partial is not None
    assert (last.partial.text, last.partial.metadata.status) == ("Hi", MessageStatus.ERROR)


def test_a_marker_without_a_choice_is_no_reply() -> None:
    """A stream without content and finish reason is not an empty answer."""
    (event,) = stream([handwritten_chunk(), DONE])
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, StreamTruncatedError)
    assert event.partial is None


def test_a_missing_finish_reason_is_accepted_with_a_marker() -> None:
    """The marker alone completes the reply, calls included."""
    events = stream([handwritten_chunk(handwritten_call("{}", id="c", name="f")), DONE])
    assert kinds(events)[-2:] == ["tool_use_end", "message_complete"]


def test_a_truncated_call_keeps_its_text() -> None:
    """A partial message runs nothing: the arguments so far are raw_input, even if they happen to parse."""
    events = stream([handwritten_chunk(handwritten_call('{"a":1}', id="c", name="f"))])
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    assert calls(last.partial) == [("f", {}, '{"a":1}')]
    assert "tool_use_end" not in kinds(events)


HANDWRITTEN_ERRORS: list[tuple[dict[str, Any], type[ProviderError]]] = [
    ({"error": {"message": "x", "type": "server_error", "param": None, "code": None}}, ServerError),
    (
        {"error": {"message": "x", "code": 429}, "choices": [{"index": 0, "delta": {}, "finish_reason": "error"}]},
        RateLimitError,
    ),
    ({"choices": [{"index": 0, "delta": {}, "error": {"code": 502, "message": "x"}}]}, ServerError),
    ({"error": "the model has crashed"}, ProviderError),
    ({"id": "x", "x_groq": {"error": {"type": "overloaded_error", "message": "x"}}}, OverloadedError),
]


@pytest.mark.parametrize(("frame", "kind"), HANDWRITTEN_ERRORS)
def test_an_error_frame_ends_the_stream(frame: dict[str, Any], kind: type[ProviderError]) -> None:
    """Errors under status 200 have the class that they have by HTTP, and the partial message."""
    events = stream([handwritten_chunk({"content": "Hi"}), b"data: " + json.dumps(frame).encode() + b"\n\n", DONE])
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, kind)
    assert last.partial is not None
    assert last.partial.text == "Hi"


def test_a_frame_named_error_is_an_error() -> None:
    """A frame with the event name error is an error, whatever its fields."""
    events = stream([b'event: error\ndata: {"message":"x","type":"overloaded_error"}\n\n'])
    (last,) = events
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, OverloadedError)


@pytest.mark.parametrize(
    "frame",
    [
        b"data: nonsense\n\n",
        b"data: []\n\n",
        b'data: {"choices":[1]}\n\n',
        b'data: {"choices":[{"delta":{"tool_calls":[1]}}]}\n\n',
    ],
)
def test_malformed_frames_are_a_typed_error(frame: bytes) -> None:
    """Invalid data is a MalformedReplyError, not a bare exception."""
    last = stream([handwritten_chunk({"content": "Hi"}), frame, DONE])[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, MalformedReplyError)


def test_arguments_after_the_end_are_ignored() -> None:
    """A call that was reported as finished cannot change."""
    call = handwritten_call("{}", id="c", name="f")
    events = stream([handwritten_chunk(call, "tool_calls"), handwritten_chunk(handwritten_call("{}")), DONE])
    last = events[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, MalformedReplyError)
    assert last.partial is not None
    assert calls(last.partial) == [("f", {}, None)]


@given(st.data())
def test_a_stream_cut_anywhere_is_never_a_success(data: st.DataObject) -> None:
    """However a stream is cut and re-chunked, only the whole one ends in a message."""
    body = b"".join(HANDWRITTEN_CALLS)
    marker = body.index(b"[DONE]") + len(b"[DONE]")
    cut = data.draw(st.integers(0, len(body)))
    split = data.draw(st.integers(0, cut))
    last = stream([body[:split], body[split:cut]])[-1]
    assert isinstance(last, MessageComplete if cut >= marker else ErrorEvent)


def test_comments_and_blank_data_are_ignored() -> None:
    """Keep-alives in all their forms have no effect."""
    noise = [b": OPENROUTER PROCESSING\n\n", b"data:\n\n", b"\n\n", handwritten_chunk()]
    assert stream_message([*noise, handwritten_chunk({"content": "Hi"}, "stop"), *noise, DONE], adapter()).text == "Hi"


def test_parts_of_any_kind_stream() -> None:
    """Texts in parts join, an unknown part is kept whole in its place, other fields of a call are kept."""
    smell = {"type": "smell", "smell": {"of": "tea"}}
    call = handwritten_call(None, id="c", name="f")
    call["tool_calls"][0]["extra_content"] = {"signature": "s"}
    call["tool_calls"][0]["function"]["arguments"] = {"a": 1}
    deltas: list[dict[str, Any]] = [
        {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}]},
        {"content": [{"type": "text", "text": "b"}, smell]},
        call,
    ]
    events = stream([*map(handwritten_chunk, deltas), handwritten_chunk({}, "tool_calls"), DONE])
    last = events[-1]
    assert isinstance(last, MessageComplete)
    text, part, used = last.message.content
    assert (text, part) == (
        TextBlock(text="ab"),
        ProviderBlock(provider="openai-chat", kind="smell", data=smell),
    )
    assert isinstance(used, ToolUseBlock)
    assert used.input == {"a": 1}
    assert [event.partial_json for event in events if isinstance(event, ToolUseInputDelta)] == ['{"a":1}']
    message = encode_request([last.message])[0]["messages"][0]
    assert message["content"] == [{"type": "text", "text": "ab"}, smell]
    assert message["tool_calls"][0]["extra_content"] == {"signature": "s"}


def test_a_stream_of_nothing_but_usage_still_starts() -> None:
    """Counts may come before the first choice, for example from a content filter."""
    events = stream([handwritten_chunk(usage={"prompt_tokens": 1}), handwritten_chunk({"content": "Hi"}, "stop"), DONE])
    assert kinds(events) == ["message_start", "usage_update", "text_delta", "message_complete"]


def test_a_cancelled_stream_keeps_its_content() -> None:
    """The caller's cancellation is not an error of the provider."""
    chat = adapter()
    decoder = chat.decoder(context(chat))
    decoder.feed(handwritten_chunk({"content": "Hi"}))
    (last,) = decoder.fail(RequestCancelledError("enough"))
    assert isinstance(last, ErrorEvent)
    assert last.partial is not None
    assert last.partial.metadata.status is MessageStatus.CANCELLED
    assert last.partial.stop_reason is StopReason.CANCELLED
