"""A provider on loopback that answers in five wires, by the path of the request."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.replies.message_events import reply_events

_WIRES = {
    "/responses": "openai",
    "/chat/completions": "openai-chat",
    "/messages": "anthropic",
    "Content": "google",
    "/api/chat": "ollama",
}
_ANSWER = '{"name": "Bern"}'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.bodies.append(body)  # type: ignore[attr-defined]
        provider = next((name for end, name in _WIRES.items() if end in self.path), None)
        stream = body.get("stream") or "streamGenerateContent" in self.path
        adapter = get_adapter(f"{provider}:{body.get('model', 'any')}")
        context = RequestContext.for_model(f"{provider}:{body.get('model', 'any')}")
        adapter.from_wire_request(body, context)
        reply = Message.assistant(_ANSWER)
        if stream:
            answer = b"".join(adapter.iter_encoded(reply_events(reply), context))
        else:
            answer = adapter.to_wire_response(reply, context).body
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Write no log to stderr."""


@contextmanager
def serve() -> Iterator[ThreadingHTTPServer]:
    """Run the provider. ``server.bodies`` are the requests that it received."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.bodies = []  # type: ignore[attr-defined]
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
