"""The Chat Completions wire by hand (wire reference 4 and 7)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dragoman.adapter.errors import ProviderError, RateLimitError, ServerError
from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, sse

_HEAD = {"id": "chatcmpl-1", "model": "gpt-5.1"}


def _finish(said: Said) -> str:
    return "tool_calls" if said.calls else "length" if said.cut else "stop"


def _usage(said: Said) -> dict[str, Any]:
    prompt = said.input_tokens + said.cached_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said.output_tokens,
        "total_tokens": prompt + said.output_tokens,
        "prompt_tokens_details": {"cached_tokens": said.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def handwritten_whole(said: Said) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said.text) if said.text else None}
    if said.thinking:
        message["reasoning_content"] = "".join(said.thinking)
    if said.calls:
        message["tool_calls"] = [
            {"id": f"call_{call.id}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in said.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(said)}
    return compact({**_HEAD, "choices": [choice], "usage": _usage(said)}).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(sse(chunk) for chunk in _chunks(said)) + sse("[DONE]")


def _chunks(said: Said) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in said.thinking:
        yield chunk({"reasoning_content": piece})
    for piece in said.text:
        yield chunk({"content": piece})
    for index, call in enumerate(said.calls):
        start = {"index": index, "id": f"call_{call.id}", "type": "function"}
        yield chunk({"tool_calls": [{**start, "function": {"name": call.name, "arguments": ""}}]})
        for piece in call.pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _finish(said))
    yield {**_HEAD, "choices": [], "usage": _usage(said)}


ERRORS: tuple[tuple[bytes, type[ProviderError]], ...] = (
    (
        sse({"error": {"message": "The server had an error", "type": "server_error", "param": None, "code": None}}),
        ServerError,
    ),
    (
        sse({"error": {"message": "Slow down", "type": "requests", "code": "rate_limit_exceeded"}}),
        RateLimitError,
    ),
)

WIRE = Wire(handwritten_stream, handwritten_whole, re.compile(rb"(?m)^data: ?\[DONE\]"), ERRORS, b": keep-alive\n\n")
UNMARKED = replace(WIRE, terminal=re.compile(rb'"finish_reason": ?"'))
"""As it is spoken where the marker at the end may be missing: then it is the finish reason that tells."""
