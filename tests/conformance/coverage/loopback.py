"""A server on loopback that keeps what an SDK sends, and answers with what a test says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass(frozen=True, slots=True)
class Sent:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Loopback:
    """``answer`` is the body of the next answers, with its type, and ``status`` their status."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sent: list[Sent] = []
        self.answer: tuple[str, bytes] = ("application/json", b"{}")
        self.status = 200


@contextmanager
def loopback() -> Iterator[Loopback]:
    """Run the server. It is gone afterwards."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"  # one request a connection: nobody closes the clients of SDKs

        def handle_any(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                body = json.loads(data) if data else {}
            except ValueError:
                body = {}
            names = {name.lower(): value for name, value in self.headers.items()}
            state.sent.append(Sent(self.command, self.path.partition("?")[0], names, body))
            kind, answer = state.answer
            self.send_response(state.status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_DELETE = do_PATCH = do_PUT = handle_any  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        state = Loopback(f"http://127.0.0.1:{server.server_port}")
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield state
        finally:
            server.shutdown()
