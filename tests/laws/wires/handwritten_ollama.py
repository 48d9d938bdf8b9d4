"""Ollama's chat wire by hand (docs/reference/wires/ollama.md)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ProviderError
from dragoman.testing.conformance.wire import Wire, compact, line
from dragoman.testing.sample_reply import SampleReply

_HEAD = {"model": "qwen3:4b", "created_at": "2026-11-21T00:00:00Z"}


def _calls(sample: SampleReply) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{call.id}", "function": {"index": index, "name": call.name, "arguments": call.input}}
        for index, call in enumerate(sample.calls)
    ]


def _end(sample: SampleReply) -> dict[str, Any]:
    return {
        "done": True, "done_reason": "length" if sample.truncated else "stop", "total_duration": 5, "load_duration": 1,
        "prompt_eval_count": sample.input_tokens + sample.cached_tokens, "prompt_eval_duration": 2,
        "eval_count": sample.output_tokens, "eval_duration": 3,
    }  # fmt: skip


def handwritten_whole(sample: SampleReply) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(sample.text)}
    if sample.thinking:
        message["thinking"] = "".join(sample.thinking)
    if sample.calls:
        message["tool_calls"] = _calls(sample)
    return compact({**_HEAD, "message": message, **_end(sample)}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(line(each) for each in _lines(sample))


def _lines(sample: SampleReply) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in sample.thinking]
    deltas += [{"content": piece} for piece in sample.text]
    deltas += [{"content": "", "tool_calls": [call]} for call in _calls(sample)]
    for delta in deltas:
        yield {**_HEAD, "message": {"role": "assistant", **delta}, "done": False}
    yield {**_HEAD, "message": {"role": "assistant", "content": ""}, **_end(sample)}


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"done":\s*true'),
    ((b'{"error":"model runner has unexpectedly stopped"}\n', ProviderError),),
    b"\n",
    cached=False,
    model="qwen3:4b",
    unknown_event=line({**_HEAD, "message": {"role": "assistant", "hologram": "beam"}, "done": False}),
)
