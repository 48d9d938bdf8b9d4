"""Replies written by hand after the providers' own pages: one description gives the whole reply and its stream.

A reply is a list of parts: a text, a `Call` or a `Thought`. Half of what a stream can be is in how it is cut, so a
stream is a list of frames.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """``raw`` replaces the arguments if they are not JSON."""

    id: str
    name: str
    input: dict[str, Any] = field(default_factory=dict)
    raw: str | None = None

    @property
    def text(self) -> str:
        return json.dumps(self.input) if self.raw is None else self.raw


@dataclass(frozen=True, slots=True)
class Thought:
    text: str
    signature: str = "c2lnbmVk"


Part = str | Call | Thought


@dataclass(frozen=True, slots=True)
class Reply:
    """``frames`` are the stream, one event or line each; ``body`` is the same reply as a whole."""

    body: bytes
    frames: tuple[bytes, ...]
    content_type: str


def handwritten_anthropic(*parts: Part, stop: str | None = None, usage: tuple[int, int] = (12, 5)) -> Reply:
    """A reply of the Messages API."""
    content: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for index, part in enumerate(parts):
        block, empty, deltas = _anthropic_block(part)
        content.append(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    called = any(isinstance(part, Call) for part in parts)
    reason = stop or ("tool_use" if called else "end_turn")
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_sequence": None}
    counts = {"input_tokens": usage[0], "output_tokens": usage[1]}
    start: dict[str, Any] = {**message, "content": [], "stop_reason": None, "usage": {**counts, "output_tokens": 1}}
    ending = {"stop_reason": reason, "stop_sequence": None}
    events = [
        {"type": "message_start", "message": start},
        {"type": "ping"},
        *events,
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": usage[1]}},
        {"type": "message_stop"},
    ]
    whole = {**message, "content": content, "stop_reason": reason, "usage": counts}
    return Reply(_json(whole), tuple(map(anthropic_event, events)), "text/event-stream")


def anthropic_event(event: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event["type"].encode(), _json(event))


def _anthropic_block(part: Part) -> tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]:
    """The block as a whole, as it starts, and its deltas."""
    block: dict[str, Any]
    if isinstance(part, Call):
        block = {"type": "tool_use", "id": part.id, "name": part.name, "input": part.input}
        pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(part.text)]
        return block, {**block, "input": {}}, pieces
    if isinstance(part, Thought):
        block = {"type": "thinking", "thinking": part.text, "signature": part.signature}
        pieces = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(part.text)]
        pieces.append({"type": "signature_delta", "signature": part.signature})
        return block, {**block, "thinking": "", "signature": ""}, pieces
    pieces = [{"type": "text_delta", "text": piece} for piece in _pieces(part)]
    return {"type": "text", "text": part}, {"type": "text", "text": ""}, pieces


def handwritten_ollama(*parts: Part, stop: str = "stop", usage: tuple[int, int] = (12, 5)) -> Reply:
    """A reply of Ollama's chat: thinking, then text, then calls, whatever the order of the parts."""
    thoughts = [part.text for part in parts if isinstance(part, Thought)]
    texts = [part for part in parts if isinstance(part, str)]
    calls = [_ollama_call(part) for part in parts if isinstance(part, Call)]
    message: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    deltas: list[dict[str, Any]] = [
        {"role": "assistant", "content": "", "thinking": piece} for text in thoughts for piece in _pieces(text)
    ]
    deltas += [{"role": "assistant", "content": piece} for text in texts for piece in _pieces(text)]
    if thoughts:
        message["thinking"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
        deltas.append({"role": "assistant", "content": "", "tool_calls": calls})
    head = {"model": "qwen3", "created_at": "2026-11-21T12:00:00Z"}
    end = {"done": True, "done_reason": stop, "prompt_eval_count": usage[0], "eval_count": usage[1]}
    lines = [{**head, "message": delta, "done": False} for delta in deltas]
    lines.append({**head, "message": {"role": "assistant", "content": ""}, **end})
    whole = {**head, "message": message, **end}
    return Reply(_json(whole), tuple(_json(line) + b"\n" for line in lines), "application/x-ndjson")


def _ollama_call(part: Call) -> dict[str, Any]:
    arguments: Any = part.input if part.raw is None else part.raw
    return {"id": part.id, "function": {"name": part.name, "arguments": arguments}}


def handwritten_overloaded() -> bytes:
    """Anthropic's error in mid-stream."""
    return anthropic_event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})


def _pieces(text: str) -> Sequence[str]:
    """The text in deltas of at most four characters."""
    return [text[start : start + 4] for start in range(0, len(text), 4)]


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
