"""``python -m tests.benchmarks.gateway [server ...] [--seconds S] [--rounds N] [--deltas each | burst] [--streams N]
[--soak S | --workers]``.

The servers take turns in each round, so that a machine that others use slows all of them alike; the medians count. CPU
is that of the server's processes, for a request that ended well; the ratios are to the bare proxy of the same run. The
other wire is Messages behind a client of Chat Completions.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.gateway import soak, workers
from tests.benchmarks.gateway.load import ENDS, Load, full_load, open_streams, request_bytes, steady_load
from tests.benchmarks.gateway.servers import (
    SERVERS,
    VARIABLE,
    NotStartedError,
    Target,
    cpu_seconds,
    install,
    missing,
    resident_bytes,
    running,
)
from tests.benchmarks.timing import mock_provider

SHAPES = (("whole, same wire", "same", False), ("whole, other wire", "other", False),
          ("stream, same wire", "same", True), ("stream, other wire", "other", True))  # fmt: skip
_WARM_SECONDS = 1.0


@dataclass(slots=True)
class Row:
    """One measurement of one server."""

    server: str
    shape: str
    load: Load
    cpu: float

    @property
    def rate(self) -> float:
        return self.load.done / self.load.seconds

    @property
    def cpu_each(self) -> float:
        """CPU microseconds for a request that ended well."""
        return 1e6 * self.cpu / self.load.done if self.load.done else float("nan")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables. Returns 1 if a request of ours failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.gateway", description=__doc__)
    parser.add_argument("server", nargs="*", help=f"of {', '.join(SERVERS)} (default: all that are installed)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement (default 5)")
    parser.add_argument("--rounds", type=int, default=3, help="of all servers; the medians count (default 3)")
    how = "how the provider sends the deltas of a stream: each alone (default), or all at once"
    parser.add_argument("--deltas", choices=("each", "burst"), default="each", help=how)
    parser.add_argument("--streams", type=int, default=1000, help="open at once (default 1,000; 0 leaves it out)")
    parser.add_argument("--soak", type=float, default=0.0, metavar="SECONDS", help="a mixed load on ours, such as 600")
    parser.add_argument("--workers", action="store_true", help="only ours, with 1, 2 and 4 workers")
    parser.add_argument("--install", type=Path, metavar="FOLDER", help="install the other gateways there")
    options = parser.parse_args(arguments)
    if options.install is not None:
        install(options.install)
        os.environ[VARIABLE] = str(options.install)
    asked = () if options.soak or options.workers else options.server or SERVERS
    for server in asked:
        if reason := missing(server):
            print(f"{server}: skipped, {reason}")
    servers = [server for server in asked if missing(server) is None]
    with mock_provider() as upstream:
        if options.soak:
            return soak.main(upstream, options.soak)
        if options.workers:
            return workers.main(upstream, options.seconds)
        measured: list[Row] = []
        for _ in range(options.rounds):
            for server in tuple(servers):
                try:
                    measured += _measure(server, f"{upstream}/{options.deltas}", options.seconds)
                except NotStartedError as error:
                    print(f"{server}: {error}")
                    servers.remove(server)
        rows = _medians(measured)
        _print_rows(rows)
        _print_half_load(servers, rows, upstream, options.seconds)
        if options.streams:
            _print_open_streams(servers, upstream, options.streams)
    return int(any(row.load.failed for row in measured if row.server.startswith("dragoman")))


def _request(target: Target, name: str, *, stream: bool) -> bytes:
    headers = target.other_headers if name == "other" and target.other_headers else target.headers
    other = Target(target.pid, target.port, target.prefix, target.models, headers)
    return request_bytes(other, "chat", target.models[name], stream=stream)


def _measure(server: str, upstream: str, seconds: float) -> list[Row]:
    rows: list[Row] = []
    with running(server, upstream) as target:
        for shape, name, stream in SHAPES:
            if name not in target.models:
                continue
            request, end = _request(target, name, stream=stream), ENDS["chat"] if stream else b""
            asyncio.run(full_load(target.port, request, end, _WARM_SECONDS))
            before = cpu_seconds(target.pid)
            load = asyncio.run(full_load(target.port, request, end, seconds))
            rows.append(row := Row(server, shape, load, cpu_seconds(target.pid) - before))
            print(f"{server}, {shape}: {row.cpu_each:,.0f} us of CPU", file=sys.stderr, flush=True)
    return rows


def _medians(rows: list[Row]) -> list[Row]:
    """Return the measurement with the median CPU for each server and shape, in the order of the first round."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.server, row.shape), []).append(row)
    return [sorted(each, key=lambda row: row.cpu_each)[len(each) // 2] for each in found.values()]


def _print_rows(rows: list[Row]) -> None:
    print("\n| shape | server | requests/s | CPU us | of bare | p50 ms | p99 ms | failed |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for shape, _, stream in SHAPES:
        bare = next((row.cpu_each for row in rows if row.server == "bare" and ("stream" in row.shape) is stream), None)
        for row in rows:
            if row.shape == shape:
                ratio = f"{row.cpu_each / bare:.2f}" if bare else ""
                print(
                    f"| {shape} | {row.server} | {row.rate:,.0f} | {row.cpu_each:,.0f} | {ratio} "
                    f"| {row.load.percentile(0.5):.1f} | {row.load.percentile(0.99):.1f} | {row.load.failed} |"
                )


def _print_half_load(servers: list[str], rows: list[Row], upstream: str, seconds: float) -> None:
    """The latency at half of the full rate, and how much of it the server adds to the provider's own."""
    print("\n| half load | requests/s | p50 ms | p99 ms | p99 of the provider alone | added | failed |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    port = int(upstream.rpartition(":")[2])
    for server in servers:
        full = next(row for row in rows if (row.server, row.shape) == (server, SHAPES[0][0]))
        rate = full.rate / 2
        if not full.load.done:
            continue
        with running(server, upstream) as target:
            request = _request(target, "same", stream=False)
            asyncio.run(full_load(target.port, request, b"", _WARM_SECONDS))
            load = asyncio.run(steady_load(target.port, request, rate, seconds))
        alone = asyncio.run(steady_load(port, _request(Target(0, port, models={"same": "m"}), "same", stream=False),
                                        rate, seconds))  # fmt: skip
        p99, least = load.percentile(0.99), alone.percentile(0.99)
        print(f"| {server} | {rate:,.0f} | {load.percentile(0.5):.1f} | {p99:.1f} | {least:.1f} | {p99 - least:.1f} "
              f"| {load.failed} |")  # fmt: skip


def _print_open_streams(servers: list[str], upstream: str, count: int) -> None:
    """The memory of a stream while all are open: each pauses after its first deltas."""
    print(f"\n| {count:,} open streams | KiB each | first bytes, p50 ms | p99 ms | failed | seconds |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for server in servers:
        with running(server, f"{upstream}/open") as target:
            request = _request(target, "same", stream=True)
            asyncio.run(full_load(target.port, _request(target, "same", stream=False), b"", _WARM_SECONDS))
            before = resident_bytes(target.pid)
            load, most = asyncio.run(_watch(target, request, count))
            print(
                f"| {server} | {(most - before) / count / 1024:.0f} | {load.percentile(0.5):.0f} "
                f"| {load.percentile(0.99):.0f} | {load.failed} | {load.seconds:.1f} |"
            )


async def _watch(target: Target, request: bytes, count: int) -> tuple[Load, int]:
    begun = asyncio.Event()
    most = 0

    async def sample() -> None:
        nonlocal most
        await begun.wait()
        for _ in range(5):
            most = max(most, resident_bytes(target.pid))
            await asyncio.sleep(0.1)

    sampling = asyncio.ensure_future(sample())
    load = await open_streams(target.port, request, ENDS["chat"], count, begun)
    await sampling
    return load, most
