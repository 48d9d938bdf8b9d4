"""How a row is measured: contestants take turns, and the median of each one's CPU counts."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Row:
    """One line of the table. Times are microseconds of CPU; ``peer`` is the base of the ratio."""

    what: str
    peer: str
    peer_us: float
    ours_us: float
    goal: str

    @property
    def ratio(self) -> float:
        return self.ours_us / self.peer_us


def print_rows(rows: list[Row]) -> None:
    """Print the table."""
    print("| what | peer, us of CPU | ours, us of CPU | ratio | goal |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows:
        peer = f"{row.peer} {row.peer_us:,.1f}"
        print(f"| {row.what} | {peer} | {row.ours_us:,.1f} | {row.ratio:.2f}x | {row.goal} |")


def time_in_turns(contestants: dict[str, Callable[[], object]], *, rounds: int, repeat: int = 1) -> dict[str, float]:
    """Median CPU microseconds of one call of each, measured in turns after one warm-up each."""
    for run in contestants.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            started = time.process_time()
            for _ in range(repeat):
                run()
            times[name].append((time.process_time() - started) / repeat * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def import_cpu(modules: list[str], *, rounds: int) -> dict[str, float]:
    """Median CPU microseconds that importing each module adds to a fresh interpreter."""
    code = "import time; started = time.process_time(); import {}; print(time.process_time() - started)"
    times: dict[str, list[float]] = {name: [] for name in modules}
    for round_ in range(rounds + 1):
        for name in modules:
            done = subprocess.run(
                [sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True, cwd=ROOT
            )
            if round_:  # the first one warms the caches of the disk
                times[name].append(float(done.stdout) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


def process_cpu(programs: dict[str, str], *rest: str, rounds: int) -> dict[str, float]:
    """Median CPU microseconds of a fresh interpreter that runs each program, with its own start."""
    times: dict[str, list[float]] = {name: [] for name in programs}
    for round_ in range(rounds + 1):
        for name, program in programs.items():
            code = f"{program}\nimport time; print(time.process_time())"
            done = subprocess.run(
                [sys.executable, "-c", code, *rest], capture_output=True, text=True, check=True, cwd=ROOT
            )
            if round_:
                times[name].append(float(done.stdout) * 1e6)
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def mock_provider() -> Iterator[str]:
    """Runs the mock provider in a process of its own and yields its base URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.mock_provider"], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
