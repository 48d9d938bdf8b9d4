"""Streams of chunks: which parts continue, which are separate, and what ends a stream. Chunks are handwritten."""

import json
from typing import Any

import pytest

from dragoman.adapter.errors import MalformedReplyError, OverloadedError, StreamTruncatedError
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ThinkingBlock
from dragoman.canonical.events import (
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
    UsageUpdate,
)
from dragoman.canonical.message import Message, MessageStatus, StopReason
from tests.exchanges import RecordedExchange, load_or_skip
from tests.unit.adapters.google.wire import GEMINI_3, VERTEX, body, context, events, failure, read, sse, stream_message

COUNTS = {"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5}


def handwritten_chunk(*parts: dict[str, Any], reason: Any = None, counts: Any = None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if reason is not None:
        candidate["finishReason"] = reason
    counted = {"usageMetadata": counts} if counts else {}
    return {"candidates": [candidate], "modelVersion": "gemini-3-flash-preview", **counted}


def test_plain_texts_join_and_signed_ones_stay_separate() -> None:
    """Pieces of one kind join; other text would invalidate a signature."""
    message = stream_message(
        sse(
            handwritten_chunk({"text": "hm", "thought": True}),
            handwritten_chunk({"text": "m.", "thought": True}),
            handwritten_chunk({"text": "Hel"}),
            handwritten_chunk({"text": "lo"}),
            handwritten_chunk({"text": " there", "thoughtSignature": "c2ln"}),
            handwritten_chunk({"text": "!"}),
            handwritten_chunk({"text": "", "thoughtSignature": "ZW5k"}, reason="STOP", counts=COUNTS),
        )
    )
    assert message.content == (
        ThinkingBlock(text="hmm."), TextBlock(text="Hello"), TextBlock(text=" there"), TextBlock(text="!"),
        TextBlock(text=""),
    )  # fmt: skip
    parts = body(Message.user("Hi"), message)["contents"][1]["parts"]
    assert parts == [
        {"text": "hmm.", "thought": True}, {"text": "Hello"}, {"text": " there", "thoughtSignature": "c2ln"},
        {"text": "!"}, {"text": "", "thoughtSignature": "ZW5k"},
    ]  # fmt: skip


def test_events_match_the_message() -> None:
    """Start, deltas, calls and counts, in order; an empty text has no event."""
    found = events(
        sse(
            handwritten_chunk({"text": "Hm", "thought": True}),
            handwritten_chunk({"text": "Yes"}, {"functionCall": {"name": "add", "args": {"x": 1}}}),
            handwritten_chunk({"text": ""}, reason="STOP", counts=COUNTS),
        )
    )
    message = stream_message(
        sse(
            handwritten_chunk({"text": "Hm", "thought": True}),
            handwritten_chunk({"text": "Yes"}, {"functionCall": {"name": "add", "args": {"x": 1}}}),
            handwritten_chunk({"text": ""}, reason="STOP", counts=COUNTS),
        )
    )
    (call,) = message.tool_uses
    assert [(type(event), getattr(event, "content_block_index", None)) for event in found[:-1]] == [
        (MessageStart, None), (ThinkingDelta, 0), (TextDelta, 1), (ToolUseStart, 2), (ToolUseInputDelta, 2),
        (ToolUseEnd, 2), (UsageUpdate, None),
    ]  # fmt: skip
    assert call.input == {"x": 1}
    assert message.stop_reason is StopReason.TOOL_USE


def test_counts_after_the_finish_reason_are_counted() -> None:
    """Only the end of the bytes ends a stream: the last counts apply."""
    later = {"usageMetadata": {**COUNTS, "thoughtsTokenCount": 4, "totalTokenCount": 9}}
    message = stream_message(sse(handwritten_chunk({"text": "Hi"}, reason="STOP", counts=COUNTS), later))
    assert message.usage is not None
    assert (message.usage.output_tokens, message.usage.reported_total) == (6, 9)


def test_chunks_without_a_prompt_count_keep_earlier_counts() -> None:
    """Vertex AI's chunks have the traffic type before they have counts."""
    message = stream_message(
        sse(
            handwritten_chunk({"text": "a"}, counts={"trafficType": "ON_DEMAND"}),
            handwritten_chunk({"text": "b"}, reason="STOP", counts={**COUNTS, "trafficType": "ON_DEMAND"}),
        ),
        VERTEX,
    )
    assert message.usage is not None
    assert (message.usage.total_tokens, message.usage.service_tier) == (5, "ON_DEMAND")


@pytest.mark.parametrize(
    "chunks",
    [
        [handwritten_chunk({"text": "Hi"})],
        [handwritten_chunk({"text": "Hi"}), {"usageMetadata": COUNTS}],
        [handwritten_chunk({"text": "Hi"}, reason="STOP"), handwritten_chunk({"text": " there"})],
        [handwritten_chunk({"executableCode": {"language": "PYTHON", "code": "1"}}, reason="STOP")],
        [handwritten_chunk({"text": "Hi"}, reason="FINISH_REASON_UNSPECIFIED")],
        [{"usageMetadata": COUNTS}],
    ],
)
def test_a_stream_without_a_final_reason_is_truncated(chunks: list[dict[str, Any]]) -> None:
    """A finish reason does not count if content follows, or if Google still has to run code."""
    last = failure(sse(*chunks))
    assert isinstance(last.error, StreamTruncatedError)
    assert last.partial is not None
    assert last.partial.metadata.status is MessageStatus.ERROR


def test_a_reason_in_two_chunks_ends_at_the_second() -> None:
    """Google runs code between the chunks."""
    message = stream_message(
        sse(
            handwritten_chunk({"executableCode": {"language": "PYTHON", "code": "1"}}, reason="STOP"),
            handwritten_chunk({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
            handwritten_chunk({"text": "One."}, reason="STOP", counts=COUNTS),
        )
    )
    assert [block.type for block in message.content] == ["provider", "provider", "text"]
    assert isinstance(message.content[0], ProviderBlock)
    assert message.content[0].kind == "executableCode"


def test_a_blocked_prompt_is_a_refusal_with_usage() -> None:
    """There is no candidate, and the reason is kept."""
    blocked = {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 7}}
    for message in (stream_message(sse(blocked)), read(blocked)):
        assert message.content == ()
        assert message.stop_reason is StopReason.REFUSAL
        assert message.usage is not None
        assert message.usage.input_tokens == 7
        assert message.metadata.provider_raw is not None
        assert message.metadata.provider_raw["promptFeedback"] == {"blockReason": "PROHIBITED_CONTENT"}
        assert len(body(Message.user("Hi"), message, Message.user("Again"))["contents"]) == 2


def test_an_empty_reply_is_malformed() -> None:
    """An empty object is not an answer."""
    with pytest.raises(MalformedReplyError):
        read({"usageMetadata": COUNTS})


def test_an_error_in_mid_stream_has_its_class() -> None:
    """The partial message is kept."""
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    last = failure(sse(handwritten_chunk({"text": "Hi"}), error))
    assert isinstance(last.error, OverloadedError)
    assert last.partial is not None
    assert last.partial.text == "Hi"


@pytest.mark.parametrize("form", ["array", "object"])
def test_an_error_instead_of_a_stream_has_its_class(form: str) -> None:
    """Without ``alt=sse`` an error is an element of an array, or the whole body."""
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    last = failure(json.dumps([error] if form == "array" else error, indent=2).encode())
    assert isinstance(last.error, OverloadedError)


def handwritten_call(**call: Any) -> dict[str, Any]:
    return handwritten_chunk({"functionCall": call})


def value(path: str, more: bool = False, **given: Any) -> dict[str, Any]:
    return {"jsonPath": path, **given, **({"willContinue": True} if more else {})}


PARTIAL_CALL = [
    handwritten_chunk({"functionCall": {"name": "cook", "willContinue": True}, "thoughtSignature": "c2ln"}),
    handwritten_call(partialArgs=[value("$.steps[0]", more=True, stringValue="Bo")], willContinue=True),
    handwritten_call(partialArgs=[value("$.steps[0]", stringValue="il")], willContinue=True),
    handwritten_call(partialArgs=[value("$.steps[1]", stringValue="Serve")], willContinue=True),
    handwritten_call(
        partialArgs=[value("$.who['a.b']", boolValue=True), value("$.n", numberValue=2)], willContinue=True
    ),
    handwritten_call(partialArgs=[value("$.none", nullValue="NULL_VALUE")], willContinue=True),
    handwritten_call(),
]
WHOLE_ARGUMENTS = {"steps": ["Boil", "Serve"], "who": {"a.b": True}, "n": 2, "none": None}


def test_arguments_by_path_are_assembled() -> None:
    """The call ends with its last piece, and its signature is sent back with it."""
    chunks = sse(*PARTIAL_CALL, handwritten_chunk(reason="STOP", counts=COUNTS))
    message = stream_message(chunks, VERTEX)
    (call,) = message.tool_uses
    assert (call.input, call.raw_input) == (WHOLE_ARGUMENTS, None)
    inputs = [event for event in events(chunks, VERTEX) if isinstance(event, ToolUseInputDelta)]
    assert [json.loads(event.partial_json) for event in inputs] == [WHOLE_ARGUMENTS]
    sent = body(Message.user("Hi"), message, Message.tool(call.id, "ok"), adapter=VERTEX)["contents"][1]["parts"]
    assert sent == [{"functionCall": {"name": "cook", "args": WHOLE_ARGUMENTS}, "thoughtSignature": "c2ln"}]


@pytest.mark.parametrize("length", range(1, len(PARTIAL_CALL)))
def test_a_truncated_call_never_ends(length: int) -> None:
    """Its partial arguments stay text, both in a broken stream and in one that ends normally."""
    cut = sse(*PARTIAL_CALL[:length])
    assert not [event for event in events(cut, VERTEX) if isinstance(event, ToolUseEnd)]
    partial = failure(cut, VERTEX).partial
    assert partial is not None
    finished = stream_message(cut + sse(handwritten_chunk(reason="MAX_TOKENS", counts=COUNTS)), VERTEX)
    for message in (partial, finished):
        (call,) = message.tool_uses
        assert call.input == {}
        assert json.loads(call.raw_input or "") is not None
    assert finished.stop_reason is StopReason.MAX_TOKENS


@pytest.mark.parametrize("path", ["steps", "$", "$.a[5]", "$.steps.x", "$.steps[0].deeper", "$.a..b", "$[0]", "$.a[x]"])
def test_an_invalid_path_is_malformed(path: str) -> None:
    """No argument is guessed."""
    chunks = sse(*PARTIAL_CALL[:3], handwritten_call(partialArgs=[value(path, numberValue=1)], willContinue=True))
    assert isinstance(failure(chunks, VERTEX).error, MalformedReplyError)


def test_other_candidates_are_kept() -> None:
    """Their chunks are mixed, and the reply is complete when all candidates are."""
    first = {"content": {"parts": [{"text": "A"}]}, "index": 0}
    second = {"content": {"parts": [{"text": "B"}]}, "index": 1}
    chunks = [
        {"candidates": [second]},
        {"candidates": [first]},
        {"candidates": [{**first, "finishReason": "STOP"}]},
    ]
    assert isinstance(failure(sse(*chunks)).error, StreamTruncatedError)
    message = stream_message(
        sse(*chunks, {"candidates": [{**second, "finishReason": "STOP"}], "usageMetadata": COUNTS})
    )
    assert message.text == "AA"
    assert message.metadata.provider_raw is not None
    (other,) = message.metadata.provider_raw["candidates"]
    assert other["content"]["parts"] == [{"text": "BB"}]


def test_snake_case_is_read_as_well() -> None:
    """Some servers spell all names with underscores."""
    part = {"function_call": {"name": "add", "args": {"some_key": 1}}, "thought_signature": "c2ln"}
    chunk = {
        "candidates": [{"content": {"parts": [part], "role": "model"}, "finish_reason": 1}],
        "usage_metadata": {"prompt_token_count": 3, "candidates_token_count": 2, "total_token_count": 5},
        "model_version": "gemini-3-flash-preview",
    }
    for message in (stream_message(sse(chunk)), read(chunk)):
        (call,) = message.tool_uses
        assert (call.name, call.input) == ("add", {"some_key": 1})
        assert message.stop_reason is StopReason.TOOL_USE
        assert message.metadata.model == "google:gemini-3-flash-preview"
        assert message.usage is not None
        assert message.usage.total_tokens == 5
        sent = body(Message.user("Hi"), message, Message.tool(call.id, "ok"))["contents"][1]["parts"]
        assert sent == [part]


def array_recordings() -> list[RecordedExchange]:
    return [exchange for exchange in load_or_skip("google") if isinstance(exchange.response, list)]


@pytest.mark.exhaustive
@pytest.mark.exchanges
def test_recorded_arrays_read_alike_whole_and_in_pieces() -> None:
    """One JSON array gives one message, whether it is read as a reply or as a stream cut at any byte."""
    recordings = array_recordings()
    assert recordings
    for exchange in recordings:
        data = json.dumps(exchange.response, indent=1, ensure_ascii=False).encode()
        whole = read(exchange.response)
        assert stream_message(data) == whole
        end = data.rindex(b"]")
        for place in range(0, len(data), max(1, len(data) // 200)):
            pieces = list(GEMINI_3.iter_stream([data[:place], data[place:]], context(GEMINI_3)))
            assert pieces == events(data)
            assert place > end or isinstance(failure(data[:place]).error, StreamTruncatedError)
