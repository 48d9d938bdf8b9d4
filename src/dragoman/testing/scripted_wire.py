"""The wire of the scripted provider: canonical blocks as JSON, and streams of one JSON object a line."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import RateLimitError, ServerError
from dragoman.testing.conformance.said import Said
from dragoman.testing.conformance.wire import Wire, compact, line

MODEL = "actor"


def _end(said: Said) -> dict[str, Any]:
    return {
        "stop": "tool_use" if said.calls else "max_tokens" if said.cut else "end_turn",
        "usage": {"input": said.input_tokens, "cached": said.cached_tokens, "output": said.output_tokens},
    }


def whole(said: Said) -> bytes:
    """A whole reply."""
    spoken = (("thinking", said.thinking), ("text", said.text))
    content: list[dict[str, Any]] = [{"type": kind, "text": "".join(pieces)} for kind, pieces in spoken if pieces]
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "arguments": call.arguments} for call in said.calls
    ]
    return compact({"model": MODEL, "content": content, **_end(said)}).encode()


def chunks(said: Said) -> Iterator[bytes]:
    """The lines of a streamed reply, one a chunk."""
    yield line({"type": "start", "model": MODEL})
    index = 0
    for kind, pieces in (("thinking", said.thinking), ("text", said.text)):
        yield from (line({"type": kind, "index": index, "text": piece}) for piece in pieces)
        index += bool(pieces)
    for call in said.calls:
        yield line({"type": "tool_use", "index": index, "id": call.id, "name": call.name})
        yield from (line({"type": "arguments", "index": index, "text": piece}) for piece in call.pieces)
        yield line({"type": "tool_use_end", "index": index})
        index += 1
    yield line({"type": "end", **_end(said)})


def _error(kind: str) -> bytes:
    return line({"type": "error", "error": {"type": kind, "message": "It broke"}})


WIRE = Wire(
    stream=lambda said: b"".join(chunks(said)),
    whole=whole,
    terminal=re.compile(rb'"type":"end"'),
    errors=((_error("rate_limit"), RateLimitError), (_error("server_error"), ServerError)),
    keep_alive=b"\n",
)
"""For the conformance kit: the scripted provider's adapter is one like any other."""
