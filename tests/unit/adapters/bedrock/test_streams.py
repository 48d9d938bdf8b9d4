"""Chunks to events for Bedrock's forms."""

import base64

import pytest

from dragoman.adapter import errors
from dragoman.canonical.blocks import ProviderBlock, RedactedThinkingBlock, TextBlock, ThinkingBlock
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
from dragoman.canonical.message import Message, StopReason
from tests.unit.adapters.bedrock.wire import (
    CLAUDE,
    COUNTS,
    END,
    METADATA,
    NOVA,
    START,
    STOP,
    Native,
    call,
    chunk,
    delta,
    frame,
    read,
    reply,
    started,
    stopped,
    stream,
)

THOUGHT = [
    delta(0, reasoningContent={"text": "H"}),
    delta(0, reasoningContent={"text": "m."}),
    delta(0, reasoningContent={"signature": "c2ln"}),
    stopped(0),
]
MESSAGES = [delta(1, text="H"), delta(1, text=""), delta(1, text="i"), stopped(1)]
CALLED = [
    started(2, toolUse={"toolUseId": "tooluse_1", "name": "weather", "type": "tool_use"}),
    delta(2, toolUse={"input": ""}),
    delta(2, toolUse={"input": '{"city":'}),
    delta(2, toolUse={"input": '"Paris"}'}),
    stopped(2),
]


def complete(events: list[StreamEvent]) -> Message:
    assert isinstance(events[-1], MessageComplete), events[-1]
    return events[-1].message


def failure(events: list[StreamEvent]) -> ErrorEvent:
    assert isinstance(events[-1], ErrorEvent), events[-1]
    return events[-1]


def test_a_stream_has_the_content_of_its_events() -> None:
    """It agrees with its unstreamed twin."""
    events = stream([START, *THOUGHT, *MESSAGES, *CALLED, END])
    message = complete(events)
    assert [type(event) for event in events] == [
        MessageStart, ThinkingDelta, ThinkingDelta, ThinkingDelta, TextDelta, TextDelta,
        ToolUseStart, ToolUseInputDelta, ToolUseInputDelta, ToolUseEnd, UsageUpdate, MessageComplete,
    ]  # fmt: skip
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    whole = read(reply(signed, {"text": "Hi"}, call(), usage=COUNTS, metrics={"latencyMs": 7}))
    assert (message.text, message.thinking) == (whole.text, whole.thinking)
    assert message.tool_uses[0].input == whole.tool_uses[0].input
    assert message.metadata == whole.metadata.model_copy(
        update={"provider_raw": message.metadata.provider_raw, "usage": message.usage}
    )
    assert message.usage is not None
    assert message.usage.total_tokens == message.usage.reported_total == 5
    raw = message.metadata.provider_raw
    assert raw is not None
    assert (raw["stopReason"], raw["metrics"], "p" in raw) == ("end_turn", {"latencyMs": 7}, False)


def test_a_stream_without_its_usage_is_truncated() -> None:
    """Even after the message has stopped, because its cost is unknown. An unfinished call does not run."""
    failed = failure(stream([START, *MESSAGES, *CALLED[:3], STOP]))
    assert isinstance(failed.error, errors.StreamTruncatedError)
    assert failed.partial is not None
    assert failed.partial.text == "Hi"
    (called,) = failed.partial.tool_uses
    assert (called.input, called.raw_input) == ({}, '{"city":')


def test_an_empty_stream_has_no_partial_message() -> None:
    """There is no content for one."""
    assert failure(stream([])).partial is None


EXCEPTIONS = [
    ("throttlingException", errors.RateLimitError),
    ("serviceUnavailableException", errors.OverloadedError),
    ("modelStreamErrorException", errors.ServerError),
    ("internalServerException", errors.ServerError),
    ("modelTimeoutException", errors.RequestTimeoutError),
    ("validationException", errors.InvalidRequestError),
    ("somethingNewException", errors.ServerError),
]


@pytest.mark.parametrize(("name", "kind"), EXCEPTIONS)
def test_an_exception_in_mid_stream_is_typed(name: str, kind: type[errors.ProviderError]) -> None:
    """It has the class that it has by HTTP, with the partial message."""
    failed = failure(stream([START, *MESSAGES, frame(name, {"message": "It broke"}, kind="exception"), END]))
    assert type(failed.error) is kind
    assert "It broke" in str(failed.error)
    assert failed.partial is not None
    assert failed.partial.text == "Hi"


BROKEN: list[list[bytes]] = [
    [END],
    [*MESSAGES],
    [START, START],
    [START, *MESSAGES, MESSAGES[0]],
    [START, *MESSAGES, MESSAGES[-1]],
    [START, CALLED[2]],
    [START, CALLED[0], CALLED[0]],
    [START, CALLED[0], delta(2, text="Hi")],
    [START, MESSAGES[0], delta(1, reasoningContent={"text": "Hm."})],
    [START, MESSAGES[0], delta(1, toolResult=[])],
    [START, METADATA],
    [frame("chunk", {"bytes": "!"})],
    [frame("chunk", {})],
    [START, frame("contentBlockDelta", b"[]")],
    [b"<html>Bad gateway</html>"],
]


@pytest.mark.parametrize("chunks", BROKEN)
def test_events_that_do_not_fit_together_are_malformed(chunks: list[bytes]) -> None:
    """Repeated, lost or swapped events, and data that is not an event."""
    failed = failure(stream([*chunks, END]))
    assert isinstance(failed.error, errors.MalformedReplyError)


