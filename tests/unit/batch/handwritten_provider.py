"""The batch APIs of two providers on loopback, written by hand from their documentation: no batch was recorded.

A batch stays in progress for a configured number of polls and then ends as configured. The prompt decides how a request
is answered: FAIL is refused, EXPIRE expires, CANCEL is cancelled.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

CREATED = 1_790_000_000


@dataclass
class Batch:
    id: str
    requests: list[dict[str, Any]]
    polls_left: int
    ends_as: str
    cancelled: bool = False


@dataclass
class Provider:
    """``cut`` is the number of bytes of the results that are sent; None sends all. ``write`` returns the text of an
    answer, for a custom id and the messages as JSON."""

    polls: int = 1
    ends_as: str = "completed"
    reverse: bool = True
    cut_bytes: int | None = None
    lost_lines: int = 0
    url: str = ""
    write: Callable[[str, str], str] = lambda custom_id, messages: f"Answer to {custom_id}"
    batches: dict[str, Batch] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        self.requests.append((method, path, headers, body))
        for pattern, handler in _ROUTES:
            if match := re.fullmatch(pattern, f"{method} {path}"):
                return handler(self, match, headers, body)
        return 404, b'{"type":"error","error":{"type":"not_found_error","message":"no such path"}}'

    def add(self, requests: list[dict[str, Any]]) -> Batch:
        batch = Batch(f"batch_{len(self.batches) + 1}", requests, self.polls, self.ends_as)
        self.batches[batch.id] = batch
        return batch

    def ended(self, batch: Batch) -> bool:
        return batch.polls_left <= 0

    def results(self, lines: list[dict[str, Any]]) -> bytes:
        ordered = lines[::-1] if self.reverse else lines
        ordered = ordered[: len(ordered) - self.lost_lines]
        data = b"".join(json.dumps(line).encode() + b"\n" for line in ordered)
        return data if self.cut_bytes is None else data[: self.cut_bytes]


# -- Anthropic


def _messages_submit(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    return 200, _message_batch(provider, provider.add(json.loads(body)["requests"]))


def _messages_poll(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch = provider.batches[match[1]]
    batch.polls_left -= 1
    return 200, _message_batch(provider, batch)


def _messages_cancel(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch = provider.batches[match[1]]
    batch.cancelled = True
    return 200, _message_batch(provider, batch)


def _messages_results(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch = provider.batches[match[1]]
    return 200, provider.results(
        [{"custom_id": each["custom_id"], "result": _result(provider, batch, each)} for each in batch.requests]
    )


def _message_batch(provider: Provider, batch: Batch) -> bytes:
    ended = provider.ended(batch)
    kinds = [_result(provider, batch, each)["type"] for each in batch.requests] if ended else []
    names = ("succeeded", "errored", "canceled", "expired")
    return json.dumps(
        {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "canceling" if batch.cancelled else "in_progress",
            "request_counts": {
                "processing": len(batch.requests) - len(kinds),
                **{name: kinds.count(name) for name in names},
            },
            "created_at": "2026-11-01T00:00:00Z",
            "expires_at": "2026-11-02T00:00:00Z",
            "ended_at": "2026-11-01T01:00:00Z" if ended else None,
            "cancel_initiated_at": None,
            "archived_at": None,
            "results_url": f"{provider.url}/v1/messages/batches/{batch.id}/results" if ended else None,
        }
    ).encode()


def _result(provider: Provider, batch: Batch, request: dict[str, Any]) -> dict[str, Any]:
    messages = json.dumps(request["params"]["messages"])
    if batch.cancelled or "CANCEL" in messages:
        return {"type": "canceled"}
    if batch.ends_as == "expired" or "EXPIRE" in messages:
        return {"type": "expired"}
    if "FAIL" in messages:
        error = {"type": "invalid_request_error", "message": "max_tokens: too many"}
        return {"type": "errored", "error": {"type": "error", "error": error, "request_id": "req_9"}}
    content: list[dict[str, Any]] = [{"type": "text", "text": provider.write(request["custom_id"], messages)}]
    if tools := request["params"].get("tools"):
        content = [{"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"], "input": {"city": "Oslo"}}]
    return {
        "type": "succeeded",
        "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": request["params"]["model"],
            "content": content, "stop_reason": "tool_use" if tools else "end_turn", "stop_sequence": None,
            "usage": {"input_tokens": 1000, "output_tokens": 100, "service_tier": "batch"},
        },
    }  # fmt: skip


# -- OpenAI


def _upload(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    form = BytesParser().parsebytes(b"Content-Type: " + headers["content-type"].encode() + b"\r\n\r\n" + body)
    parts = {
        part.get_param("name", header="content-disposition"): part.get_payload(decode=True)
        for part in form.get_payload()  # type: ignore[union-attr]
    }
    assert parts["purpose"] == b"batch", parts
    name = f"file-{len(provider.files) + 1}"
    provider.files[name] = parts["file"]  # type: ignore[assignment]
    file_object = {
        "id": name, "object": "file", "bytes": len(parts["file"]), "created_at": CREATED,  # type: ignore[arg-type]
        "filename": "batch.jsonl", "purpose": "batch", "status": "processed",
    }  # fmt: skip
    return 200, json.dumps(file_object).encode()


def _batches_submit(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch_request = json.loads(body)
    lines = [json.loads(line) for line in provider.files[batch_request["input_file_id"]].splitlines()]
    assert {line["url"] for line in lines} == {batch_request["endpoint"]}
    return 200, _batch(provider, provider.add(lines))


def _batches_poll(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch = provider.batches[match[1]]
    batch.polls_left -= 1
    return 200, _batch(provider, batch)


def _batches_cancel(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    batch = provider.batches[match[1]]
    batch.cancelled, batch.ends_as = True, "cancelled"
    return 200, _batch(provider, batch)


def _content(provider: Provider, match: Any, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
    name, batch_id = match[1].split("-", 1)
    lines = [_line(provider.batches[batch_id], each) for each in provider.batches[batch_id].requests]
    failed = name == "errors"
    return 200, provider.results([line for line in lines if line and _is_failed(line) == failed])


def _is_failed(line: dict[str, Any]) -> bool:
    return line["response"] is None or line["response"]["status_code"] >= 300


def _batch(provider: Provider, batch: Batch) -> bytes:
    ended = provider.ended(batch)
    lines = [line for each in batch.requests if (line := _line(batch, each))] if ended else []
    broken = sum(map(_is_failed, lines))
    validation_errors = {
        "object": "list",
        "data": [{"code": "invalid", "line": 1, "message": "no such model", "param": None}],
    }
    status = batch.ends_as if ended else "cancelling" if batch.cancelled else "in_progress"
    return json.dumps(
        {
            "id": batch.id, "object": "batch", "endpoint": batch.requests[0]["url"], "completion_window": "24h",
            "input_file_id": "file-1", "created_at": CREATED, "status": status,
            "errors": validation_errors if status == "failed" else None,
            "output_file_id": f"output-{batch.id}" if ended and status != "failed" else None,
            "error_file_id": f"errors-{batch.id}" if broken and status != "failed" else None,
            "request_counts": {"total": len(batch.requests), "completed": len(lines) - broken, "failed": broken},
        }
    ).encode()  # fmt: skip


def _line(batch: Batch, request: dict[str, Any]) -> dict[str, Any] | None:
    """Return None if the request was never processed and the provider does not mention it."""
    messages = json.dumps(request["body"])
    line: dict[str, Any] = {"id": "batch_req_1", "custom_id": request["custom_id"], "response": None, "error": None}
    if batch.cancelled or "CANCEL" in messages:
        return None if batch.cancelled else line | {"error": {"code": "batch_cancelled", "message": "cancelled"}}
    if batch.ends_as == "expired" or "EXPIRE" in messages:
        return line | {"error": {"code": "batch_expired", "message": "This request could not be executed in time."}}
    if "FAIL" in messages:
        error = {"message": "max_tokens is too large", "type": "invalid_request_error", "code": None, "param": None}
        return line | {"response": {"status_code": 400, "request_id": "req_9", "body": {"error": error}}}
    reply = _response(request) if request["url"].endswith("/responses") else _completion(request)
    return line | {"response": {"status_code": 200, "request_id": "req_1", "body": reply}}


def _completion(request: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": CREATED, "model": request["body"]["model"],
        "choices": [
            {
                "index": 0, "finish_reason": "stop", "logprobs": None,
                "message": {"role": "assistant", "content": f"Answer to {request['custom_id']}", "refusal": None},
            }
        ],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }  # fmt: skip


def _response(request: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "output_text", "text": f"Answer to {request['custom_id']}", "annotations": []}
    return {
        "id": "resp_1", "object": "response", "created_at": CREATED, "status": "completed", "error": None,
        "incomplete_details": None, "model": request["body"]["model"],
        "output": [{"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [text]}],
        "usage": {
            "input_tokens": 1000, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 100,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 1100,
        },
    }  # fmt: skip


_ROUTES = (
    (r"POST /v1/messages/batches", _messages_submit),
    (r"GET /v1/messages/batches/([^/]+)", _messages_poll),
    (r"POST /v1/messages/batches/([^/]+)/cancel", _messages_cancel),
    (r"GET /v1/messages/batches/([^/]+)/results", _messages_results),
    (r"POST /files", _upload),
    (r"GET /files/([^/]+)/content", _content),
    (r"POST /batches", _batches_submit),
    (r"GET /batches/([^/]+)", _batches_poll),
    (r"POST /batches/([^/]+)/cancel", _batches_cancel),
)


@contextmanager
def serve_provider(provider: Provider) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = provider.answer(self.command, self.path.partition("?")[0], headers, body)
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = _serve  # noqa: N815 - the names that the server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield provider.url
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
