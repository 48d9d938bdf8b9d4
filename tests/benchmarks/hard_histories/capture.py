"""What a library sends: its request, captured by a server on loopback that refuses all. Standard library only."""

import json
import logging
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.hard_histories.histories import History, cases

Send = Callable[[History, str, str], "list[str] | None"]
"""Sends a history to a target at a URL. Returns what the library itself reports as lost, if it reports losses."""

_REFUSAL = json.dumps({"error": {"message": "taken", "type": "invalid_request_error", "code": 400}}).encode()


class _Handler(BaseHTTPRequestHandler):
    bodies: list[Any]

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.bodies.append(json.loads(raw))
        self.send_response(400)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(_REFUSAL)))
        self.end_headers()
        self.wfile.write(_REFUSAL)

    def log_message(self, *args: Any) -> None:
        pass


class _LogLines(logging.Handler):
    """Every log record that a user would see by default."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _server(bodies: list[Any]) -> Iterator[str]:
    handler = type("Handler", (_Handler,), {"bodies": bodies})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def run(packages: Sequence[str], send: Send) -> None:
    """All cases; the results are written as JSON into the file that the command line names.

    A request that was sent counts, whatever the library raises at its refusal; an error counts if none was sent.
    """
    bodies: list[Any] = []
    taken = []
    logged = _LogLines()
    logging.getLogger().addHandler(logged)
    with _server(bodies) as url:
        for history, target in cases():
            bodies.clear()
            logged.lines.clear()
            losses, error = None, ""
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    losses = send(history, target, url)
                except Exception as raised:
                    error = f"{type(raised).__name__}: {raised}"
            taken.append(
                {
                    "history": history.name,
                    "target": target,
                    "body": bodies[0] if bodies else None,
                    "error": error,
                    "losses": losses or [],
                    "reported": [*logged.lines, *(str(each.message) for each in warned)],
                }
            )
    versions = {name: version(name) for name in packages}
    Path(sys.argv[1]).write_text(json.dumps({"versions": versions, "cases": taken}, indent=1), encoding="utf-8")
