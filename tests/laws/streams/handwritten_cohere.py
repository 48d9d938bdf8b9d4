"""Cohere's chat wire, version 2, by hand (docs.cohere.com/v2/docs/streaming)."""

import re
from collections.abc import Iterator
from typing import Any

from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, sse


def _finish(said: Said) -> str:
    return "TOOL_CALL" if said.calls else "MAX_TOKENS" if said.cut else "COMPLETE"


def _usage(said: Said) -> dict[str, Any]:
    prompt = said.input_tokens + said.cached_tokens
    return {
        "billed_units": {"input_tokens": prompt, "output_tokens": said.output_tokens},
        "tokens": {"input_tokens": prompt, "output_tokens": said.output_tokens},
        "cached_tokens": said.cached_tokens,
    }


def _contents(said: Said) -> list[tuple[str, tuple[str, ...]]]:
    return [(kind, pieces) for kind, pieces in (("thinking", said.thinking), ("text", said.text)) if pieces]


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"{name}_{call_id}", "type": "function", "function": {"name": name, "arguments": arguments}}


def handwritten_whole(said: Said) -> bytes:
    message: dict[str, Any] = {"role": "assistant"}
    if said.thinking or said.text:
        message["content"] = [{"type": kind, kind: "".join(pieces)} for kind, pieces in _contents(said)]
    if said.calls:
        message["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in said.calls]
    reply = {"id": "handwritten", "finish_reason": _finish(said), "message": message, "usage": _usage(said)}
    return compact(reply).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(sse(event, event["type"]) for event in _events(said))


def _events(said: Said) -> Iterator[dict[str, Any]]:
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield {"id": "handwritten", "type": "message-start", "delta": {"message": empty}}
    for index, (kind, pieces) in enumerate(_contents(said)):
        yield _event("content-start", index, content={"type": kind, kind: ""})
        for piece in pieces:
            yield _event("content-delta", index, content={kind: piece})
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(said.calls):
        yield _event("tool-call-start", index, tool_calls=_call(call.id, call.name, ""))
        for piece in call.pieces:
            yield _event("tool-call-delta", index, tool_calls={"function": {"arguments": piece}})
        yield {"type": "tool-call-end", "index": index}
    yield {"type": "message-end", "delta": {"finish_reason": _finish(said), "usage": _usage(said)}}


def _event(kind: str, index: int, **message: Any) -> dict[str, Any]:
    return {"type": kind, "index": index, "delta": {"message": message}}


WIRE = Wire(
    handwritten_stream, handwritten_whole, re.compile(rb'"type":\s*"message-end"'), (), b": keep-alive\n\n",
    cached=False,
)  # fmt: skip
