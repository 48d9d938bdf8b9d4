"""Recorded streams, chosen for variety, and where each of them ends for good."""

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from tests.conformance.scope import out_of_scope
from tests.exchanges import Exchange, load_or_skip

SEED = 20261121
COUNT = 12
LARGEST = 20_000
"""Bytes. Every byte of a chosen stream is cut at, so that time grows with the square of its size."""

_FEATURES = (
    "parallel_tools", "tool_call", "thinking", "thinking_signature", "redacted_thinking", "server_tool", "citations",
    "refusal", "truncated", "structured_output", "stop_sequences", "error_mid_stream", "logprobs", "text",
)  # fmt: skip
_FEW = 5


def chosen(provider: str) -> list[Exchange]:
    """Twelve streams: for each feature that was recorded, one of the few smallest; text beyond ASCII; then others."""
    picker = random.Random(SEED)
    whole = [exchange for exchange in load_or_skip(provider) if _is_whole(exchange)]
    whole.sort(key=lambda exchange: (len(exchange.body), exchange.id))
    kinds = [[exchange for exchange in whole if feature in exchange.features] for feature in _FEATURES]
    kinds.append([exchange for exchange in whole if not exchange.body.isascii()])
    kinds.append([exchange for exchange in whole if exchange.body.count(b"\r\n") > 1])
    picked: dict[str, Exchange] = {}
    for kind in kinds:
        fresh = [exchange for exchange in kind if exchange.id not in picked][:_FEW]
        if fresh and len(picked) < COUNT:
            exchange = picker.choice(fresh)
            picked[exchange.id] = exchange
    for exchange in whole:
        if len(picked) == COUNT:
            break
        picked.setdefault(exchange.id, exchange)
    return list(picked.values())


def terminal_offset(exchange: Exchange) -> int:
    """How many bytes must have arrived before the reply can be known to be whole.

    The end of the terminal event's own data, its line end not counted. A chat stream ends with [DONE]; where the
    server sends none, with its finish reason.
    """
    reasons: list[int] = []
    for end, data in _frames(exchange):
        if data == b"[DONE]":
            return end
        frame = json.loads(data)
        if _ends(exchange.provider, frame):
            return end
        if any(choice.get("finish_reason") for choice in frame.get("choices") or ()):
            reasons.append(end)
    return reasons[0] if reasons else len(exchange.body)


def boundaries(exchange: Exchange) -> list[int]:
    """The offsets right behind each frame and the line ends that close it, before the terminal frame."""
    pattern = rb"\n" if exchange.provider == "ollama" else rb"\r?\n\r?\n"
    last = terminal_offset(exchange)
    return [0, *(found.end() for found in re.finditer(pattern, exchange.body) if found.end() < last)]


def _is_whole(exchange: Exchange) -> bool:
    return (
        exchange.streamed
        and exchange.status == 200
        and exchange.genuine
        and len(exchange.body) <= LARGEST
        and out_of_scope(exchange) is None
    )


def _frames(exchange: Exchange) -> Iterator[tuple[int, bytes]]:
    """The data of each frame and the offset of its end. Recorded frames have one data line each."""
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
    return bool(frame.get("error"))


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
    "ollama": (b'{"error":"model runner has unexpectedly stopped"}\n', "ProviderError"),
}
"""An error in mid-stream, as the reference of each wire describes it (none was recorded), and the class it means."""
