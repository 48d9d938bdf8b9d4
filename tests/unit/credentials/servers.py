"""Servers on loopback: a provider that wants a credential, and the servers that give one out."""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

CHAT_REPLY = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
}
CONVERSE_REPLY = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
}
GENERATE_REPLY = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes."}]}, "finishReason": "STOP"}]}
MESSAGES_REPLY = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-haiku-4-5",
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


@dataclass
class Received:
    """A request as it arrived, with lower-case names of headers."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    """A reply: an object is sent as JSON, a text as HTML."""

    status: int = 200
    body: Any = ""
    headers: dict[str, str] = field(default_factory=dict)


Rule = Callable[[Received], Answer]


class Server:
    """Answers each request with what a function returns. ``requests`` are those that arrived."""

    def __init__(self, rule: Rule, *, tls: Any = None) -> None:
        self.requests: list[Received] = []
        self.rule = rule
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _handle(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                headers = {name.lower(): value for name, value in self.headers.items()}
                received = Received(self.command, self.path, headers, self.rfile.read(length))
                server.requests.append(received)
                answer = server.rule(received)
                content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                kind = "application/json"
                if isinstance(answer.body, str):
                    content, kind = answer.body.encode(), "text/html" if "<" in answer.body else "text/plain"
                self.send_response_only(answer.status)
                for name, value in {"content-type": kind, **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - the names of http.server

            def log_message(self, *_: object) -> None:
                pass

        class BusyServer(ThreadingHTTPServer):
            request_queue_size = 256

        self._server = BusyServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.host = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{'http' if tls is None else 'https'}://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def paths(self) -> list[str]:
        """The paths that were asked, without their queries."""
        return [urlsplit(each.path).path for each in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def accepting(reply: Any, is_known: Callable[[Received], bool]) -> Rule:
    """A provider that answers those that it knows, and others with 401."""

    def rule(received: Received) -> Answer:
        if is_known(received):
            return Answer(200, reply)
        return Answer(401, {"error": {"message": "invalid token", "type": "authentication_error", "code": 401}})

    return rule
