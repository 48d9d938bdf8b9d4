"""The wire of the local adapter: bodies, replies, streams and errors."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.errors import (
    ContextOverflowError,
    InvalidRequestError,
    MalformedReplyError,
    NotFoundError,
    ProviderError,
    RequestError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.replies.stream_decoder import replay
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ToolUseBlock
from dragoman.canonical.events import ErrorEvent, MessageComplete
from dragoman.canonical.message import Message, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.local.reply import merge_lines
from dragoman.testing.strategies import histories
from tests.unit.adapter.replies.fold_deltas import fold_deltas

MODEL = "local:smollm2-135m"
ADAPTER = get_adapter(MODEL)
TOOL = ToolDefinition(name="read_file", description="Read a file")


def context() -> RequestContext:
    return RequestContext(model=MODEL)


tool_choices = st.none() | st.sampled_from(["auto", "none", "required", NamedTool("read_file")])
options = st.builds(
    AdapterOptions,
    max_output_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 50),
    seed=st.none() | st.integers(0, 9),
    stop_sequences=st.lists(st.text(min_size=1, max_size=3), max_size=2).map(tuple),
    tool_choice=tool_choices,
    parallel_tool_calls=st.none() | st.booleans(),
    output_schema=st.none() | st.just({"type": "object"}),
    stream=st.booleans(),
)


@given(histories(), st.sampled_from([(), (TOOL,)]), options)
def test_a_body_is_rewritten_unchanged(
    history: list[Message], tools: tuple[ToolDefinition, ...], chosen: AdapterOptions
) -> None:
    """Every history becomes a body, and the body has everything that is needed to write it again."""
    body = ADAPTER.to_wire(history, tools, chosen).body
    assert body == ADAPTER.to_wire(history, tools, chosen).body
    messages, read_tools, read_options = ADAPTER.from_wire_request(body, context())
    assert ADAPTER.to_wire(messages, read_tools, read_options).body == body


def test_unsupported_options_are_losses() -> None:
    """Nothing is left out silently."""
    requested = AdapterOptions(effort="high", thinking_budget=9, prompt_cache="5m", parallel_tool_calls=True)
    losses = ADAPTER.to_wire([Message.user("Hi")], [], requested).losses
    assert [loss.reason.partition(":")[0] for loss in losses] == [
        "parallel_tool_calls", "effort", "thinking_budget", "prompt_cache",
    ]  # fmt: skip
    assert ADAPTER.to_wire([Message.user("Hi")], [], AdapterOptions(thinking=False, effort="none")).losses == ()


def test_fields_of_a_later_version_survive_the_round_trip() -> None:
    """They are kept as the provider's own fields, and a part of an unknown kind as a native block."""
    requested: dict[str, Any] = {
        "model": "smollm2-135m",
        "messages": [{"role": "user", "content": [{"type": "hologram", "size": 3}]}],
        "quality": "high",
    }
    messages, tools, chosen = ADAPTER.from_wire_request(requested, context())
    assert messages[0].content == (
        ProviderBlock(provider="local", kind="hologram", data={"type": "hologram", "size": 3}),
    )
    assert json.loads(ADAPTER.to_wire(messages, tools, chosen).body) == requested


@pytest.mark.parametrize("body", [b"[]", b"{", {"messages": [{"role": "king"}]}, {"messages": 3}])
def test_invalid_requests_are_refused(body: Any) -> None:
    with pytest.raises(RequestError):
        ADAPTER.from_wire_request(body, context())


LINES: list[dict[str, Any]] = [
    {"type": "start", "model": "smollm2-135m"},
    {"type": "text", "text": "Let me "},
    {"type": "text", "text": "see. é\u2028"},
    {"type": "call", "name": "read_file"},
    {"type": "arguments", "text": '{"path": '},
    {"type": "arguments", "text": '"é.md"}'},
    {"type": "call_end"},
    {"type": "call", "name": "list_files"},
    {"type": "arguments", "text": "{}"},
    {"type": "call_end"},
    {"type": "end", "stop": "tool_use", "usage": {"input_tokens": 30, "output_tokens": 12}},
]


