"""Recorded streams, chosen for variety, and the terminal offset of each."""

import base64
import json
import random
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tests.conformance.recordings.oracle.frames import binary, handwritten_exception
from tests.conformance.scope import adapter_name, skip_reason, wire_name
from tests.exchanges import RecordedExchange, load_or_skip

SEED = 20261121
COUNT = 12
SMALL = 5_000
"""Bytes. A small stream is cut at every byte, so time grows with the square of its size."""
LARGEST = 60_000
"""Bytes. A larger stream, chosen if no small one has a feature, is cut around and within each frame."""
LINES_KEPT = 6
"""Of each run of similar lines of an NDJSON stream, which has one line per token and is otherwise far over the limit.
"""

_FEATURES = (
    "parallel_tools", "tool_call", "thinking", "thinking_signature", "redacted_thinking", "server_tool", "citations",
    "refusal", "truncated", "error_mid_stream", "structured_output", "stop_sequences", "text",
)  # fmt: skip
_FEW = 3


def select_streams(provider: str) -> list[RecordedExchange]:
    """Twelve streams: for each recorded feature, one of the few smallest; text beyond ASCII; then others."""
    picker = random.Random(SEED)
    recorded = [exchange for exchange in load_or_skip(provider) if _is_whole(exchange)]
    whole = [_shorten(exchange) if provider == "ollama" else exchange for exchange in recorded]
    whole.sort(key=lambda exchange: (len(exchange.body), exchange.id))
    whole = [exchange for exchange in whole if len(exchange.body) <= LARGEST]
    kinds = [[exchange for exchange in whole if not exchange.body.isascii()]]
    kinds += [[exchange for exchange in whole if feature in exchange.features] for feature in _FEATURES]
    picked: dict[str, RecordedExchange] = {}
    for kind in kinds:
        fresh = [exchange for exchange in kind if exchange.id not in picked]
        few = [exchange for exchange in fresh if len(exchange.body) <= SMALL][:_FEW] or fresh[:1]
        if few and len(picked) < COUNT:
            exchange = picker.choice(few)
            picked[exchange.id] = exchange
    for exchange in whole[: COUNT * 2]:
        if len(picked) < COUNT:
            picked.setdefault(exchange.id, exchange)
    return list(picked.values())


def terminal_offset(exchange: RecordedExchange) -> int:
    """How many bytes must have arrived before the reply can be known to be complete.

    The end of the terminal event's own data, without its line end. A chat stream ends with [DONE]; if the server sends
    none, with its finish reason, and the counts if it always sends them. Google's tools may continue after a first one:
    the last one counts.
    """
    if adapter_name(exchange) in _MARKER_IS_OPTIONAL:
        return _finished_and_counted(exchange)
    reasons: list[int] = []
    for end, data in _frames(exchange):
        if data == b"[DONE]":
            return end
        frame = json.loads(data)
        if _ends(wire_name(exchange), frame):
            return end
        if any(choice.get("finish_reason") for choice in frame.get("choices") or ()):
            reasons.append(end)
        if any(candidate.get("finishReason") for candidate in frame.get("candidates") or ()):
            reasons.insert(0, end)
    return reasons[0] if reasons else len(exchange.body)


_MARKER_IS_OPTIONAL = frozenset({"huggingface", "perplexity", "writer"})
"""Endpoints of which some streams, or all, come without [DONE]."""


def _finished_and_counted(exchange: RecordedExchange) -> int:
    """The offset at which both a finish reason and the usage have come: what follows adds nothing."""
    finished = counted = False
    for end, data in _frames(exchange):
        frame = {} if data == b"[DONE]" else json.loads(data)
        finished |= any(choice.get("finish_reason") for choice in frame.get("choices") or ())
        counted |= bool(frame.get("usage"))
        if (finished and counted) or data == b"[DONE]":
            return end
    return len(exchange.body)


def boundaries(exchange: RecordedExchange) -> list[int]:
    """The offsets right after each frame and the line ends that close it, before the terminal frame."""
    last = terminal_offset(exchange)
    if exchange.provider == "bedrock":
        return [0, *(end for end, _ in _frames(exchange) if end < last)]
    pattern = rb"\n" if exchange.provider == "ollama" else rb"\r?\n\r?\n"
    return [0, *(found.end() for found in re.finditer(pattern, exchange.body) if found.end() < last)]


