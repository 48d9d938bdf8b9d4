"""The oldest versions that pyproject.toml allows, tried out: `python -m tests.packaging.floors`.

uv resolves every requirement at its lower bound (`--resolution lowest-direct`), first the required ones, then those of
the extras as well. Each set is installed into a fresh environment, which imports each of our modules and runs some of
the tests: if they fail, a bound is too low. Exits with 1 if a step fails. pytest and the requirements of the tests have
their own lower bounds if an extra names one, otherwise the newest version.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.packaging import programs
from tests.packaging.wheel import PROJECT, ROOT, packages

NEEDED_BY_TESTS = ("hypothesis>=6.140", "opentelemetry-sdk>=1.36", "pytest>=8.4", "pyyaml>=6")
REQUIRED_SUITES = ("tests/unit/canonical", "tests/unit/adapter")
EXTRA_SUITES = (
    "tests/unit/transport/test_vendor.py", "tests/unit/tools/test_mcp.py",
    "tests/unit/session/middleware/test_telemetry_spans.py",
    "tests/cassettes/test_clients.py", "tests/store/test_turns.py",
    "--deselect=tests/unit/session/middleware/test_telemetry_spans.py::test_span_names_are_those_of_the_conventions",
    "--deselect=tests/cassettes/test_clients.py::test_a_miss_is_remembered",
)  # fmt: skip
"""One for each library that we use. The words of OpenTelemetry's conventions are those of their newest version; the
oldest client of OpenAI raises a cassette's miss as an error of its own.
"""

LEFT_OUT = ("local", "redaction")
"""Extras with large packages, and without a test among those that run here."""

IMPORTED = """
import importlib, pkgutil, sys

absent, broken = set(), []
for package in sys.argv[1:]:
    for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.", onerror=str):
        if found.name.endswith((".__main__", ".migrations.env")):  # these are run, and not imported
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if type(error).__name__ == "MissingExtraError":
                absent.add(str(error).rpartition("[")[2].partition("]")[0] or str(error))
            elif missing is None or missing.startswith("dragoman"):
                broken.append(f"{found.name}: {type(error).__name__}: {error}")
            else:
                absent.add(missing)
if broken:
    sys.exit("\\n".join(broken))
print("all modules" + (f", but for those that need {', '.join(sorted(absent))}" if absent else ""))
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.floors", description=__doc__)
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    parser.add_argument("--only", choices=("required", "extras"), help="try one of the two sets")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = scratch if chosen.keep is None else chosen.keep.resolve()
        tried = []
        if chosen.only != "extras":
            tried.append(attempt("required packages", Path(folder) / "required", (), REQUIRED_SUITES))
        if chosen.only != "required":
            extras = tuple(name for name in PROJECT["project"]["optional-dependencies"] if name not in LEFT_OUT)
            title = f"extras, without {' and '.join(LEFT_OUT)}"
            tried.append(attempt(title, Path(folder) / "extras", extras, EXTRA_SUITES))
    return int(not all(tried))


def attempt(title: str, folder: Path, extras: Sequence[str], suites: Sequence[str]) -> bool:
    """Whether the bounds hold; each step is printed."""
    sys.stdout.write(f"{title}\n")
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in steps(folder, extras, suites):
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        last_line = (done.stdout.strip().splitlines() or [""])[-1] if done.returncode == 0 else "FAILED"
        sys.stdout.write(f"    {name:<12}{last_line or 'ok'} ({time.monotonic() - began:.1f} s)\n")
        sys.stdout.flush()
        if done.returncode:
            sys.stdout.write(done.stdout[-6000:] + done.stderr[-4000:])
            return False
    direct = {one.partition(">=")[0].partition("[")[0] for one in requirements(extras)}
    pinned = [line for line in (folder / "floors.txt").read_text().splitlines() if line.partition("==")[0] in direct]
    sys.stdout.write(f"    {' '.join(pinned)}\n")
    return True


def requirements(extras: Sequence[str]) -> list[str]:
    """What a user with these extras has to install."""
    optional = PROJECT["project"]["optional-dependencies"]
    requested = [*PROJECT["project"]["dependencies"], *(one for name in extras for one in optional[name])]
    return [one for one in requested if not one.startswith("dragoman[")]


def steps(folder: Path, extras: Sequence[str], suites: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each step by its name: the command that must succeed."""
    wanted, floors, environment = folder / "wanted.txt", folder / "floors.txt", folder / "environment"
    python = programs.python(environment)
    wanted.write_text("\n".join([*requirements(extras), *NEEDED_BY_TESTS]) + "\n")
    lowest = f"{sys.version_info.major}.{sys.version_info.minor}"
    yield "resolved", ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--python-version", lowest,
                       "--resolution", "lowest-direct", "--output-file", str(floors), str(wanted)]  # fmt: skip
    yield "environment", ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)]
    yield "installed", ["uv", "pip", "install", "--quiet", "--python", python, "--requirements", str(floors)]
    yield "ours", ["uv", "pip", "install", "--quiet", "--python", python, "--no-deps", str(ROOT)]
    yield "imported", [python, "-I", "-c", IMPORTED, *packages()]
    run = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers", "--maxfail=9"]
    yield "tests", [*run, *suites]


if __name__ == "__main__":
    sys.exit(main())
