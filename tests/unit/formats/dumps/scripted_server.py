"""A server on this machine that answers like three providers, for the libraries' own clients.

Its replies are written by hand; what the libraries make of them and write to their files is their own. Each request
gets the next reply of its wire, in a circle. It needs Python's standard library only.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from typing import Any

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

CHAT = [
    {"id": "chatcmpl-1", "object": "chat.completion", "created": 1793491200, "model": "gpt-4.1-2025-04-14", "choices": [
        {"index": 0, "finish_reason": "tool_calls", "logprobs": None, "message": {
            "role": "assistant", "content": None, "refusal": None, "annotations": [], "tool_calls": [
                {"id": "call_a", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Bern"}'}},
                {"id": "call_b", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ulm"}'}},
            ]}}],
     "usage": {"prompt_tokens": 60, "completion_tokens": 40, "total_tokens": 100,
               "prompt_tokens_details": {"cached_tokens": 20, "audio_tokens": 0},
               "completion_tokens_details": {"reasoning_tokens": 8, "audio_tokens": 0}}},
    {"id": "chatcmpl-2", "object": "chat.completion", "created": 1793491201, "model": "gpt-4.1-2025-04-14", "choices": [
        {"index": 0, "finish_reason": "stop", "logprobs": None, "message": {
            "role": "assistant", "content": "Rain in Bern, sun in Ulm.", "refusal": None, "annotations": []}}],
     "usage": {"prompt_tokens": 130, "completion_tokens": 9, "total_tokens": 139}},
]  # fmt: skip

MESSAGES = [
    {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "stop_reason": "tool_use",
     "stop_sequence": None, "content": [
         {"type": "thinking", "thinking": "Two cities.", "signature": "c2lnbmF0dXJl"},
         {"type": "redacted_thinking", "data": "c2VhbGVk"},
         {"type": "text", "text": "Let me look."},
         {"type": "tool_use", "id": "toolu_a", "name": "weather", "input": {"city": "Bern"}},
         {"type": "tool_use", "id": "toolu_b", "name": "weather", "input": {"city": "Ulm"}}],
     "usage": {"input_tokens": 40, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 10,
               "output_tokens": 50}},
    {"id": "msg_2", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6", "stop_reason": "end_turn",
     "stop_sequence": None, "content": [{"type": "text", "text": "Rain in Bern, sun in Ulm."}],
     "usage": {"input_tokens": 130, "output_tokens": 9}},
]  # fmt: skip


def _response(number: int, output: list[dict[str, Any]]) -> dict[str, Any]:
    usage = {
        "input_tokens": 60, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 40,
        "output_tokens_details": {"reasoning_tokens": 16}, "total_tokens": 100,
    }  # fmt: skip
    return {
        "id": f"resp_{number}", "object": "response", "created_at": 1793491200, "status": "completed", "error": None,
        "incomplete_details": None, "instructions": None, "metadata": {}, "model": "gpt-6.1-sol", "output": output,
        "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": usage,
    }  # fmt: skip


RESPONSES = [
    _response(1, [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": "Z0FBQUE=",
         "summary": [{"type": "summary_text", "text": "Two cities."}]},
        {"type": "function_call", "id": "fc_a", "call_id": "call_a", "name": "weather",
         "arguments": '{"city":"Bern"}', "status": "completed"},
        {"type": "function_call", "id": "fc_b", "call_id": "call_b", "name": "weather",
         "arguments": '{"city":"Ulm"}', "status": "completed"},
    ]),
    _response(2, [
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "Rain in Bern, sun in Ulm.", "logprobs": [], "annotations": [
                {"type": "url_citation", "url": "https://example.org/bern", "title": "Bern", "start_index": 0,
                 "end_index": 12}]}]},
    ]),
]  # fmt: skip


def _chat_stream(reply: dict[str, Any]) -> bytes:
    """A reply of Chat Completions as the chunks of a stream, one for each part."""
    choice = reply["choices"][0]
    head = {"id": reply["id"], "object": "chat.completion.chunk", "created": reply["created"], "model": reply["model"]}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for index, call in enumerate(choice["message"].get("tool_calls", [])):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    deltas += [{"content": word} for word in (choice["message"]["content"] or "").split(" ") if word]
    chunks = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    chunks.append({**head, "choices": [], "usage": reply["usage"]})
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def _messages_stream(reply: dict[str, Any]) -> bytes:
    """A reply of Messages as the events of a stream, each block in one delta."""
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**reply, "content": [], "stop_reason": None}}
    ]  # fmt: skip
    for index, block in enumerate(reply["content"]):
        empty, deltas = dict(block), list[dict[str, Any]]()
        if block["type"] == "text":
            empty, deltas = {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
        elif block["type"] == "thinking":
            empty = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]},
                      {"type": "signature_delta", "signature": block["signature"]}]  # fmt: skip
        elif block["type"] == "tool_use":
            empty, deltas = (
                {**block, "input": {}},
                [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}],
            )
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    events.append(
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": reply["usage"]["output_tokens"]}}
    )
    events.append({"type": "message_stop"})
    return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


_STREAMS = {"/chat/completions": _chat_stream, "/messages": _messages_stream}


def _answer(path: str, body: dict[str, Any], replies: dict[str, Iterator[Any]]) -> tuple[str, bytes]:
    for ending, waiting in replies.items():
        if path.split("?")[0].endswith(ending):
            reply = next(waiting)
            if body.get("stream") and ending in _STREAMS:
                return "text/event-stream", _STREAMS[ending](reply)
            return "application/json", json.dumps(reply).encode()
    raise LookupError(path)


@contextmanager
def serve() -> Iterator[str]:
    """The server's address; it runs until the context ends."""
    replies: dict[str, Iterator[Any]] = {
        "/chat/completions": cycle(CHAT),
        "/messages": cycle(MESSAGES),
        "/responses": cycle(RESPONSES),
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            kind, answer = _answer(self.path, body, replies)
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
