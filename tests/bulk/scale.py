"""A bulk run at scale: `python -m tests.bulk.scale --rows N --kills K`.

First N and 2N rows without disturbance: rows in equal rows out, and their processor time and memory. Then N rows by
processes that are killed with signal 9 at random moments, K times, and one that is not: nothing may be missing, and
each row that the provider answered twice must be in the manifest as lost, with a cost. The provider is a mock on
loopback that counts its answers. The exit status is 1 if any of this does not hold.
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
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from dragoman.bulk import bulk
from dragoman.store.database import Database
from tests.bulk.mock_provider import ROOT, mock_provider

MODEL = "anthropic:claude-haiku-4-5"
CONCURRENCY = 64
MOST_GROWTH = 1.25
"""Of the memory, from N rows to 2N: more than a quarter means growth with the rows."""
_SLOWEST_START = 60.0


@dataclass(frozen=True)
class ProcessResult:
    """A process that ended. ``cpu`` is seconds, ``memory`` bytes at its peak."""

    killed: bool
    code: int
    cpu: float
    memory: int


def one_run(rows: Path, output: Path, url: str, manifest: str | None) -> None:
    """The work of one process."""
    providers = {"anthropic": {"base_url": url, "api_key": "none"}}
    with bulk(rows, MODEL, to=output, manifest=manifest, providers=providers, concurrency=CONCURRENCY) as report:
        summary = {"finished": report.finished, "errors": report.errors, "usd": str(report.lost.usd)}
        gone = report.lost
        sys.stdout.write(json.dumps({**summary, "killed": gone.killed, "network": gone.network}))


def _start(rows: Path, output: Path, url: str, manifest: str | None = None) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.bulk.scale", "--worker", str(rows), str(output), url]
    command += [] if manifest is None else ["--manifest", manifest]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def wait(process: "subprocess.Popen[bytes]", kill_after: float | None) -> ProcessResult:
    """Waits until the process ends: by itself, or by a signal after so many seconds."""
    deadline = None if kill_after is None else time.monotonic() + kill_after
    while True:
        pid, status, used = os.wait4(process.pid, 0 if deadline is None else os.WNOHANG)
        if pid:
            process.returncode = code = os.waitstatus_to_exitcode(status)
            return ProcessResult(code == -signal.SIGKILL, code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
        if deadline is not None and time.monotonic() >= deadline:
            os.kill(process.pid, signal.SIGKILL)
            deadline = None
        time.sleep(0.01)


def run_undisturbed(folder: Path, count: int) -> tuple[ProcessResult, list[str]]:
    rows, output = folder / f"{count}.jsonl", folder / f"{count}.answers.jsonl"
    write_rows(rows, count)
    with mock_provider() as url:
        process = _start(rows, output, url)
        result = wait(process, None)
        counted = request_counts(url)
        assert process.stdout is not None
        summary = json.loads(process.stdout.read() or b"{}")
        process.stdout.close()
    faults = [*check(rows, output), *count_mismatch("requests", counted["requests"], count)]
    if result.code or not summary.get("finished") or summary.get("errors"):
        faults.append(f"the run ended with {result.code} and {summary}")
    return result, faults


@dataclass(frozen=True)
class DisturbedRun:
    kills: int
    processes: int
    asked_twice: int
    recorded: int
    usd: Decimal
    unpriced: int
    cpu: float
    faults: list[str]


def run_disturbed(
    folder: Path, count: int, kills: int, chance: random.Random, seconds: float, manifest: str | None = None
) -> DisturbedRun:
    """``seconds`` is how long an answer takes, so that kills find requests in flight. ``manifest`` is the URL of an
    empty database; None: a file.
    """
    rows, output = folder / "killed.jsonl", folder / "killed.answers.jsonl"
    write_rows(rows, count)
    faults: list[str] = []
    cpu, killed, processes = 0.0, 0, 0
    with mock_provider(seconds) as url:
        while True:
            process = _start(rows, output, url, manifest)
            processes += 1
            result = wait(
                process, _kill_delay(process.pid, url, count, kills - killed, chance) if killed < kills else None
            )
            assert process.stdout is not None
            process.stdout.close()
            cpu, killed = cpu + result.cpu, killed + result.killed
            if not result.killed:
                break
        counted = request_counts(url)
    if result.code:
        faults.append(f"the last process ended with {result.code}")
    faults += check(rows, output)
    faults += count_mismatch("requested rows", counted["rows"], count)
    gone = lost_estimates(manifest or f"sqlite:///{output}.manifest")
    twice = counted["requests"] - count
    if twice > len(gone):
        faults.append(f"{twice} requests too many, and {len(gone)} are recorded")
    if len(gone) > killed * CONCURRENCY:
        faults.append(f"{len(gone)} are recorded, and {killed * CONCURRENCY} is the most that can be in flight")
    costs = [Decimal(cost) for cost in gone if cost is not None]
    if len(costs) < len(gone):
        faults.append(f"{len(gone) - len(costs)} lost requests have no cost")
    return DisturbedRun(
        killed, processes, twice, len(gone), sum(costs, Decimal(0)), len(gone) - len(costs), cpu, faults
    )


def _kill_delay(pid: int, url: str, count: int, kills_left: int, chance: random.Random) -> float:
    """Seconds until the kill: some after the process has started to ask, so that all kills find a run."""
    before, began = request_counts(url)["requests"], time.monotonic()
    while request_counts(url)["requests"] == before and time.monotonic() - began < _SLOWEST_START:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            break  # there was nothing left to ask
        time.sleep(0.02)
    share = max(count - request_counts(url)["rows"], 0) / max(kills_left + 1, 1)
    return chance.uniform(0, 2 * share / 400)  # some 400 rows a second, on a busy machine


def write_rows(path: Path, count: int) -> None:
    with path.open("w") as file:
        file.writelines(json.dumps({"id": n, "prompt": f"row {n}"}) + "\n" for n in range(count))


def check(rows: Path, output: Path) -> list[str]:
    """Each row is in the output once, in its place, with its own answer."""
    if not output.exists():
        return ["there is no output"]
    with rows.open() as expected_rows, output.open() as written_lines:
        for number, (row, line) in enumerate(zip(expected_rows, _pad_lines(written_lines), strict=False)):
            found: dict[str, Any] = json.loads(line or "{}")
            if found.get("id") != json.loads(row)["id"] or found.get("answer") != f"answer {number}":
                return [f"row {number} came back as {line!r:.200}"]
        return ["there are more rows than there were"] if written_lines.read(1) else []


def _pad_lines(lines: Any) -> Iterator[str]:
    while True:
        yield next(lines, "")


def request_counts(url: str) -> dict[str, int]:
    with urllib.request.urlopen(url) as reply:
        found: dict[str, int] = json.loads(reply.read())
        return found


def lost_estimates(manifest: str) -> list[str | None]:
    database = Database(manifest, timeout=10, synchronous="full", pool_size=1)
    try:
        query = "SELECT estimate_usd FROM bulk_lost"
        return database.read(
            lambda connection: [None if row[0] is None else str(row[0]) for row in connection.exec_driver_sql(query)]
        )
    finally:
        database.close()


def count_mismatch(what: str, found: int, due: int) -> list[str]:
    return [] if found == due else [f"{found:,} {what} and not {due:,}"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bulk.scale", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.05, help="that an answer takes in the run that is killed")
    parser.add_argument("--manifest", help="the URL of an empty database, for the run that is killed; else a file")
    parser.add_argument("--worker", nargs=3, metavar=("ROWS", "OUTPUT", "URL"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        one_run(Path(chosen.worker[0]), Path(chosen.worker[1]), chosen.worker[2], chosen.manifest)
        return 0
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        memories = []
        for count in (chosen.rows, 2 * chosen.rows):
            result, found = run_undisturbed(folder, count)
            memories.append(result.memory)
            faults += found
            print(
                f"{count:>9,} rows  {1e6 * result.cpu / count:7.0f} us a row  {result.memory / 2**20:6.1f} MB "
                "at the peak"
            )
        growth = memories[1] / memories[0]
        if growth > MOST_GROWTH:
            faults.append(f"twice the rows take {growth:.2f} times the memory")
        if chosen.kills:
            chance = random.Random(chosen.seed)
            run = run_disturbed(folder, chosen.rows, chosen.kills, chance, chosen.seconds, chosen.manifest)
            faults += run.faults
            if not run.recorded:
                faults.append("no kill found a request under way, so nothing was shown: take more rows")
            print(
                f"{chosen.rows:>9,} rows  {run.kills} kills in {run.processes} processes, {run.asked_twice} requests"
                f" sent twice, {run.recorded} recorded as lost with ${run.usd}, {run.unpriced} of them without a cost"
            )
    print("\n".join(faults) or "nothing is missing, and nothing was sent twice that is not recorded")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
