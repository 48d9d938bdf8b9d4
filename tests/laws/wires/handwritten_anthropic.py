"""The Messages wire by hand (docs/reference/wires/anthropic.md)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import (
    ContextOverflowError,
    NotFoundError,
    OverloadedError,
    ProviderError,
    RateLimitError,
    ServerError,
)
from dragoman.testing.conformance.wire import UNKNOWN, FailedReply, Wire, compact, sse
from dragoman.testing.sample_reply import PLAIN, SampleReply

_MODEL = "claude-sonnet-4-6"


def _stop(sample: SampleReply) -> str:
    return "tool_use" if sample.calls else "max_tokens" if sample.truncated else "end_turn"


def _usage(sample: SampleReply) -> dict[str, Any]:
    return {
        "input_tokens": sample.input_tokens,
        "cache_read_input_tokens": sample.cached_tokens,
        "cache_creation_input_tokens": 0,
    }


def _head(sample: SampleReply) -> dict[str, Any]:
    return {"id": "msg_handwritten", "type": "message", "role": "assistant", "model": _MODEL}


def handwritten_whole(sample: SampleReply) -> bytes:
    content: list[dict[str, Any]] = []
    if sample.thinking:
        content.append({"type": "thinking", "thinking": "".join(sample.thinking), "signature": "c2ln"})
    if sample.text:
        content.append({"type": "text", "text": "".join(sample.text)})
    content += [
        {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": call.input} for call in sample.calls
    ]
    usage = _usage(sample) | {"output_tokens": sample.output_tokens}
    stop = {"stop_reason": _stop(sample), "stop_sequence": None}
    return compact({**_head(sample), "content": content, **stop, "usage": usage}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(sse(event, event["type"]) for event in handwritten_events(sample))


def handwritten_events(sample: SampleReply) -> Iterator[dict[str, Any]]:
    start: dict[str, Any] = {
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _usage(sample) | {"output_tokens": 1},
    }
    yield {"type": "message_start", "message": _head(sample) | start}
    yield {"type": "ping"}
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if sample.thinking:
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in sample.thinking]
        signed = {"type": "signature_delta", "signature": "c2ln"}
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, [*deltas, signed]))
    if sample.text:
        blocks.append(({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in sample.text]))
    for call in sample.calls:
        call_start = {"type": "tool_use", "id": f"toolu_{call.id}", "name": call.name, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *call.pieces)]
        blocks.append((call_start, deltas))
    for index, (block, deltas) in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": _stop(sample), "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": sample.output_tokens}}
    yield {"type": "message_stop"}


def _error_object(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _error(kind: str, message: str) -> bytes:
    return sse(_error_object(kind, message), "error")


def _failure(status: int, kind: str, message: str, due: type[ProviderError]) -> FailedReply:
    return FailedReply(status, compact(_error_object(kind, message)).encode(), due)


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"type":\s*"message_stop"'),
    (
        (_error("overloaded_error", "Overloaded"), OverloadedError),
        (_error("rate_limit_error", "Slow down"), RateLimitError),
        (_error("api_error", "Internal server error"), ServerError),
    ),
    sse({"type": "ping"}, "ping"),
    failures=(
        _failure(404, "not_found_error", "model: claude-x", NotFoundError),
        _failure(
            400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000 maximum", ContextOverflowError
        ),
        _failure(529, "overloaded_error", "Overloaded", OverloadedError),
        _failure(200, "api_error", "Internal server error", ServerError),
    ),
    model=_MODEL,
    unknown_event=sse({"type": "hologram_delta", "delta": {"type": "beam"}}, "hologram_delta"),
    unknown_block=handwritten_whole(PLAIN).replace(
        b'"content":[', compact({"content": [{"type": "hologram", "beam": UNKNOWN}]}).encode()[1:-2] + b","
    ),
)