@pytest.mark.parametrize("empty", [started(0), delta(0), stopped(0)])
def test_an_empty_block_breaks_nothing(empty: bytes) -> None:
    """Texts have no start event, so only the end of an empty text arrives."""
    assert complete(stream([START, empty, END])).text == ""


def test_citations_make_a_cited_text() -> None:
    """They may come before the text or without any."""
    citation = {"title": "facts", "location": {"web": {"url": "https://x.test"}}}
    events = [delta(0, citation=citation), delta(0, text="Matz"), stopped(0), delta(1, citation=citation), stopped(1)]
    message = complete(stream([START, *events, END]))
    cited, alone = message.content
    assert isinstance(cited, TextBlock)
    assert (cited.text, cited.citations[0].data) == ("Matz", citation)
    data = {"citationsContent": {"citations": [citation]}}
    assert alone == ProviderBlock(provider="bedrock", kind="citationsContent", data=data)


def test_server_tools_of_bedrock_emit_no_events() -> None:
    """Its calls and results are kept whole; so are images, and blocks of a new kind."""
    events = [
        started(0, toolUse={"toolUseId": "t", "name": "search", "type": "server_tool_use"}),
        delta(0, toolUse={"input": '{"q":1}'}),
        stopped(0),
        started(1, toolResult={"toolUseId": "t", "type": "search_result", "status": "success"}),
        delta(1, toolResult=[{"text": "a"}]),
        delta(1, toolResult=[{"json": {"b": 1}}]),
        started(2, image={"format": "png"}),
        delta(2, image={"source": {"bytes": "YQ=="}}),
        started(3, hologram={"a": 1}),
        delta(3, hologram={"b": 1}),
    ]
    found = stream([START, *events, frame("weather", {}), END], NOVA)
    assert [event.type for event in found] == ["message_start", "usage_update", "message_complete"]
    message = complete(found)
    assert [block.type for block in message.content] == ["provider", "provider", "image", "provider"]
    ran, answered, _, unknown = message.content
    assert isinstance(ran, ProviderBlock)
    assert ran.data["toolUse"]["input"] == {"q": 1}
    assert isinstance(answered, ProviderBlock)
    assert answered.data["toolResult"]["content"] == [{"text": "a"}, {"json": {"b": 1}}]
    assert isinstance(unknown, ProviderBlock)
    assert unknown.data == {"hologram": {"a": 1}}


@pytest.mark.parametrize("pieces", [[b"secret"], [b"sec", b"ret"]])
def test_redacted_thinking_is_one_blob(pieces: list[bytes]) -> None:
    """However many pieces it comes in."""
    events = [delta(0, reasoningContent={"redactedContent": base64.b64encode(piece).decode()}) for piece in pieces]
    message = complete(stream([START, *events, stopped(0), END]))
    assert message.content == (RedactedThinkingBlock(data=base64.b64encode(b"secret").decode()),)


def test_unsigned_thinking_has_no_signature() -> None:
    """Other families send it so."""
    message = complete(stream([START, *THOUGHT[:2], stopped(0), END], NOVA))
    assert message.content == (ThinkingBlock(text="Hm."),)


def test_malformed_arguments_stay_text() -> None:
    """They stay text, as they came."""
    events = stream([START, CALLED[0], delta(2, toolUse={"input": "{half"}), stopped(2), END])
    assert not [event for event in events if isinstance(event, ToolUseEnd)]
    (called,) = complete(events).tool_uses
    assert (called.input, called.raw_input) == ({}, "{half")


def test_nova_events_are_read_like_converse_events() -> None:
    """The events are wrapped, and Bedrock adds fields next to them."""
    metrics = {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}
    events: list[Native] = [
        {"messageStart": {"role": "assistant"}},
        {
            "amazon-bedrock-guardrailAction": "NONE",
            "contentBlockDelta": {"contentBlockIndex": 0, "delta": {"text": "H"}},
        },
        {"contentBlockStop": {"contentBlockIndex": 0}},
        {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"text": "i"}}},
        {"messageStop": {"stopReason": "max_tokens"}},
        {"metadata": {"usage": {"inputTokens": 3, "outputTokens": 2}}, **metrics},
    ]
    message = complete(stream(map(chunk, events), NOVA))
    assert (message.text, message.stop_reason) == ("Hi", StopReason.MAX_TOKENS)
    failed = failure(stream([*map(chunk, events[:2]), chunk(metrics)], NOVA))
    assert isinstance(failed.error, errors.StreamTruncatedError)


ANTHROPIC: list[Native] = [
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "claude-x", "content": [], "usage": {"input_tokens": 3}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "ping"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}},
]


def test_anthropic_events_are_read_by_its_decoder() -> None:
    events = stream(map(chunk, ANTHROPIC))
    assert isinstance(events[0], MessageStart)
    assert events[0].model == f"bedrock:{CLAUDE}"
    message = complete(events)
    assert (message.text, message.metadata.model, message.metadata.provider) == ("Hi", f"bedrock:{CLAUDE}", "bedrock")
    failed = failure(stream(map(chunk, ANTHROPIC[:4])))
    assert isinstance(failed.error, errors.StreamTruncatedError)
    assert failed.partial is not None
    assert failed.partial.text == "Hi"
    failed = failure(stream([*map(chunk, ANTHROPIC[:4]), frame("throttlingException", {}, kind="exception")]))
    assert isinstance(failed.error, errors.RateLimitError)
