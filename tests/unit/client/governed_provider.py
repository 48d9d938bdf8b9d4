"""A provider of the Messages wire and of its batch API on loopback, written by hand.

The prompt decides about the answer: ``leak`` gets one with the forbidden word, ``quote`` an error that quotes it.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply, sse_reply
from tests.unit.session.middleware.policy_plugins import SECRET

MODEL = "anthropic:claude-haiku-4-5"
HARMLESS, LEAK, QUOTE, NAMED = "say something", "leak it", "quote it", f"what is {SECRET}?"
PROMPTS = (HARMLESS, LEAK, QUOTE, NAMED)


class GovernedProvider:
    def __init__(self) -> None:
        self.prompts: list[str] = []
        """Every prompt that was sent, in batches too."""
        self.usage: dict[str, Any] = {"input_tokens": 1000, "output_tokens": 100}
        self._batches: dict[str, list[dict[str, Any]]] = {}

    @contextmanager
    def serve(self) -> Iterator[FaultyServer]:
        with FaultyServer(self._answer) as server:
            yield server

    def _answer(self, request: ReceivedRequest) -> HttpReply:
        path = request.path
        if path.endswith("/messages"):
            asked = json.loads(request.body)
            status, body = self._reply(asked)
            return _stream(body) if asked.get("stream") and status == 200 else json_reply(body, status=status)
        if path.endswith("/batches"):
            batch_id = f"batch_{len(self._batches)}"
            self._batches[batch_id] = json.loads(request.body)["requests"]
            return json_reply(_state(batch_id))
        found = re.search(r"batches/([^/]+)(/results)?$", path)
        assert found is not None
        if found[2] is None:
            return json_reply(_state(found[1]))
        lines = [json.dumps(self._line(each)).encode() + b"\n" for each in self._batches[found[1]]]
        return HttpReply(body=b"".join(lines))

    def _line(self, request: dict[str, Any]) -> dict[str, Any]:
        status, body = self._reply(request["params"])
        result = {"type": "succeeded", "message": body} if status == 200 else {"type": "errored", "error": body}
        return {"custom_id": request["custom_id"], "result": result}

    def _reply(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        content = body["messages"][-1]["content"]
        prompt = content if isinstance(content, str) else content[0]["text"]
        self.prompts.append(prompt)
        if prompt == QUOTE:
            return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": f"no {SECRET} here"}}
        text = f"the word is {SECRET}." if prompt == LEAK else f"re: {prompt}"
        return 200, {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
            "content": [{"type": "text", "text": text}], "stop_reason": "end_turn", "stop_sequence": None,
            "usage": self.usage,
        }  # fmt: skip


def _stream(reply: dict[str, Any]) -> HttpReply:
    text, *_ = reply["content"]
    usage = {"output_tokens": reply["usage"]["output_tokens"]}
    events = [
        {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text["text"]}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]
    return sse_reply(b"".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n".encode() for each in events))


def _state(batch_id: str) -> dict[str, Any]:
    return {
        "id": batch_id, "type": "message_batch", "processing_status": "ended", "cancel_initiated_at": None,
        "request_counts": {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": "2026-11-01T00:00:00Z", "expires_at": "2026-11-02T00:00:00Z",
        "ended_at": "2026-11-01T01:00:00Z", "archived_at": None, "results_url": None,
    }  # fmt: skip
