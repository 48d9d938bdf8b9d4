"""One provider on loopback for every road: it answers the Messages wire and its services, and OpenAI's embeddings.

What goes wrong is its ``fault``. Nothing here rests on time: a reply that waits is released by the caller.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal, cast

from dragoman.testing.faults.server import HANG_UP, FaultyServer, HttpReply, ReceivedRequest, ReplyStep, json_reply

Fault = Literal["none", "unreadable", "throttled once", "cut", "waits"]
MODEL, EMBEDDER = "anthropic:claude-haiku-4-5", "openai:text-embedding-3-small"
TEXT = "In Switzerland."
PATIENCE = 60.0
"""Seconds that a reply waits at most: only a test that hangs takes that long."""

_USAGE = {"input_tokens": 20, "output_tokens": 9}
_REFUSAL = {"type": "error", "error": {"type": "rate_limit_error", "message": "too many requests"}}


@dataclass
class Provider:
    """``at`` is the end of the paths at which the fault happens; the empty text is each of them. ``notice`` is called
    when a request arrives, before it is answered."""

    fault: Fault = "none"
    at: str = ""
    notice: Callable[[], None] = lambda: None
    arrived: Event = field(default_factory=Event)
    """A reply waits."""
    go: Event = field(default_factory=Event)
    """Ends the wait of a reply."""
    requests: list[ReceivedRequest] = field(default_factory=list)
    _refused: bool = False

    def serve(self) -> FaultyServer:
        return FaultyServer(self._answer)

    def _answer(self, request: ReceivedRequest) -> HttpReply:
        self.requests.append(request)
        self.notice()
        fault = self.fault if request.path.partition("?")[0].endswith(self.at) else "none"
        if fault == "throttled once":
            fault = "none"
            if not self._refused:
                self._refused = True
                return json_reply(_REFUSAL, status=429, retry_after="0")
        content, pieces = _content(request)
        return self._send(fault, content, pieces)

    def _send(self, fault: Fault, content: str, pieces: Sequence[bytes]) -> HttpReply:
        headers, body = {"content-type": content}, b"".join(pieces)
        streams = content == _EVENTS
        if fault == "unreadable":
            garbage = b"event: message_start\ndata: garbage\n\n" if streams else b"garbage"
            return HttpReply(headers=headers, body=garbage)
        if fault == "cut":
            if streams:
                return HttpReply(headers=headers, steps=[*pieces[:_BEFORE_CUT], HANG_UP])
            return HttpReply(headers=headers, body=body[: len(body) // 2], length=len(body))
        if fault == "waits":
            return HttpReply(headers=headers, steps=cast("Sequence[ReplyStep]", self._wait(pieces)))
        return HttpReply(headers=headers, body=body)

    def _wait(self, pieces: Sequence[bytes]) -> Iterator[ReplyStep]:
        begun, rest = (pieces[:_BEFORE_CUT], pieces[_BEFORE_CUT:]) if len(pieces) > 1 else ((), pieces)
        yield from begun
        self.arrived.set()
        self.go.wait(PATIENCE)
        yield from rest


_EVENTS, _JSON = "text/event-stream", "application/json"
_BEFORE_CUT = 3
"""Events of a stream before it breaks or waits: the last of them is the first text."""


def _content(request: ReceivedRequest) -> tuple[str, Sequence[bytes]]:
    """Return the media type and the pieces of a good answer."""
    path = request.path.partition("?")[0]
    if path.endswith("/results"):
        line = {"custom_id": "one", "result": {"type": "succeeded", "message": _message()}}
        return "application/x-jsonl", (json.dumps(line).encode() + b"\n",)
    if path.endswith("/messages"):
        if json.loads(request.body).get("stream"):
            return _EVENTS, [f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in _events()]
        return _JSON, (_dump(_message()),)
    if path.endswith("/count_tokens"):
        return _JSON, (_dump({"input_tokens": 12}),)
    if path.endswith("/models"):
        model = {"type": "model", "id": "claude-haiku-4-5", "display_name": "Haiku", "created_at": _CREATED}
        return _JSON, (_dump({"data": [model], "has_more": False, "first_id": "a", "last_id": "a"}),)
    if path.endswith("/embeddings"):
        data = [{"object": "embedding", "index": 0, "embedding": [1.0, 0.5, 0.5, 0.5]}]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return _JSON, (_dump({"object": "list", "data": data, "model": "text-embedding-3-small", "usage": usage}),)
    assert "/batches" in path, path
    return _JSON, (_dump(_batch()),)


_CREATED = "2026-01-01T00:00:00Z"


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode()


def _message() -> dict[str, Any]:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": TEXT}], "stop_reason": "end_turn", "stop_sequence": None, "usage": _USAGE,
    }  # fmt: skip


def _events() -> list[dict[str, Any]]:
    start = _message() | {"content": [], "stop_reason": None, "usage": {"input_tokens": 20, "output_tokens": 1}}
    deltas = [{"type": "text_delta", "text": text} for text in ("In ", "Switzerland.")]
    return [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]


def _batch() -> dict[str, Any]:
    return {
        "id": "batch_1", "type": "message_batch", "processing_status": "ended", "cancel_initiated_at": None,
        "request_counts": {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": _CREATED, "expires_at": _CREATED, "ended_at": _CREATED, "archived_at": None, "results_url": None,
    }  # fmt: skip
