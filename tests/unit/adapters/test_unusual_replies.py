"""Handwritten replies as servers and proxies between us and the provider send them. Each is read as it is meant."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import (
    FrameTooLargeError,
    InvalidRequestError,
    MalformedReplyError,
    OverloadedError,
    StreamTruncatedError,
)
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.events import ErrorEvent, MessageComplete, StreamEvent, UsageUpdate
from dragoman.canonical.message import Message, StopReason

CHAT = "openai-chat:gpt-5.1"
CLAUDE = "anthropic:claude-opus-5-5"
GEMINI = "google:gemini-3-pro"
USAGE = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
FILTERED = {"hate": {"filtered": True, "severity": "high"}}
SHELLS = {
    "function_call": {"name": "", "arguments": ""},
    "audio": {"id": "", "data": "", "transcript": "", "expires_at": 0},
}


def read(model: str, body: Mapping[str, Any]) -> Message:
    context = RequestContext.for_model(model)
    return get_adapter(model).from_wire_response(WireResponse(200, json.dumps(body).encode()), context)


def stream(model: str, chunks: Sequence[bytes], **settings: Any) -> list[StreamEvent]:
    context = RequestContext.for_model(model)
    for name, value in settings.items():
        setattr(context, name, value)
    return list(get_adapter(model).iter_stream(chunks, context))


def sse(*events: Mapping[str, Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event).encode() for event in events)


def complete(events: Sequence[StreamEvent]) -> Message:
    assert isinstance(events[-1], MessageComplete)
    return events[-1].message


def choice(message: Mapping[str, Any] | None, finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    filled = {} if message is None else {"message": message}
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": finish, **filled, **fields}],
        "usage": USAGE,
    }


def chunk(delta: Mapping[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    kind = "chat.completion.chunk"
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return {"id": "c1", "object": kind, "model": "m", "choices": choices, **fields}


def test_a_filtered_choice_without_message_is_a_refusal() -> None:
    """Azure's filter leaves a choice without message: a refusal, which keeps the filter's results."""
    reply = read("azure-openai:gpt-5.1", choice(None, "content_filter", content_filter_results=FILTERED))
    assert (reply.stop_reason, reply.content) == (StopReason.REFUSAL, ())
    assert reply.metadata.provider_raw is not None
    assert reply.metadata.provider_raw["choice"]["content_filter_results"] == FILTERED


def test_any_other_choice_needs_its_message() -> None:
    """Without the filter, a choice without message is malformed."""
    with pytest.raises(MalformedReplyError, match="message"):
        read(CHAT, choice(None))


def test_a_structured_content_is_its_json() -> None:
    """Cloudflare sends the object of a structured output itself: the text is its JSON, whole and streamed."""
    value = {"city": "Paris", "people": 2_100_000}
    whole = read("cloudflare:llama", choice({"role": "assistant", "content": value}))
    body = sse(chunk({"role": "assistant", "content": value}), chunk({}, "stop", usage=USAGE)) + b"data: [DONE]\n\n"
    streamed = complete(stream("cloudflare:llama", [body]))
    assert json.loads(whole.text) == json.loads(streamed.text) == value


def test_empty_shells_of_calls_and_audio_are_no_content() -> None:
    """Snowflake sends an empty call and an empty audio with every text: they are neither."""
    message = {"role": "assistant", "content": "Hi", **SHELLS}
    whole = read("snowflake:claude", choice(message, ""))
    body = sse(chunk(message, ""), chunk({}, "stop", usage=USAGE)) + b"data: [DONE]\n\n"
    streamed = complete(stream("snowflake:claude", [body]))
    for reply in (whole, streamed):
        assert [block.type for block in reply.content] == ["text"]
        assert (reply.text, reply.stop_reason) == ("Hi", StopReason.END_TURN)


def test_gpustack_ends_with_its_usage() -> None:
    """GPUStack sends no [DONE]: the reply is complete with its usage, and truncated before."""
    thought, answer = chunk({"role": "assistant", "reasoning_content": "Hm."}), chunk({"content": "Hi"}, "stop")
    usage = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": USAGE}
    assert complete(stream("gpustack:qwen3", [sse(thought, answer, usage)])).text == "Hi"
    (*_, end) = stream("gpustack:qwen3", [sse(thought, answer)])
    assert isinstance(end, ErrorEvent)
    assert isinstance(end.error, StreamTruncatedError)


def claude_events(*starts: str) -> bytes:
    message = {"type": "message", "role": "assistant", "model": "m", "content": [], "usage": {"input_tokens": 5}}
    return sse(
        *({"type": "message_start", "message": {"id": name, **message}} for name in starts),
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    )


def test_a_message_may_be_announced_twice() -> None:
    """A proxy repeats message_start: the second one, of the same id, changes nothing."""
    events = stream(CLAUDE, [claude_events("msg_1", "msg_1")])
    assert complete(events).text == "Hi"
    assert [event.type for event in events].count("message_start") == 1


def test_another_message_in_a_stream_is_malformed() -> None:
    """A message_start of another id belongs to another reply."""
    (*_, end) = stream(CLAUDE, [claude_events("msg_1", "msg_2")])
    assert isinstance(end, ErrorEvent)
    assert isinstance(end.error, MalformedReplyError)


def gemini(finish: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    usage = {"promptTokenCount": 5, "candidatesTokenCount": 2, "totalTokenCount": 7}
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-pro"}


def test_an_unknown_field_before_a_text_does_not_hide_it() -> None:
    """A part is read by the kind of content that it holds, whatever else stands before it."""
    reply = read(GEMINI, gemini("STOP", {"partMetadata": {"a": 1}, "newField": "x", "text": "Hi"}))
    assert reply.text == "Hi"


@pytest.mark.parametrize(("finish", "reason"), [("MAX_TOKENS", StopReason.MAX_TOKENS), ("SAFETY", StopReason.REFUSAL)])
def test_a_finish_reason_behind_code_counts(finish: str, reason: StopReason) -> None:
    """A reply that ends with the code that the provider ran keeps the reason why it ended."""
    code = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    assert read(GEMINI, gemini(finish, code)).stop_reason is reason
    assert complete(stream(GEMINI, [sse(gemini(finish, code))])).stop_reason is reason


RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "output": [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": []}],
        }
    ],
    "usage": {"input_tokens": 5, "output_tokens": 2, "total_tokens": 7},
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 5, "output_tokens": 2},
}
DOCUMENTS = {
    CHAT: choice({"role": "assistant", "content": "Hi"}),
    "openai:gpt-5.1": RESPONSE,
    CLAUDE: MESSAGE,
    GEMINI: gemini("STOP", {"text": "Hi"}),
}


@pytest.mark.parametrize("model", DOCUMENTS)
@given(cuts=st.lists(st.integers(0, 400), max_size=4), blanks=st.sampled_from([b"", b"\n", b"\xef\xbb\xbf", b" \r\n"]))
def test_a_document_answers_a_request_for_a_stream(model: str, cuts: list[int], blanks: bytes) -> None:
    """A proxy that does not stream sends the whole reply: its events are emitted, however the bytes are cut."""
    body = blanks + json.dumps(DOCUMENTS[model]).encode()
    borders = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    events = stream(model, [body[start:end] for start, end in pairwise(borders)])
    reply = complete(events)
    kinds = {"message_start", "usage_update", "text_delta", "message_complete"}
    assert (reply.text, {event.type for event in events}, len(events)) == ("Hi", kinds, len(kinds))
    (usage,) = (event.usage for event in events if isinstance(event, UsageUpdate))
    assert (usage.input_tokens, usage.output_tokens) == (5, 2)


def test_a_document_that_is_cut_is_a_truncated_stream() -> None:
    """Half a document is not a reply, at whichever byte it ends."""
    body = json.dumps(DOCUMENTS[CHAT]).encode()
    for end in range(1, len(body)):
        (*_, last) = stream(CHAT, [body[:end]])
        assert isinstance(last, ErrorEvent)
        assert isinstance(last.error, StreamTruncatedError)


def test_a_document_may_hold_an_error() -> None:
    """An error with status 200 in place of a stream is that error."""
    body = json.dumps({"error": {"message": "no such field", "type": "invalid_request_error"}}).encode()
    (event,) = stream(CHAT, [body])
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, InvalidRequestError)


def test_a_document_obeys_the_cap_of_a_body() -> None:
    """An endless document is refused at the cap."""
    (event,) = stream(CHAT, [b'{"id": "', *[b"x" * 1000] * 100], body_cap=10_000)
    assert isinstance(event, ErrorEvent)
    assert isinstance(event.error, FrameTooLargeError)


LLAMA = "ollama:llama3.2"
TEXT_COMPLETION = {"index": 0, "text": "Hi", "finish_reason": None, "logprobs": None}


@pytest.mark.parametrize("model", [CHAT, "compatible:m"])
def test_a_stream_of_text_completions_is_malformed(model: str) -> None:
    """It is that of another endpoint: without its text it would pass for an empty answer."""
    end = {**TEXT_COMPLETION, "text": "", "finish_reason": "stop"}
    chunks = [{"id": "c1", "object": "text_completion", "choices": [each]} for each in (TEXT_COMPLETION, end)]
    (*_, last) = stream(model, [sse(*chunks), b"data: [DONE]\n\n"])
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, MalformedReplyError)


def test_a_stream_of_generated_text_is_malformed() -> None:
    """Ollama has an endpoint without messages, too."""
    lines = [{"model": "m", "response": "Hi", "done": False}, {"model": "m", "response": "", "done": True}]
    (*_, last) = stream(LLAMA, [b"%s\n" % json.dumps(line).encode() for line in lines])
    assert isinstance(last, ErrorEvent)
    assert isinstance(last.error, MalformedReplyError)


def test_a_whole_reply_may_be_the_only_event() -> None:
    """Its message counts, and a message that repeats the deltas does not."""
    whole = choice({"role": "assistant", "content": "Hi"})
    assert complete(stream(CHAT, [sse(whole), b"data: [DONE]\n\n"])).text == "Hi"
    assert complete(stream(CHAT, [sse(chunk({"content": "Hi"}), whole), b"data: [DONE]\n\n"])).text == "Hi"


@pytest.mark.parametrize("reason", [None, "length"])
def test_without_a_marker_every_choice_must_end(reason: str | None) -> None:
    """A stream that breaks off inside the second choice is truncated, although the first one has ended."""
    first, second = chunk({"content": "Hi"}, "stop"), chunk({"content": "Hel"}, reason)
    second["choices"][0]["index"] = 1
    (*_, last) = stream("compatible:m", [sse(first, second)])
    assert isinstance(last, ErrorEvent if reason is None else MessageComplete)
    if isinstance(last, ErrorEvent):
        assert isinstance(last.error, StreamTruncatedError)


@pytest.mark.parametrize("blank", [b"data:\n\n", b"data: \n\n", b"event: ping\ndata:\n\n"])
@pytest.mark.parametrize("model", [CLAUDE, GEMINI])
def test_blank_events_keep_a_connection_alive(model: str, blank: bytes) -> None:
    """Some proxies send them, on any wire of server-sent events."""
    body = claude_events("msg_1") if model == CLAUDE else sse(gemini("STOP", {"text": "Hi"}))
    noisy = blank + body.replace(b"\n\n", b"\n\n" + blank)
    assert complete(stream(model, [noisy])).text == "Hi"


def test_openais_marker_ends_no_other_stream_badly() -> None:
    """Some proxies add it to every stream."""
    assert complete(stream(GEMINI, [sse(gemini("STOP", {"text": "Hi"})), b"data: [DONE]\n\n"])).text == "Hi"


def test_an_error_under_a_good_status_is_that_error() -> None:
    """Some proxies answer 200 whatever the provider said."""
    with pytest.raises(OverloadedError, match="Overloaded"):
        read(CLAUDE, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
