"""The Chat Completions wire by hand (docs/reference/wires/openai-chat.md)."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dragoman.adapter.errors import ContextOverflowError, NotFoundError, ProviderError, RateLimitError, ServerError
from dragoman.testing.conformance.wire import UNKNOWN, FailedReply, Wire, compact, sse
from dragoman.testing.sample_reply import SampleReply

_HEAD = {"id": "chatcmpl-1", "model": "gpt-5.1"}


def _finish(sample: SampleReply) -> str:
    return "tool_calls" if sample.calls else "length" if sample.truncated else "stop"


def _usage(sample: SampleReply) -> dict[str, Any]:
    prompt = sample.input_tokens + sample.cached_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": sample.output_tokens,
        "total_tokens": prompt + sample.output_tokens,
        "prompt_tokens_details": {"cached_tokens": sample.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def handwritten_whole(sample: SampleReply) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(sample.text) if sample.text else None}
    if sample.thinking:
        message["reasoning_content"] = "".join(sample.thinking)
    if sample.calls:
        message["tool_calls"] = [
            {"id": f"call_{call.id}", "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in sample.calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": _finish(sample)}
    return compact({**_HEAD, "choices": [choice], "usage": _usage(sample)}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(sse(chunk) for chunk in handwritten_chunks(sample)) + sse("[DONE]")


def handwritten_chunks(sample: SampleReply) -> Iterator[dict[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**_HEAD, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in sample.thinking:
        yield chunk({"reasoning_content": piece})
    for piece in sample.text:
        yield chunk({"content": piece})
    for index, call in enumerate(sample.calls):
        start = {"index": index, "id": f"call_{call.id}", "type": "function"}
        yield chunk({"tool_calls": [{**start, "function": {"name": call.name, "arguments": ""}}]})
        for piece in call.pieces:
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield finished(_finish(sample))
    yield {**_HEAD, "choices": [], "usage": _usage(sample)}


def finished(reason: str) -> dict[str, Any]:
    """The chunk with the finish reason."""
    return {**_HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}


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


def _unknown_part() -> bytes:
    content = [{"type": "text", "text": "So"}, {"type": "hologram", "beam": UNKNOWN}]
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    return compact({**_HEAD, "choices": [choice]}).encode()


def _failure(status: int, due: type[ProviderError], **error: Any) -> FailedReply:
    return FailedReply(status, compact({"error": error}).encode(), due)


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb"(?m)^data: ?\[DONE\]"),
    ERRORS,
    b": keep-alive\n\n",
    failures=(
        _failure(404, NotFoundError, message="The model does not exist", code="model_not_found"),
        _failure(400, ContextOverflowError, message="Too long", code="context_length_exceeded"),
        _failure(200, ServerError, message="The server had an error", type="server_error"),
    ),
    model="gpt-5.1",
    unknown_event=sse({**_HEAD, "choices": [{"index": 0, "delta": {"hologram": "beam"}, "finish_reason": None}]}),
    unknown_block=_unknown_part(),
)
UNMARKED = replace(WIRE, terminal=re.compile(rb'"finish_reason": ?"'))
"""For endpoints that may omit the final marker: then the finish reason is the end."""


def _text_choice(text: str, finish: str | None) -> dict[str, Any]:
    return {**_HEAD, "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": finish}]}


def _text_finish(sample: SampleReply) -> str:
    return "length" if sample.truncated else "stop"


def _handwritten_text(sample: SampleReply) -> bytes:
    reply = {**_text_choice("".join(sample.text), _text_finish(sample)), "usage": _usage(sample)}
    return compact(reply).encode()


def _handwritten_text_stream(sample: SampleReply) -> bytes:
    chunks = [_text_choice(piece, None) for piece in sample.text]
    chunks += [_text_choice("", _text_finish(sample)), {**_HEAD, "choices": [], "usage": _usage(sample)}]
    return b"".join(map(sse, chunks)) + sse("[DONE]")


TEXT = replace(UNMARKED, stream=_handwritten_text_stream, whole=_handwritten_text)
"""Text completions, which have neither thinking nor calls."""
