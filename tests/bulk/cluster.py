"""A bulk run on a Ray cluster at scale: `python -m tests.bulk.cluster --rows N --kills K`; it needs ``dragoman[ray]``.

The cluster is on this machine: an idle head, and two nodes with a worker each. First N rows without it, then N and 2N
rows on it, undisturbed: rows in equal rows out, and their processor time and memory, here and in the workers. Then N
rows while one worker at a time is killed with signal 9, K times, or its whole node (every third time; another one takes
its place): nothing may be missing, and each row that the provider answered twice must be in the manifest as lost, with
a cost. The exit status is 1 if any of this does not hold.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.bulk import bulk
from tests.bulk import scale
from tests.bulk.mock_provider import ROOT, mock_provider

WORKERS = 2
NODE_EVERY = 3
"""One of this many kills ends a node."""
_TICK = 1 / os.sysconf("SC_CLK_TCK")


def one_run(rows: Path, output: Path, url: str, address: str) -> None:
    """The work of the process that controls the run."""
    providers = {"anthropic": {"base_url": url, "api_key": "none"}}
    more: dict[str, Any] = {"concurrency": scale.CONCURRENCY, "ray": address}
    with bulk(rows, scale.MODEL, to=output, providers=providers, **more) as report:
        sys.stdout.write(json.dumps({"finished": report.finished, "errors": report.errors}))


class Nodes:
    """The cluster, whose processes are all started here. ``cpus`` is what each node offers."""

    def __init__(self, cpus: int) -> None:
        self._cpus = cpus
        made: Any = import_module("ray.cluster_utils")
        self._cluster = made.Cluster(initialize_head=True, head_node_args=self._node_resources(0))
        self._nodes = [self._cluster.add_node(**self._node_resources(cpus)) for _ in range(WORKERS)]
        self.address: str = self._cluster.address

    def workers(self, name: bytes = b"ray::Worker") -> dict[int, int]:
        """The processes of workers, each with the index of its node."""
        return {pid: place for place, node in enumerate(self._nodes) for pid in _workers_of(self._raylet(node), name)}

    def end_node(self, place: int) -> None:
        """With signal 9. Another one takes its place."""
        node = self._nodes[place]
        os.kill(self._raylet(node), signal.SIGKILL)
        self._nodes[place] = self._cluster.add_node(wait=False, **self._node_resources(self._cpus))

    def close(self) -> None:
        self._cluster.shutdown()

    @staticmethod
    def _node_resources(cpus: int) -> dict[str, Any]:
        return {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": 80 << 20}

    @staticmethod
    def _raylet(node: Any) -> int:
        return int(node.all_processes["raylet"][0].process.pid)


@contextmanager
def cluster(cpus: int = 1) -> Iterator[Nodes]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on 127.0.0.1 only
    nodes = Nodes(cpus)
    try:
        yield nodes
    finally:
        nodes.close()


@dataclass
class WorkerUsage:
    """The usage of workers, by process: seconds of processor time, and bytes at the peak."""

    cpu: dict[int, float] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)

    def look(self, nodes: Nodes) -> None:
        for pid in nodes.workers():
            try:
                used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                process_status = Path(f"/proc/{pid}/status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            self.cpu[pid] = (int(used[11]) + int(used[12])) * _TICK
            self.memory[pid] = 1024 * int(process_status.partition("VmHWM:")[2].split()[0])


def _workers_of(raylet: int, start_request: bytes) -> list[int]:
    """Children of the node's process with that name; others are idle."""
    found = []
    try:
        children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return []
    for child in children:
        try:
            name = Path(f"/proc/{child}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if name.startswith(start_request):
            found.append(int(child))
    return found


@dataclass(frozen=True)
class ClusterRun:
    here: scale.ProcessResult
    usage: WorkerUsage
    request_counts: dict[str, int]
    faults: list[str]
    kills: int = 0
    nodes: int = 0


def run(nodes: Nodes, rows: Path, count: int, kills: int, chance: random.Random, seconds: float) -> ClusterRun:
    """``seconds`` is how long an answer takes, so that kills find requests in flight."""
    output = rows.with_suffix(".answers.jsonl")
    scale.write_rows(rows, count)
    usage = WorkerUsage()
    with mock_provider(seconds) as url:
        command = [sys.executable, "-m", "tests.bulk.cluster", "--worker", str(rows), str(output), url, nodes.address]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        killer = Killer(nodes, url, count, kills, chance, usage)
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            killer.look()
            time.sleep(0.05)
        here = scale.wait(process, None)
        seen = scale.request_counts(url)
        assert process.stdout is not None
        summary = json.loads([b"{}", *process.stdout.read().splitlines()][-1])  # Ray prints what it has lost before it
        process.stdout.close()
    faults = [*scale.check(rows, output), *scale.count_mismatch("requested rows", seen["rows"], count)]
    if here.code or not summary.get("finished") or summary.get("errors"):
        faults.append(f"the run ended with {here.code} and {summary}")
    faults += scale.count_mismatch("kills", killer.kills, kills)
    return ClusterRun(here, usage, seen, faults, killer.kills, killer.nodes)


class Killer:
    """Watches the workers, and kills one after every few rows."""

    def __init__(
        self, nodes: Nodes, url: str, count: int, kills: int, chance: random.Random, usage: WorkerUsage
    ) -> None:
        self.kills = self.nodes = 0
        self._cluster = nodes
        self._url = url
        share = count / (kills + 1)
        self._moments = [int(share * (kill + chance.uniform(0.3, 0.9))) for kill in range(kills)]
        self._chance = chance
        self._watched = usage

    def look(self) -> None:
        self._watched.look(self._cluster)
        workers = self._cluster.workers()
        if self._moments and workers and scale.request_counts(self._url)["rows"] >= self._moments[0]:
            del self._moments[0]
            self._end(*self._chance.choice(sorted(workers.items())))

    def _end(self, pid: int, place: int) -> None:
        self.kills += 1
        if self.kills % NODE_EVERY:
            os.kill(pid, signal.SIGKILL)
        else:
            self.nodes += 1
            self._cluster.end_node(place)


def faults_of(ran: ClusterRun, count: int, lost: list[str | None]) -> list[str]:
    """Faults of a disturbed run."""
    faults = list(ran.faults)
    twice = ran.request_counts["requests"] - count
    if twice > len(lost):
        faults.append(f"{twice} requests too many, and {len(lost)} are recorded")
    if len(lost) > ran.kills * scale.CONCURRENCY:
        faults.append(f"{len(lost)} are recorded, and {ran.kills * scale.CONCURRENCY} is the most that was in flight")
    if unpriced := lost.count(None):
        faults.append(f"{unpriced} lost requests have no cost")
    return faults


def _line(what: str, count: int, here: scale.ProcessResult, usage: WorkerUsage) -> str:
    cpu = sum(usage.cpu.values())
    line = f"{what:<14}{count:>9,} rows  {1e6 * here.cpu / count:6.0f} us a row and {here.memory / 2**20:4.0f} MB here"
    if usage.memory:
        line += (
            f"  {1e6 * cpu / count:6.0f} us a row in the workers, {max(usage.memory.values()) / 2**20:4.0f} MB in one"
        )
    return line


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bulk.cluster", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="that an answer takes in the run that is disturbed")
    parser.add_argument("--worker", nargs=4, metavar=("ROWS", "OUTPUT", "URL", "ADDRESS"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        one_run(Path(chosen.worker[0]), Path(chosen.worker[1]), *chosen.worker[2:])
        return 0
    chance = random.Random(chosen.seed)
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ended, found = scale.run_undisturbed(folder, chosen.rows)
        faults += found
        print(_line("one process", chosen.rows, ended, WorkerUsage()), flush=True)
        with cluster() as nodes:
            peaks = []
            for count in (chosen.rows, 2 * chosen.rows):
                ran = run(nodes, folder / f"ray-{count}.jsonl", count, 0, chance, 0.0)
                faults += [*ran.faults, *scale.count_mismatch("requests", ran.request_counts["requests"], count)]
                peaks.append((ran.here.memory, max(ran.usage.memory.values(), default=0)))
                print(_line("two workers", count, ran.here, ran.usage), flush=True)
            for where, (one, two) in zip(("here", "in a worker"), zip(*peaks, strict=True), strict=True):
                if two > scale.MOST_GROWTH * one:
                    faults.append(f"twice the rows take {two / one:.2f} times the memory {where}")
            rows = folder / "killed.jsonl"
            ran = run(nodes, rows, chosen.rows, chosen.kills, chance, chosen.seconds)
        lost = scale.lost_estimates(f"sqlite:///{rows.with_suffix('.answers.jsonl')}.manifest")
        faults += faults_of(ran, chosen.rows, lost)
        if chosen.kills and not lost:
            faults.append("no kill found a request under way, so nothing was shown: take more rows")
        usd = sum((Decimal(each) for each in lost if each is not None), Decimal(0))
        print(_line("killed", chosen.rows, ran.here, ran.usage))
        print(
            f"{ran.kills} kills, {ran.nodes} of them of nodes: {ran.request_counts['requests'] - chosen.rows} "
            "requests sent"
            f" twice, {len(lost)} recorded as lost with ${usd}, {lost.count(None)} of them without a cost"
        )
    print("\n".join(faults) or "nothing is missing, and nothing was sent twice that is not recorded")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
