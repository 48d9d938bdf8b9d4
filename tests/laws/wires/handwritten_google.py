"""Google's generateContent wire by hand (docs/reference/wires/google.md)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import OverloadedError, RateLimitError
from dragoman.testing.conformance.wire import UNKNOWN, Wire, compact, sse
from dragoman.testing.sample_reply import PLAIN, SampleReply

_HEAD = {"modelVersion": "gemini-2.5-flash", "responseId": "handwritten"}


def _usage(sample: SampleReply) -> dict[str, Any]:
    prompt = sample.input_tokens + sample.cached_tokens
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": sample.output_tokens}
    cached = {"cachedContentTokenCount": sample.cached_tokens} if sample.cached_tokens else {}
    return {**counts, **cached, "totalTokenCount": prompt + sample.output_tokens}


def _calls(sample: SampleReply) -> list[dict[str, Any]]:
    return [{"functionCall": {"id": call.id, "name": call.name, "args": call.input}} for call in sample.calls]


def _reply(parts: list[dict[str, Any]], sample: SampleReply, *, last: bool) -> dict[str, Any]:
    finish = {"finishReason": "MAX_TOKENS" if sample.truncated else "STOP"} if last else {}
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **finish}
    return {"candidates": [candidate], "usageMetadata": _usage(sample), **_HEAD}


def handwritten_whole(sample: SampleReply) -> bytes:
    parts: list[dict[str, Any]] = []
    if sample.thinking:
        parts.append({"text": "".join(sample.thinking), "thought": True})
    if sample.text:
        parts.append({"text": "".join(sample.text)})
    return compact(_reply([*parts, *_calls(sample)], sample, last=True)).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(sse(chunk) for chunk in _chunks(sample))


def _chunks(sample: SampleReply) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in sample.thinking]
    parts += [{"text": piece} for piece in sample.text]
    parts += _calls(sample)
    for number, part in enumerate(parts, 1):
        yield _reply([part], sample, last=number == len(parts))


def _error(code: int, status: str) -> bytes:
    return sse({"error": {"code": code, "message": "It broke", "status": status}})


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"finishReason":\s*"'),
    ((_error(503, "UNAVAILABLE"), OverloadedError), (_error(429, "RESOURCE_EXHAUSTED"), RateLimitError)),
    b": keep-alive\n\n",
    model="gemini-2.5-flash",
    unknown_event=sse({**_HEAD, "hologramMetadata": {"beam": 1}}),
    unknown_block=compact(_reply([{"text": "So"}, {"hologram": {"beam": UNKNOWN}}], PLAIN, last=True)).encode(),
)
