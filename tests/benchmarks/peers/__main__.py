"""Prints the table: `python -m tests.benchmarks.peers [--rounds N] [--wire WIRE] [--client NAME] [--row ROW]`.

Each client runs in an environment of its own under the cache folder, made by uv, and in a process of its own. The
clients take turns; the table shows the median of each one's CPU, the ratio to raw httpx, and the wall time. A round
makes many single calls in a row, after a first round that warms up: ten calls after a pause would measure processor
caches that other programs have filled, and not a client with a warm pool.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.peers.tasks import EVENTS
from tests.benchmarks.timing import ROOT, mock_provider
from tests.benchmarks.wires import WIRES

_HERE = Path(__file__).resolve().parent

CLIENTS = {
    "raw httpx": ("raw", "raw", tuple(WIRES)),
    "httpx over aiohttp": ("raw", "raw", tuple(WIRES)),
    "anthropic": ("anthropic", "anthropic", ("messages",)),
    "openai": ("openai", "openai", ("responses", "chat")),
    "ollama": ("ollama", "ollama", ("ollama",)),
    "pydantic-ai": ("pydantic_ai", "pydantic_ai", ("messages", "responses", "chat")),
    "LiteLLM": ("litellm", "litellm", tuple(WIRES)),
    "LangChain": ("langchain", "langchain", tuple(WIRES)),
    "any-llm": ("any_llm", "any_llm", tuple(WIRES)),
    "Dragoman": ("dragoman", "", tuple(WIRES)),
    "Dragoman[speed]": ("dragoman", "speed", tuple(WIRES)),
    "a Session each": ("dragoman_session", "", tuple(WIRES)),
    "a Session each[speed]": ("dragoman_session", "speed", tuple(WIRES)),
}
"""By title: the module, the environment (this one if it is empty) and the wires that are used through it."""

ROWS: dict[str, tuple[str, int, int]] = {
    "one call, sync": ("sync", 1, 200),
    "one call": ("call", 1, 200),
    "one delta, all at once": ("burst", 1, 1),
    "one delta, one a millisecond": ("paced", 1, 1),
    "a call of 1 KB in fragments (of 20)": ("calls", 1, 1),
    "a call of 20 KB in fragments": ("long", 1, 1),
    "one of 100 calls at once": ("call", 100, 1),
    "one of 100 slow calls at once": ("slow", 100, 1),
}
"""By title: the shape, how many at once, how often in a round."""


class Worker:
    """A client's process."""

    def __init__(self, title: str, wire: str, base: str, cache: Path) -> None:
        module, environment, _ = CLIENTS[title]
        python = _environment(environment, cache) if environment else Path(sys.executable)
        engine = "aiohttp" if "aiohttp" in title or "[speed]" in title else "httpx"
        self._process = subprocess.Popen(
            [str(python), "-m", "tests.benchmarks.peers.worker", module, wire, base],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT), "ENGINE": engine, "DRAGOMAN_ENGINE": engine},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.imported = self._read()["import"]

    def run(self, shape: str, together: int, repeat: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"shape": shape, "together": together, "repeat": repeat}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the client has ended: see above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _environment(name: str, cache: Path) -> Path:
    place = cache / name
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(place)], check=True)
    pins = _HERE / "requirements" / f"{name}.txt"
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), "-r", str(pins)], check=True, cwd=ROOT)
    return python


def measure(wire: str, base: str, cache: Path, rounds: int, only: Sequence[str], rows: Sequence[str]) -> None:
    titles = [title for title, (*_, wires) in CLIENTS.items() if wire in wires and (not only or title in only)]
    workers = {title: Worker(title, wire, base, cache) for title in titles}
    try:
        print(f"\n| {wire}: us of CPU (ratio to raw httpx), us of wall time | {' | '.join(titles)} |")
        print(f"| --- |{' --- |' * len(titles)}", flush=True)
        for row in rows or ROWS:
            shape, together, repeat = ROWS[row]
            taken: dict[str, list[dict[str, float]]] = {title: [] for title in titles}
            for round_ in range(rounds + 1):
                for title, worker in workers.items():
                    found = worker.run(shape, together, repeat)
                    if round_:  # the first round warms up and checks that everything works
                        taken[title].append(found)
            print(f"| {row} | {' | '.join(_cells(titles, taken, EVENTS[shape]))} |", flush=True)
        imports = (f"{worker.imported * 1000:,.0f} ms" for worker in workers.values())
        print(f"| import, CPU | {' | '.join(imports)} |")
    finally:
        for worker in workers.values():
            worker.close()


def _cells(titles: Sequence[str], taken: dict[str, list[dict[str, float]]], events: int) -> list[str]:
    cells = []
    for title in titles:
        if not all(taken[title]):
            cells.append("")
            continue
        cpu, wall = (statistics.median(each[kind] for each in taken[title]) * 1e6 / events for kind in ("cpu", "wall"))
        pairs = zip(taken[title], taken[titles[0]], strict=True)
        ratio = statistics.median(each["cpu"] / raw["cpu"] for each, raw in pairs)
        cells.append(f"{cpu:,.1f} ({ratio:.2f}x), {wall:,.1f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.peers")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--wire", choices=tuple(WIRES), action="append")
    parser.add_argument("--row", choices=tuple(ROWS), action="append", default=[])
    parser.add_argument("--client", choices=tuple(CLIENTS), action="append", default=[])
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="the folder for the environments")
    options = parser.parse_args()
    options.cache.mkdir(parents=True, exist_ok=True)
    with mock_provider() as base:
        for wire in options.wire or WIRES:
            measure(wire, base, options.cache, options.rounds, options.client, options.row)


if __name__ == "__main__":
    main()
