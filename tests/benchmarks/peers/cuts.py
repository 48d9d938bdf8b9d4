"""Streams that end early: what each library makes of them: `python -m tests.benchmarks.peers.cuts`.

A server on loopback ends a stream after each of its events, cleanly, as a proxy does whose time is up. Half of the
streams are a text, half a call of a tool. A library may raise an error; it is *silently partial* if it returns a part
of the text, or of the arguments, as if that were all. Prints the table of the README.
"""

import argparse
import asyncio
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tests.benchmarks.peers.tasks import Client
from tests.benchmarks.wires import WIRES, words

DELTAS = 8
KINDS = ("text", "call")
TITLES = ("anthropic", "openai", "pydantic-ai", "LiteLLM", "LangChain", "Dragoman")


def events(wire: str, kind: str) -> list[bytes]:
    """The whole stream, event by event."""
    joined = b"".join(
        WIRES[wire].text_stream(words(DELTAS))
        if kind == "text"
        else WIRES[wire].call_stream(['{"text":"a whole text"}'])
    )
    return [event + b"\n\n" for event in joined.split(b"\n\n") if event]


class Cutting(BaseHTTPRequestHandler):
    """Answers a request to ``/<wire>/<kind>/<number of events>/...``."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        _, wire, kind, number, *_ = self.path.split("/")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"".join(events(wire, kind)[: int(number)]))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Cutting) as serving:
        thread = Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


async def count(client: Client, wire: str, base: str) -> dict[str, int]:
    """Return how many cuts there are, and how they are taken. Raises SystemExit if a whole stream is not read."""
    counts = {"cuts": 0, "raised": 0, "partial": 0}
    for kind in KINDS:
        size = len(events(wire, kind))
        whole = await client.stream(f"{base}/{wire}/{kind}/{size}", tools=kind == "call")
        for number in range(size):
            counts["cuts"] += 1
            try:
                found = await client.stream(f"{base}/{wire}/{kind}/{number}", tools=kind == "call")
            except Exception:
                counts["raised"] += 1
                continue
            counts["partial"] += found != whole
    return counts


def main() -> None:
    from tests.benchmarks.peers.__main__ import CLIENTS, ROOT, _environment

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers.cuts")
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="the folder for the environments")
    chosen = parser.parse_args()
    print("| library | cuts | raised an error | silently partial |\n| --- | --- | --- | --- |")
    with server() as base:
        for title in TITLES:
            module, environment, wires = CLIENTS[title]
            python = _environment(environment, chosen.cache) if environment else Path(sys.executable)
            totals = {"cuts": 0, "raised": 0, "partial": 0}
            for wire in (each for each in wires if each != "ollama"):
                done = subprocess.run(
                    [python, "-m", "tests.benchmarks.peers.cuts", module, wire, base],
                    cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, check=True,
                )  # fmt: skip
                for name, number in json.loads(done.stdout).items():
                    totals[name] += number
            print(f"| {title} | {totals['cuts']} | {totals['raised']} | {totals['partial']} |", flush=True)


async def work(name: str, wire: str, base: str) -> None:
    """Run in the environment of a library, and print its counts."""
    answers, sys.stdout = sys.stdout, sys.stderr
    client: Client = importlib.import_module(f"tests.benchmarks.peers.{name}_client").connect(wire)
    answers.write(json.dumps(await count(client, wire, base)))


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        asyncio.run(work(*sys.argv[1:]))
    else:
        main()
