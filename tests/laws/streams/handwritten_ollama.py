"""Ollama's chat wire by hand (wire reference 5)."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ProviderError
from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, line

_HEAD = {"model": "qwen3:4b", "created_at": "2026-11-21T00:00:00Z"}


def _calls(said: Said) -> list[dict[str, Any]]:
    return [
        {"id": f"call_{call.id}", "function": {"index": index, "name": call.name, "arguments": call.input}}
        for index, call in enumerate(said.calls)
    ]


def _end(said: Said) -> dict[str, Any]:
    return {
        "done": True, "done_reason": "length" if said.cut else "stop", "total_duration": 5, "load_duration": 1,
        "prompt_eval_count": said.input_tokens + said.cached_tokens, "prompt_eval_duration": 2,
        "eval_count": said.output_tokens, "eval_duration": 3,
    }  # fmt: skip


def handwritten_whole(said: Said) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(said.text)}
    if said.thinking:
        message["thinking"] = "".join(said.thinking)
    if said.calls:
        message["tool_calls"] = _calls(said)
    return compact({**_HEAD, "message": message, **_end(said)}).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(line(each) for each in _lines(said))


def _lines(said: Said) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = [{"content": "", "thinking": piece} for piece in said.thinking]
    deltas += [{"content": piece} for piece in said.text]
    deltas += [{"content": "", "tool_calls": [call]} for call in _calls(said)]
    for delta in deltas:
        yield {**_HEAD, "message": {"role": "assistant", **delta}, "done": False}
    yield {**_HEAD, "message": {"role": "assistant", "content": ""}, **_end(said)}


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"done":\s*true'),
    ((b'{"error":"model runner has unexpectedly stopped"}\n', ProviderError),),
    b"\n",
    cached=False,
)
