"""The embedded model's lines by hand."""

import re
from collections.abc import Iterator
from typing import Any

from dragoman.adapter.errors import ContextOverflowError, ServerError
from tests.laws.streams.said import Said
from tests.laws.streams.wire import Wire, compact, line

_MODEL = "smollm2-135m"


def _end(said: Said) -> dict[str, Any]:
    return {
        "stop": "tool_use" if said.calls else "max_tokens" if said.cut else "end_turn",
        "usage": {"input_tokens": said.input_tokens + said.cached_tokens, "output_tokens": said.output_tokens},
    }


def _text(said: Said) -> tuple[str, ...]:
    """It shows no thinking of its own: that is text."""
    return (*said.thinking, *said.text)


def handwritten_whole(said: Said) -> bytes:
    content: list[dict[str, Any]] = [{"type": "text", "text": "".join(_text(said))}] if _text(said) else []
    content += [{"type": "call", "name": call.name, "arguments": call.input} for call in said.calls]
    return compact({"model": _MODEL, "content": content, **_end(said)}).encode()


def handwritten_stream(said: Said) -> bytes:
    return b"".join(line(each) for each in _lines(said))


def _lines(said: Said) -> Iterator[dict[str, Any]]:
    yield {"type": "start", "model": _MODEL}
    for piece in _text(said):
        yield {"type": "text", "text": piece}
    for call in said.calls:
        yield {"type": "call", "name": call.name}
        for piece in call.pieces:
            yield {"type": "arguments", "text": piece}
        yield {"type": "call_end"}
    yield {"type": "end", **_end(said)}


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
