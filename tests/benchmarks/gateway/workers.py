"""Requests a second for 1, 2 and 4 workers: `python -m tests.benchmarks.gateway --workers`.

The load and the provider run on the same machine, each on up to one core. So a machine shows what N workers can do only
if it has N + 2 cores. On a smaller one the CPU of a request counts: as long as it stays the same, workers do not get in
each other's way, and each core of a bigger machine adds what one core can do.
"""

import asyncio
import os

from tests.benchmarks.gateway.load import ENDS, Load, full_load, request_bytes
from tests.benchmarks.gateway.servers import WORKERS, Target, cpu_seconds, running

_WARM_SECONDS = 2.0
_OTHERS = 2
"""Cores that the load and the provider use."""
_SHAPES = (("whole, same wire", "same", False), ("stream, other wire", "other", True))


def main(upstream: str, seconds: float) -> int:
    """Print a row for each number of workers. Returns 1 if a request failed."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{cores} cores: enough for {max(1, cores - _OTHERS)} workers beside the load and the provider\n")
    print("| shape | workers | requests/s | CPU us | requests/s of a core | p50 ms | p99 ms | failed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    failed = 0
    for shape, name, stream in _SHAPES:
        for server, workers in WORKERS.items():
            with running(server, f"{upstream}/each") as target:
                load, cpu = _measure(target, name, seconds, stream=stream)
            failed += load.failed
            each = cpu / load.done if load.done else float("nan")
            print(
                f"| {shape} | {workers} | {load.done / load.seconds:,.0f} | {1e6 * each:,.0f} | {1 / each:,.0f} "
                f"| {load.percentile(0.5):.1f} | {load.percentile(0.99):.1f} | {load.failed} |",
                flush=True,
            )
    return int(failed > 0)


def _measure(target: Target, name: str, seconds: float, *, stream: bool) -> tuple[Load, float]:
    request = request_bytes(target, "chat", target.models[name], stream=stream)
    end = ENDS["chat"] if stream else b""
    asyncio.run(full_load(target.port, request, end, _WARM_SECONDS))
    before = cpu_seconds(target.pid)
    load = asyncio.run(full_load(target.port, request, end, seconds))
    return load, cpu_seconds(target.pid) - before
