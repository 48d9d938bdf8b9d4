"""Streams that try to cost more than they carry. Sizes are in bytes of the plain body."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MIB = 1024 * 1024
NETWORK_CHUNK = 64 * 1024

ANTHROPIC = "anthropic:claude-sonnet-4-6"
CHAT = "openai-chat:gpt-5.1"
OLLAMA = "ollama:qwen3:4b"
GOOGLE = "google:gemini-2.5-flash"


@dataclass(frozen=True)
class HostileStream:
    """``body`` makes the plain bytes for a size; ``compressed``: they are sent with gzip, although nobody asked."""

    name: str
    model: str
    body: Callable[[int], bytes]
    compressed: bool = False
    chunk: int = NETWORK_CHUNK

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        body = self.body(size)
        if self.compressed:
            body = gzip.compress(body, compresslevel=6)
        for start in range(0, len(body), self.chunk):
            yield body[start : start + self.chunk]


def _repeat(piece: bytes, *, start: bytes = b"", end: bytes = b"") -> Callable[[int], bytes]:
    return lambda size: start + piece * max(1, (size - len(start) - len(end)) // len(piece)) + end


def _sse(value: object) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _chat_delta(delta: object) -> bytes:
    return _sse({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]})


def _unknown_kinds(size: int) -> bytes:
    return b"".join(b'data: {"type":"kind%d"}\n\n' % number for number in range(size // 30))


def _many_calls(size: int) -> bytes:
    calls = [
        {"index": number, "id": f"c{number}", "function": {"name": "f", "arguments": "{}"}}
        for number in range(size // 70)
    ]
    return _chat_delta({"tool_calls": calls})


def _empty_members(size: int) -> bytes:
    """Many gzip bodies of nothing, one after the other."""
    return gzip.compress(b"", mtime=0) * (size // 20)


_ANTHROPIC_START = _sse(
    {"type": "message_start", "message": {"id": "m", "model": "m", "role": "assistant", "content": [], "usage": {}}}
) + _sse({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
_ANTHROPIC_DELTA = _sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}})

STREAMS = (
    HostileStream("compressed line feeds", ANTHROPIC, _repeat(b"\n"), compressed=True),
    HostileStream("compressed comments", ANTHROPIC, _repeat(b":\n"), compressed=True),
    HostileStream("line feeds", ANTHROPIC, _repeat(b"\n")),
    HostileStream("carriage returns", ANTHROPIC, _repeat(b"\r")),
    HostileStream("comments", ANTHROPIC, _repeat(b":\n")),
    HostileStream("comments and empty lines", ANTHROPIC, _repeat(b":\n\n")),
    HostileStream("lines without data", ANTHROPIC, _repeat(b"i\n")),
    HostileStream("event names", ANTHROPIC, _repeat(b"event: a\n")),
    HostileStream("empty data lines", ANTHROPIC, _repeat(b"data:\n")),
    HostileStream("pings", ANTHROPIC, _repeat(_sse({"type": "ping"}))),
    HostileStream("events of ever new kinds", ANTHROPIC, _unknown_kinds),
    HostileStream("one-letter deltas", ANTHROPIC, _repeat(_ANTHROPIC_DELTA, start=_ANTHROPIC_START)),
    HostileStream("one-letter deltas of a chat", CHAT, _repeat(_chat_delta({"content": "a"}))),
    HostileStream("fragments of a call", CHAT, _repeat(
        _chat_delta({"tool_calls": [{"index": 0, "function": {"arguments": " "}}]}),
        start=_chat_delta({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]}),
    )),
    HostileStream("calls in one event", CHAT, _many_calls),
    HostileStream("one event, one long text", CHAT, _repeat(
        b"a", start=b'data: {"choices":[{"delta":{"content":"', end=b'"}}]}\n\n'
    )),
    HostileStream("one event, numbers", CHAT, _repeat(b"0,", start=b'data: {"choices":[], "x":[', end=b"0]}\n\n")),
    HostileStream("one event, objects", CHAT, _repeat(b"{},", start=b'data: {"choices":[], "x":[', end=b"0]}\n\n")),
    HostileStream("one event, brackets", CHAT, _repeat(b"[", start=b"data: ", end=b"\n\n")),
    HostileStream("one event in tiny pieces", CHAT, _repeat(b"a", start=b'data: {"a":"'), chunk=16),
    HostileStream("blank lines of spaces", OLLAMA, _repeat(b" \n")),
    HostileStream("one-letter deltas of lines", OLLAMA, _repeat(b'{"message":{"content":"a"}}\n')),
    HostileStream("numbers in an array", GOOGLE, _repeat(b"0,", start=b"[")),
    HostileStream("blanks in an array", GOOGLE, _repeat(b" ", start=b"[")),
    HostileStream("empty compressed parts", ANTHROPIC, _empty_members),
)  # fmt: skip