def cuts(exchange: RecordedExchange) -> list[int]:
    """Where to cut: everywhere, or around each frame of a large stream and in its middle."""
    size = len(exchange.body)
    if size <= SMALL:
        return list(range(size))
    frames = boundaries(exchange)
    near = {place + step for place in frames for step in (-2, -1, 0, 1, 2)}
    middles = {(start + stop) // 2 for start, stop in pairwise([*frames, size])}
    return sorted(place for place in near | middles if 0 <= place < size)


def _is_whole(exchange: RecordedExchange) -> bool:
    return exchange.streamed and exchange.status == 200 and exchange.is_genuine and skip_reason(exchange) is None


def _shorten(exchange: RecordedExchange) -> RecordedExchange:
    """The stream without most of its lines that carry one more piece of a text: it is as complete without them."""
    kept: list[str] = []
    run: tuple[str, ...] = ()
    length = 0
    for line in exchange.response.splitlines(keepends=True):
        kind = _pieces(line)
        length = length + 1 if kind == run else 1
        run = kind
        if length <= LINES_KEPT or len(kind) != 1:
            kept.append(line)
    return replace(exchange, response="".join(kept))


def _pieces(line: str) -> tuple[str, ...]:
    """The kind of a line: content, thinking, tool_calls, or the end."""
    if not line.strip():
        return ()
    data = json.loads(line)
    message = data.get("message") or {}
    found = [name for name in ("content", "thinking", "tool_calls") if message.get(name)]
    return (*found, *(["done", "last"] if data.get("done") else ["calls"] if "tool_calls" in found else []))


def _frames(exchange: RecordedExchange) -> Iterator[tuple[int, bytes]]:
    """The data of each frame and the offset of its end. Recorded frames have one data line each.

    For a binary frame, its name and payload.
    """
    if exchange.provider == "bedrock":
        for end, name, payload in binary(exchange.body):
            chunk = json.loads(base64.b64decode(payload["bytes"])) if name == "chunk" else {name: payload}
            yield end, json.dumps(chunk).encode()
        return
    pattern = rb"([^\r\n]+)" if exchange.provider == "ollama" else rb"(?m)^data:[ ]?([^\r\n]+)"
    for found in re.finditer(pattern, exchange.body):
        yield found.end(), found.group(1).strip()


def _ends(provider: str, frame: dict[str, Any]) -> bool:
    if provider == "anthropic":
        return frame.get("type") in ("message_stop", "error")
    if provider == "openai-responses":
        return frame.get("type") in ("response.completed", "response.incomplete", "response.failed", "error")
    if provider == "ollama":
        return bool(frame.get("done") or frame.get("error"))
    if provider == "google-interactions":
        return frame.get("event_type") in ("interaction.completed", "error")
    if provider == "cohere":
        return frame.get("type") in ("message-end", "error")
    if provider == "bedrock":
        return "metadata" in frame or frame.get("type") == "message_stop"
    return bool(frame.get("error"))


_GOOGLE_ERROR = (
    b'data: {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}\n\n',
    "OverloadedError",
)

HANDWRITTEN_ERROR_FRAMES: dict[str, tuple[bytes, str]] = {
    "anthropic": (
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
        "OverloadedError",
    ),
    "openai-responses": (
        b'event: error\ndata: {"type":"error","code":"rate_limit_exceeded","message":"Slow down","param":null}\n\n',
        "RateLimitError",
    ),
    "openai-chat": (
        b'data: {"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}\n\n',
        "ServerError",
    ),
    "google": _GOOGLE_ERROR,
    "google-vertex": _GOOGLE_ERROR,
    "google-interactions": (
        b'event: error\ndata: {"error":{"message":"Slow down","code":"rate_limit_exceeded"},"event_type":"error"}\n\n',
        "RateLimitError",
    ),
    "cohere": (b'event: error\ndata: {"type":"error","message":"internal server error"}\n\n', "ServerError"),
    "bedrock": (
        handwritten_exception("throttlingException", b'{"message":"Too many requests, please wait"}'),
        "RateLimitError",
    ),
    "ollama": (b'{"error":"model runner has unexpectedly stopped"}\n', "ProviderError"),
}
"""An error in mid-stream, as the reference of each wire describes it (none was recorded), and its class."""
