"""The wire of the scripted provider: canonical blocks as JSON, and streams with one JSON object per line."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import RateLimitError, ServerError
from dragoman.testing.conformance.wire import Wire, compact, line
from dragoman.testing.sample_reply import SampleReply

__all__ = ["MODEL", "WIRE"]

MODEL = "actor"
"""The name of the one model of a `ScriptedProvider`."""


def _end(sample: SampleReply) -> dict[str, Any]:
    return {
        "stop": "tool_use" if sample.calls else "max_tokens" if sample.truncated else "end_turn",
        "usage": {"input": sample.input_tokens, "cached": sample.cached_tokens, "output": sample.output_tokens},
    }


def whole(sample: SampleReply) -> bytes:
    """Encode a whole reply."""
    texts = (("thinking", sample.thinking), ("text", sample.text))
    content: list[dict[str, Any]] = [{"type": kind, "text": "".join(pieces)} for kind, pieces in texts if pieces]
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "arguments": call.arguments} for call in sample.calls
    ]
    return compact({"model": MODEL, "content": content, **_end(sample)}).encode()


def chunks(sample: SampleReply) -> Iterator[bytes]:
    """Yield the lines of a streamed reply, one per chunk."""
    yield line({"type": "start", "model": MODEL})
    index = 0
    for kind, pieces in (("thinking", sample.thinking), ("text", sample.text)):
        yield from (line({"type": kind, "index": index, "text": piece}) for piece in pieces)
        index += bool(pieces)
    for call in sample.calls:
        yield line({"type": "tool_use", "index": index, "id": call.id, "name": call.name})
        yield from (line({"type": "arguments", "index": index, "text": piece}) for piece in call.pieces)
        yield line({"type": "tool_use_end", "index": index})
        index += 1
    yield line({"type": "end", **_end(sample)})


def _error(kind: str) -> bytes:
    return line({"type": "error", "error": {"type": kind, "message": "It broke"}})


WIRE = Wire(
    stream=lambda sample: b"".join(chunks(sample)),
    whole=whole,
    terminal=re.compile(rb'"type":"end"'),
    errors=((_error("rate_limit"), RateLimitError), (_error("server_error"), ServerError)),
    keep_alive=b"\n",
    model=MODEL,
    unknown_event=line({"type": "hologram", "index": 0}),
)
"""The wire for the conformance kit, which also tests the scripted provider's adapter."""
