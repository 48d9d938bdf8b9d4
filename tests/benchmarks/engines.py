"""The engines compared: `python -m tests.benchmarks.engines [--rounds N]`.

Each engine runs in a process of its own, through Dragoman's own transport, against the same provider on loopback: bytes
out, bytes in, and no reading of them except a check that they are what was sent. The engines take turns; the table
shows medians of the client process's CPU, with the ratio to httpx alone in the same round, and the wall time. The
environment, made by uv under the cache folder, has this checkout and every engine in it.
"""

# mypy: disable-error-code="import-not-found"
import argparse
import asyncio
import hashlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.mock_provider import DELTAS, PACED
from tests.benchmarks.timing import ROOT, mock_provider
from tests.benchmarks.wires import SENTENCE, WIRES, words

PACKAGES = ("httpx[http2]", "httpx2", "aiohttp>=3.13", "httpx-aiohttp>=0.2")
WIRE = WIRES["messages"]

ROWS: dict[str, tuple[str, int, int, int]] = {
    "one call": ("call", 1, 100, 1),
    "one delta, all at once": ("burst", 1, 5, DELTAS),
    "one delta, one a millisecond": ("paced", 1, 1, PACED),
    "one of 100 calls at once": ("call", 100, 1, 1),
    "one of 1,000 calls at once": ("call", 1000, 1, 1),
    "one of 100 slow calls at once": ("slow", 100, 1, 1),
}
"""By title: the shape, how many at once, how often in a round, and the events of one reply."""


def _transport(engine: str, base: str) -> Any:
    from dragoman.transport import AsyncHttpTransport

    return AsyncHttpTransport(base_url=base, api_key="none", max_connections=1000, **ENGINES[engine]())


def _library_client(library: str) -> dict[str, Any]:
    module = __import__(library)
    limits = module.Limits(max_connections=1000, max_keepalive_connections=1000)
    return {"client": module.AsyncClient(limits=limits)}


def _httpx_over_aiohttp() -> dict[str, Any]:
    import httpx
    from httpx_aiohttp import AiohttpTransport

    limits = httpx.Limits(max_connections=1000, max_keepalive_connections=1000)
    return {"client": httpx.AsyncClient(transport=AiohttpTransport(limits=limits))}


ENGINES: Mapping[str, Callable[[], dict[str, Any]]] = {
    "httpx, one client": lambda: _library_client("httpx"),
    "httpx (the default)": lambda: {"engine": "httpx"},
    "httpx2, one client": lambda: _library_client("httpx2"),
    "httpx2": lambda: {"engine": "httpx2"},
    "httpx over aiohttp": _httpx_over_aiohttp,
    "aiohttp (`dragoman[speed]`)": lambda: {"engine": "aiohttp"},
}
"""By title: the settings of the measured transport."""


# ---- In the process of one engine


def _adapter() -> Any:
    from dragoman import get_adapter

    return get_adapter(WIRE.model)


def _expected(shape: str) -> str:
    if shape in ("call", "slow"):
        return _sum(json.dumps(WIRE.text_reply(SENTENCE)).encode())
    return _sum(b"".join(WIRE.text_stream(words(DELTAS if shape == "burst" else PACED))))


def _sum(body: bytes) -> str:
    return hashlib.blake2b(body).hexdigest()


class Runner:
    """Runs one shape after another, with one transport for each."""

    def __init__(self, engine: str, base: str) -> None:
        from dragoman import WireRequest

        self._engine = engine
        self._base = base
        self._adapter = _adapter()
        self._transports: dict[str, Any] = {}
        bodies = {stream: json.dumps({"stream": stream, "messages": []}).encode() for stream in (False, True)}
        self._requests = {
            stream: WireRequest("POST", "/v1/messages", body, stream=stream) for stream, body in bodies.items()
        }

    async def ask(self, shape: str) -> None:
        transport = self._transports.get(shape)
        if transport is None:
            transport = self._transports[shape] = _transport(self._engine, f"{self._base}/{shape}")
        if shape in ("call", "slow"):
            body = (await transport.send(self._adapter, self._requests[False])).body
        else:
            async with transport.stream(self._adapter, self._requests[True]) as reply:
                body = b"".join([chunk async for chunk in reply.chunks])
        if _sum(body) != _expected_sums[shape]:
            raise SystemExit(f"{shape}: not what was sent, but {body[:80]!r}")

    async def measure_cpu(self, shape: str, together: int, repeat: int) -> dict[str, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeat):
            await asyncio.gather(*(self.ask(shape) for _ in range(together)))
        times = repeat * together
        return {"cpu": (time.process_time() - cpu) / times, "wall": (time.perf_counter() - wall) / times}


