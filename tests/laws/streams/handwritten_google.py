"""Google's generateContent wire by hand (wire reference 6)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import OverloadedError, RateLimitError
from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, sse

_HEAD = {"modelVersion": "gemini-2.5-flash", "responseId": "handwritten"}


def _usage(said: Said) -> dict[str, Any]:
    prompt = said.input_tokens + said.cached_tokens
    counts = {"promptTokenCount": prompt, "candidatesTokenCount": said.output_tokens}
    cached = {"cachedContentTokenCount": said.cached_tokens} if said.cached_tokens else {}
    return {**counts, **cached, "totalTokenCount": prompt + said.output_tokens}


def _calls(said: Said) -> list[dict[str, Any]]:
    return [{"functionCall": {"id": call.id, "name": call.name, "args": call.input}} for call in said.calls]


def _reply(parts: list[dict[str, Any]], said: Said, *, last: bool) -> dict[str, Any]:
    finish = {"finishReason": "MAX_TOKENS" if said.cut else "STOP"} if last else {}
    candidate = {"content": {"role": "model", "parts": parts}, "index": 0, **finish}
    return {"candidates": [candidate], "usageMetadata": _usage(said), **_HEAD}


def handwritten_whole(said: Said) -> bytes:
    parts: list[dict[str, Any]] = []
    if said.thinking:
        parts.append({"text": "".join(said.thinking), "thought": True})
    if said.text:
        parts.append({"text": "".join(said.text)})
    return compact(_reply([*parts, *_calls(said)], said, last=True)).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(sse(chunk) for chunk in _chunks(said))


def _chunks(said: Said) -> Iterator[dict[str, Any]]:
    parts: list[dict[str, Any]] = [{"text": piece, "thought": True} for piece in said.thinking]
    parts += [{"text": piece} for piece in said.text]
    parts += _calls(said)
    for number, part in enumerate(parts, 1):
        yield _reply([part], said, last=number == len(parts))


def _error(code: int, status: str) -> bytes:
    return sse({"error": {"code": code, "message": "It broke", "status": status}})


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"finishReason":\s*"'),
    ((_error(503, "UNAVAILABLE"), OverloadedError), (_error(429, "RESOURCE_EXHAUSTED"), RateLimitError)),
    b": keep-alive\n\n",
)
