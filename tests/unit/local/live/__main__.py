"""No test depends on the words of a model.

`python -m tests.unit.local.live` runs the tests that use the embedded model in each precision of this CPU, with one and
with two threads, and with their prompts in three wordings.

The model's answers differ between them, and every test must pass in all. Prints a table; exits with 1 if a test fails,
or if none runs.
"""

import argparse
import importlib
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dragoman.local.model import PRECISION_VARIABLE, PRECISIONS, THREADS_VARIABLE
from tests.unit.local.live.wording import VARIABLE, table

ROOT = Path(__file__).resolve().parents[4]
PYTEST = (sys.executable, "-m", "pytest", "-q", "--numprocesses=0", "-p", "no:cacheprovider", "-m", "live_local")
CAPABILITIES = {"FP32": "f32", "BF16": "bf16", "FP16": "f16"}
"""The runtime's names for the precisions of a CPU."""


def main(arguments: Sequence[str] | None = None) -> int:
    wordings = range(1 + min(map(len, table().values())))
    parser = argparse.ArgumentParser(prog="python -m tests.unit.local.live", description=__doc__)
    parser.add_argument("--precision", action="append", choices=PRECISIONS, help="by default all that the CPU has")
    parser.add_argument("--threads", action="append", type=int, help="by default 1 and 2")
    parser.add_argument("--wording", action="append", type=int, choices=wordings, help="by default all")
    chosen = parser.parse_args(arguments)
    tests = collect()
    sys.stdout.write(f"{len(tests)} tests use the embedded model\n\nprecision  threads  wording  result\n")
    grid = itertools.product(
        chosen.precision or precisions(), chosen.threads or (1, 2), chosen.wording or tuple(wordings)
    )
    passed = [run(tests, *row) for row in grid]
    return int(not all(passed))


def precisions() -> list[str]:
    """The precisions of this CPU, as the runtime reports them."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  # else it reports the import
    can = importlib.import_module("openvino").Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return [ours for theirs, ours in CAPABILITIES.items() if theirs in can]


def collect() -> list[str]:
    """The ids of the tests with the marker live_local."""
    done = subprocess.run([*PYTEST, "--collect-only"], capture_output=True, text=True, check=False, cwd=ROOT)
    return [line for line in done.stdout.splitlines() if "::" in line]


def run(tests: Sequence[str], precision: str, threads: int, wording: int) -> bool:
    """Run the tests in a process of their own, print a row, and return whether all of them passed."""
    settings = {PRECISION_VARIABLE: precision, THREADS_VARIABLE: str(threads), VARIABLE: str(wording)}
    began = time.monotonic()
    done = subprocess.run(
        [*PYTEST, *tests], capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | settings
    )
    passed = re.search(r"(\d+) passed", done.stdout)
    well = done.returncode == 0 and passed is not None and int(passed[1]) == len(tests)
    result = f"{passed[1] if passed else 0} of {len(tests)} passed"
    sys.stdout.write(f"{precision:<11}{threads:<9}{wording:<9}{result}, {time.monotonic() - began:.0f} s\n")
    if not well:
        sys.stdout.write(f"{done.stdout[-8000:]}{done.stderr[-2000:]}\n")
    sys.stdout.flush()
    return well


if __name__ == "__main__":
    sys.exit(main())
