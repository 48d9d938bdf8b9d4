"""10,000 short texts in batches, CPU of a text, against openai and LiteLLM: `python -m tests.benchmarks.embeddings`.

The provider is on loopback, in a process of its own, and has its answers ready as bytes: vectors in base64 for those
who ask for them, and lists of numbers for the others. The clients take turns; the medians are shown. A client that is
not installed is named.
"""

import base64
import json
import os
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec

from tests.benchmarks.timing import ROOT

MODEL = "text-embedding-3-small"
DIMENSIONS = 256
TEXTS, BATCH = 10_000, 1_000
ROUNDS = 5

Embed = Callable[[list[str]], int]
"""Embeds texts and returns the number of vectors."""


def answer(count: int, encoding: str) -> bytes:
    """The reply to a request of that many texts."""
    numbers = [1 / (place + 1) for place in range(DIMENSIONS)]
    packed = base64.b64encode(struct.pack(f"<{DIMENSIONS}f", *numbers)).decode()
    vector = packed if encoding == "base64" else numbers
    data = [{"object": "embedding", "index": place, "embedding": vector} for place in range(count)]
    usage = {"prompt_tokens": 5 * count, "total_tokens": 5 * count}
    return json.dumps({"object": "list", "data": data, "model": MODEL, "usage": usage}).encode()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    prepared: dict[tuple[int, str], bytes] = {}  # noqa: RUF012 - the answers of the process

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = (len(body["input"]), body.get("encoding_format") or "float")
        if key not in self.prepared:
            self.prepared[key] = answer(*key)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(self.prepared[key])))
        self.end_headers()
        self.wfile.write(self.prepared[key])

    def log_message(self, *_: object) -> None:
        """Be silent."""


def serve() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


@contextmanager
def provider() -> Iterator[str]:
    """Runs the provider in a process of its own, and yields its base URL."""
    command = [sys.executable, "-m", "tests.benchmarks.embeddings", "--serve"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def batches(texts: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(texts), BATCH):
        yield texts[start : start + BATCH]


def ours(base_url: str) -> Embed:
    from dragoman.embeddings import embed

    settings = {"openai": {"base_url": base_url, "api_key": "none"}}
    return lambda texts: len(embed(f"openai:{MODEL}", texts, providers=settings).vectors)


def openai(base_url: str) -> Embed:
    from openai import OpenAI

    client = OpenAI(base_url=base_url, api_key="none")
    return lambda texts: sum(len(client.embeddings.create(model=MODEL, input=each).data) for each in batches(texts))


def litellm(base_url: str) -> Embed:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else a thread fetches prices while it is timed
    module = __import__("litellm")
    arguments = {"model": f"openai/{MODEL}", "api_base": base_url, "api_key": "none"}
    return lambda texts: sum(len(module.embedding(input=each, **arguments).data) for each in batches(texts))


CLIENTS: dict[str, tuple[str, Callable[[str], Embed]]] = {
    "openai": ("openai", openai),
    "LiteLLM": ("litellm", litellm),
    "Dragoman": ("dragoman", ours),
}
"""By title: the package, and what makes the client."""


def measure(base_url: str, texts: list[str], rounds: int = ROUNDS) -> dict[str, float]:
    """Median microseconds of CPU for one text, by client; the first round warms up."""
    clients = {title: make(base_url) for title, (package, make) in CLIENTS.items() if find_spec(package)}
    times: dict[str, list[float]] = {title: [] for title in clients}
    for round_ in range(rounds + 1):
        for title, embed in clients.items():
            started = time.process_time()
            assert embed(texts) == len(texts)
            if round_:
                times[title].append((time.process_time() - started) / len(texts) * 1e6)
    return {title: statistics.median(values) for title, values in times.items()}


def main() -> None:
    texts = [f"A short text, number {number}." for number in range(TEXTS)]
    with provider() as base_url:
        found = measure(base_url, texts)
    print(f"{TEXTS:,} texts, {DIMENSIONS} dimensions")
    for title, (package, _) in CLIENTS.items():
        if title not in found:
            print(f"{title}: {package} is not installed")
            continue
        print(f"{title}: {found[title]:.1f} us of CPU a text, {found[title] / found['openai']:.2f}x of openai")


if __name__ == "__main__":
    serve() if "--serve" in sys.argv else main()