_expected_sums: dict[str, str] = {}


async def _work(engine: str, base: str) -> None:
    _expected_sums.update({shape: _expected(shape) for shape, *_ in ROWS.values()})
    runner = Runner(engine, base)
    started = time.process_time()
    await runner.ask("call")
    print(json.dumps({"first": time.process_time() - started}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await runner.measure_cpu(*json.loads(line))), flush=True)


# ---- The controlling process


class Worker:
    """An engine's process."""

    def __init__(self, python: Path, engine: str, base: str) -> None:
        self._process = subprocess.Popen(
            [str(python), "-W", "ignore", "-m", "tests.benchmarks.engines", "--engine", engine, base],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.first: float = self._read()["first"]

    def run(self, shape: str, together: int, repeat: int) -> dict[str, float]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([shape, together, repeat]) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the engine's process has ended: see above")
        answer: dict[str, float] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def _environment(cache: Path) -> Path:
    python = cache / "engines" / "bin" / "python"
    if not python.exists():
        subprocess.run(["uv", "venv", "--quiet", "--python", "3.11", str(cache / "engines")], check=True)
    subprocess.run(
        ["uv", "pip", "install", "--quiet", "--python", str(python), "--editable", str(ROOT), *PACKAGES], check=True
    )
    return python


@contextmanager
def _workers(python: Path, base: str) -> Iterator[dict[str, Worker]]:
    workers: dict[str, Worker] = {}
    try:
        for engine in ENGINES:
            workers[engine] = Worker(python, engine, base)
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def measure(python: Path, rounds: int, rows: Sequence[str]) -> None:
    with mock_provider() as base, _workers(python, base) as workers:
        print(f"| us of CPU (ratio to the first), us of wall time | {' | '.join(workers)} |")
        print(f"| --- |{' --- |' * len(workers)}", flush=True)
        for row, (shape, together, repeat, events) in ((row, ROWS[row]) for row in rows):
            taken: dict[str, list[dict[str, float]]] = {engine: [] for engine in workers}
            for round_ in range(rounds + 1):
                for engine, worker in workers.items():
                    found = worker.run(shape, together, repeat)
                    if round_:  # the first one opens the connections
                        taken[engine].append(found)
            print(f"| {row} | {' | '.join(_cells(list(taken.values()), events))} |", flush=True)
        print(f"| the first call, import included, ms of CPU | {' | '.join(_milliseconds(workers))} |")


def _cells(taken: Sequence[Sequence[dict[str, float]]], events: int) -> list[str]:
    cells = []
    for own in taken:
        cpu, wall = (statistics.median(each[kind] for each in own) * 1e6 / events for kind in ("cpu", "wall"))
        ratio = statistics.median(each["cpu"] / first["cpu"] for each, first in zip(own, taken[0], strict=True))
        cells.append(f"{cpu:,.1f} ({ratio:.2f}x), {wall:,.1f}")
    return cells


def _milliseconds(workers: Mapping[str, Worker]) -> list[str]:
    return [f"{worker.first * 1000:,.0f}" for worker in workers.values()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.engines")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--row", choices=ROWS, action="append", help="measure this row alone; may be repeated")
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "dragoman-benchmarks"
    parser.add_argument("--cache", type=Path, default=default, help="the folder for the environment")
    parser.add_argument("--python", type=Path, help="an interpreter that has every engine, instead of the environment")
    parser.add_argument("--engine", nargs=2, metavar=("ENGINE", "BASE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        asyncio.run(_work(*options.engine))
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    measure(options.python or _environment(options.cache), options.rounds, options.row or list(ROWS))


if __name__ == "__main__":
    main()
