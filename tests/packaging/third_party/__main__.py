"""The path of a third party: from the tutorial to a passed kit in a fresh environment.

`python -m tests.packaging.third_party` runs it.
The package consists of the blocks of docs/adapters.md only. uv installs it with this checkout's wheel into an empty
environment, from its cache if possible; then it is found by its entry point, tried by `dragoman conform` and by pytest,
and used in a session. Exits with 1 if any step fails.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.packaging.third_party import tutorial

NEEDED = (f"{tutorial.ROOT}[cli]", "hypothesis", "pytest")

FOUND = """
from dragoman import AdapterOptions, Message, Session, get_adapter
adapter = get_adapter("acme:acme-large")
wire = adapter.to_wire([Message.user("How far is it?")], [], AdapterOptions())
assert Session("acme:acme-large").preview("openai:gpt-4.1").fits
from decimal import Decimal
from dragoman import Usage
from dragoman.pricing import cost
priced = cost(Usage(input_tokens=1_000_000), "acme:acme-large")
assert priced.cost_usd == Decimal("2.5"), priced
print(type(adapter).__module__, wire.path)
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging.third_party", description=__doc__)
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    chosen = parser.parse_args()
    if chosen.keep is not None:
        return run(chosen.keep.resolve())
    with tempfile.TemporaryDirectory() as folder:
        return run(Path(folder))


def run(folder: Path) -> int:
    """The exit status."""
    package, environment = folder / "acme", folder / "environment"
    tutorial.write_files(package)
    python, scripts = environment / "bin" / "python", environment / "bin"
    install = ["uv", "pip", "install", "--quiet", "--python", str(python), str(package), *NEEDED]
    ways = ([*install, "--offline"], install)
    steps: list[tuple[str, Sequence[Sequence[str]]]] = [
        ("an empty environment", [["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)]]),
        ("installed", ways),
        ("found by its entry point", [[str(python), "-I", "-c", FOUND]]),
        ("conform", [[str(scripts / "dragoman"), "conform", "acme-adapter", "--html", str(folder / "scorecard.html")]]),
        (
            "pytest",
            [[str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "acme_adapter.conformance"]],
        ),
    ]
    for name, commands in steps:
        done = _first_that_works(commands, folder)
        sys.stdout.write(f"{name:<28}{'ok' if done.returncode == 0 else 'FAILED'}\n")
        if done.returncode:
            sys.stdout.write(done.stdout[-4000:] + done.stderr[-4000:])
            return 1
        if name in ("conform", "pytest"):
            sys.stdout.writelines(
                f"    {line}\n"
                for line in done.stdout.strip().splitlines()
                if " laws hold" in line or " passed" in line
            )
    sys.stdout.write(f"{'scorecard':<28}{(folder / 'scorecard.html').stat().st_size:,} bytes of HTML\n")
    return 0


def _first_that_works(commands: Sequence[Sequence[str]], folder: Path) -> subprocess.CompletedProcess[str]:
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
        if done.returncode == 0:
            break
    return done


if __name__ == "__main__":
    sys.exit(main())