def stream(lines: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def without_ids(message: Message) -> Any:
    blocks = [block.model_dump(exclude={"id"}) for block in message.content]
    return blocks, message.stop_reason, message.usage, message.metadata.model


def whole_message(lines: list[dict[str, Any]]) -> Message:
    return ADAPTER.from_wire_response(WireResponse(200, json.dumps(merge_lines(lines)).encode()), context())


@given(st.lists(st.integers(0, 700), max_size=12))
def test_a_stream_and_the_whole_reply_are_one_message(cuts: list[int]) -> None:
    """A stream and the whole reply are one message for any cut of the bytes, and also when built from the
    deltas alone.
    """
    data = stream(LINES)
    places = sorted({0, len(data), *(cut % len(data) for cut in cuts)})
    chunks = [data[start:end] for start, end in pairwise(places)]
    events = replay(ADAPTER.decoder(context()), chunks)
    complete = events[-1]
    assert isinstance(complete, MessageComplete)
    assert without_ids(complete.message) == without_ids(whole_message(LINES))
    assert fold_deltas(events) == complete.message.content
    assert complete.message.stop_reason is StopReason.TOOL_USE


def test_a_stream_cut_anywhere_is_an_error() -> None:
    """Only the end line ends a reply."""
    data = stream(LINES)
    for cut in range(len(data) - 1):
        last = replay(ADAPTER.decoder(context()), [data[:cut]])[-1]
        assert isinstance(last, ErrorEvent)
        assert isinstance(last.error, StreamTruncatedError)


def test_a_truncated_call_keeps_its_arguments_as_text() -> None:
    """It ends without a tool_use_end, and runs nothing."""
    lines = [*LINES[:5], {"type": "end", "stop": "max_tokens", "usage": {"input_tokens": 1, "output_tokens": 9}}]
    events = replay(ADAPTER.decoder(context()), [stream(lines)])
    complete = events[-1]
    assert isinstance(complete, MessageComplete)
    (call,) = complete.message.tool_uses
    assert (call.input, call.raw_input) == ({}, '{"path": ')
    assert complete.message.stop_reason is StopReason.MAX_TOKENS
    assert "tool_use_end" not in {event.type for event in events}
    assert without_ids(complete.message) == without_ids(whole_message(lines))


def test_content_before_an_error_is_kept() -> None:
    """The error line has the class that its status would have."""
    broken = [*LINES[:5], {"type": "error", "error": {"type": "timeout", "message": "too late"}}]
    last = replay(ADAPTER.decoder(context()), [stream(broken)])[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, RequestTimeoutError)
    assert last.partial is not None
    assert isinstance(last.partial.content[0], TextBlock)
    assert isinstance(last.partial.content[1], ToolUseBlock)
    assert last.partial.content[1].raw_input == '{"path": '


@pytest.mark.parametrize(
    "lines",
    [
        [LINES[0], LINES[0]],
        [LINES[0], LINES[4]],
        [LINES[0], LINES[3], LINES[4], LINES[5], LINES[6], LINES[6]],
        [LINES[-1]],
        [{"text": "no type"}],
    ],
)
def test_lines_out_of_order_are_malformed(lines: list[dict[str, Any]]) -> None:
    """An order that the protocol does not allow is never interpreted."""
    last = replay(ADAPTER.decoder(context()), [stream(lines)])[-1]
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, MalformedReplyError)


def test_an_unknown_line_is_ignored() -> None:
    """A later version may send more kinds."""
    events = replay(ADAPTER.decoder(context()), [stream([*LINES[:3], {"type": "mood"}, LINES[-1]])])
    assert isinstance(events[-1], MessageComplete)


def test_an_empty_answer_is_complete() -> None:
    """The model may end at once."""
    lines = [LINES[0], {"type": "end", "stop": "end_turn", "usage": {"input_tokens": 3, "output_tokens": 1}}]
    last = replay(ADAPTER.decoder(context()), [stream(lines)])[-1]
    assert isinstance(last, MessageComplete)
    assert last.message.content == ()
    assert last.message.stop_reason is StopReason.END_TURN


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"type": "invalid_request", "message": "no"}}, InvalidRequestError),
        (400, {"error": {"type": "context_overflow", "message": "no"}}, ContextOverflowError),
        (404, {"error": {"type": "not_found", "message": "no"}}, NotFoundError),
        (408, {"error": {"type": "timeout", "message": "no"}}, RequestTimeoutError),
        (500, {"error": {"type": "runtime", "message": "no"}}, ServerError),
        (400, {"error": {"type": "new_kind"}}, InvalidRequestError),
        (500, [], ServerError),
        (None, {}, ServerError),
    ],
)
def test_errors_have_their_class(status: int | None, body: Any, kind: type[ProviderError]) -> None:
    """By their type, and by their status where the type is unknown."""
    error = ADAPTER.error(status, json.dumps(body).encode(), {})
    assert type(error) is kind
    if status is not None:
        with pytest.raises(kind):
            ADAPTER.from_wire_response(WireResponse(status, json.dumps(body).encode()), context())


def test_a_reply_of_the_wrong_shape_is_malformed() -> None:
    with pytest.raises(MalformedReplyError):
        ADAPTER.from_wire_response(WireResponse(200, b'{"content": [{}]}'), context())


def test_capabilities_of_the_embedded_model_and_of_any_file() -> None:
    """For an unknown file, only the capabilities of the runtime are declared."""
    known, other = ADAPTER.capabilities, get_adapter("local:/models/a.gguf").capabilities
    assert known.max_context_tokens == 8192
    assert not known.supports_images
    assert not known.supports_thinking
    assert known.wire["prompting"] == "guided"
    assert other.wire["prompting"] == "tagged"
    assert ADAPTER.listed_models == ("smollm2-135m",)
    assert ADAPTER.transport == "local"
    assert not ADAPTER.endpoint.key_required
