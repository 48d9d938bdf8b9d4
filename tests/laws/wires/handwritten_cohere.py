"""Cohere's chat wire, version 2, by hand (docs.cohere.com/v2/docs/streaming)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.testing.conformance.wire import Wire, compact, sse
from dragoman.testing.sample_reply import SampleReply


def _finish(sample: SampleReply) -> str:
    return "TOOL_CALL" if sample.calls else "MAX_TOKENS" if sample.truncated else "COMPLETE"


def _usage(sample: SampleReply) -> dict[str, Any]:
    prompt = sample.input_tokens + sample.cached_tokens
    return {
        "billed_units": {"input_tokens": prompt, "output_tokens": sample.output_tokens},
        "tokens": {"input_tokens": prompt, "output_tokens": sample.output_tokens},
        "cached_tokens": sample.cached_tokens,
    }


def _contents(sample: SampleReply) -> list[tuple[str, tuple[str, ...]]]:
    return [(kind, pieces) for kind, pieces in (("thinking", sample.thinking), ("text", sample.text)) if pieces]


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"{name}_{call_id}", "type": "function", "function": {"name": name, "arguments": arguments}}


def handwritten_whole(sample: SampleReply) -> bytes:
    message: dict[str, Any] = {"role": "assistant"}
    if sample.thinking or sample.text:
        message["content"] = [{"type": kind, kind: "".join(pieces)} for kind, pieces in _contents(sample)]
    if sample.calls:
        message["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in sample.calls]
    reply = {"id": "handwritten", "finish_reason": _finish(sample), "message": message, "usage": _usage(sample)}
    return compact(reply).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(sse(event, event["type"]) for event in _events(sample))


def _events(sample: SampleReply) -> Iterator[dict[str, Any]]:
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield {"id": "handwritten", "type": "message-start", "delta": {"message": empty}}
    for index, (kind, pieces) in enumerate(_contents(sample)):
        yield _event("content-start", index, content={"type": kind, kind: ""})
        for piece in pieces:
            yield _event("content-delta", index, content={kind: piece})
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(sample.calls):
        yield _event("tool-call-start", index, tool_calls=_call(call.id, call.name, ""))
        for piece in call.pieces:
            yield _event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}})
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": {"finish_reason": _finish(sample), "usage": _usage(sample)}}


def _event(kind: str, index: int, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


WIRE = Wire(
    handwritten_stream, handwritten_whole, re.compile(rb'"type":\s*"message-end"'), (), b": keep-alive\n\n",
    cached=False, unknown_event=sse({"type": "hologram-delta", "index": 0}, "hologram-delta"),
)  # fmt: skip
