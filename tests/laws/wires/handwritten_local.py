"""The embedded model's lines by hand."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ContextOverflowError, ServerError
from dragoman.testing.conformance.wire import Wire, compact, line
from dragoman.testing.sample_reply import SampleReply

_MODEL = "smollm2-135m"


def _end(sample: SampleReply) -> dict[str, Any]:
    return {
        "stop": "tool_use" if sample.calls else "max_tokens" if sample.truncated else "end_turn",
        "usage": {"input_tokens": sample.input_tokens + sample.cached_tokens, "output_tokens": sample.output_tokens},
    }


def _text(sample: SampleReply) -> tuple[str, ...]:
    """Its thinking is text."""
    return (*sample.thinking, *sample.text)


def handwritten_whole(sample: SampleReply) -> bytes:
    content: list[dict[str, Any]] = [{"type": "text", "text": "".join(_text(sample))}] if _text(sample) else []
    content += [{"type": "call", "name": call.name, "arguments": call.input} for call in sample.calls]
    return compact({"model": _MODEL, "content": content, **_end(sample)}).encode()


def handwritten_stream(sample: SampleReply) -> bytes:
    return b"".join(line(each) for each in _lines(sample))


def _lines(sample: SampleReply) -> Iterator[dict[str, Any]]:
    yield {"type": "start", "model": _MODEL}
    for piece in _text(sample):
        yield {"type": "text", "text": piece}
    for call in sample.calls:
        yield {"type": "call", "name": call.name}
        for piece in call.pieces:
            yield {"type": "arguments", "text": piece}
        yield {"type": "call_end"}
    yield {"type": "end", **_end(sample)}


def _error(kind: str) -> bytes:
    return line({"type": "error", "error": {"type": kind, "message": "It broke"}})


WIRE = Wire(
    handwritten_stream,
    handwritten_whole,
    re.compile(rb'"type":\s*"end"'),
    ((_error("runtime"), ServerError), (_error("context_overflow"), ContextOverflowError)),
    b"\n",
    thinking=False,
    cached=False,
)
