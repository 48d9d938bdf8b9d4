"""Runs the tests as other machines would: another time zone, locale, terminal, home, order, mask and number of cores.

    uv run python -m tests.packaging.systems.variations                    # each variation by itself
    uv run python -m tests.packaging.systems.variations kathmandu umask    # these two, each by itself
    uv run python -m tests.packaging.systems.variations --together         # as few runs as their settings allow
    uv run python -m tests.packaging.systems.variations random -- tests/unit

It prints a table and exits with 1 if a run fails. A locale that the system does not have is a failure that says so.
"""

import argparse
import locale
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Variation:
    """The settings of one run. ``cores`` and ``umask``: None leaves the current ones."""

    name: str
    variables: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    cores: int | None = None
    umask: int | None = None
    read_only_home: bool = False

    def combine(self, other: "Variation") -> "Variation":
        """Both at once."""
        return Variation(
            f"{self.name} + {other.name}",
            {**self.variables, **other.variables},
            (*self.arguments, *other.arguments),
            self.cores or other.cores,
            self.umask if self.umask is not None else other.umask,
            self.read_only_home or other.read_only_home,
        )


ONE_CORE = Variation("one core", arguments=("--numprocesses=1",), cores=1)
EIGHT_WORKERS = Variation("eight workers", arguments=("--maxprocesses=8", "--numprocesses=8"))
KATHMANDU = Variation("kathmandu", {"TZ": "Asia/Kathmandu"})
TURKISH = Variation("turkish", {"LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8"})
C_LOCALE = Variation("c locale", {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"})
NARROW = Variation("narrow", {"COLUMNS": "40", "LINES": "10"})
READ_ONLY_HOME = Variation("read-only home", read_only_home=True)
RANDOM_ORDER = Variation("random", arguments=("-p", "randomly"))
UMASK = Variation("umask", umask=0o077)

ALL = (ONE_CORE, EIGHT_WORKERS, KATHMANDU, TURKISH, C_LOCALE, NARROW, READ_ONLY_HOME, RANDOM_ORDER, UMASK)
TOGETHER = (
    KATHMANDU.combine(TURKISH).combine(NARROW).combine(UMASK).combine(EIGHT_WORKERS),
    C_LOCALE.combine(READ_ONLY_HOME).combine(RANDOM_ORDER),
    ONE_CORE,
)


def run(variation: Variation, arguments: list[str]) -> tuple[bool, str, float]:
    """Whether pytest passed, its last line, and the seconds that it took."""
    if missing := _missing_locale(variation):
        return False, missing, 0.0
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **variation.variables}
        if variation.read_only_home:
            environment["HOME"] = _unwritable(Path(folder))
        started = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *variation.arguments, *arguments],
            cwd=ROOT,
            env=environment,
            umask=-1 if variation.umask is None else variation.umask,
            preexec_fn=lambda: _bind(variation.cores),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            check=False,
        )
        seconds = time.monotonic() - started
    lines = done.stdout.strip().splitlines() or ["no output"]
    if done.returncode:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))), file=sys.stderr)
    return done.returncode == 0, lines[-1].strip("= "), seconds


def _missing_locale(variation: Variation) -> str:
    name = variation.variables.get("LC_ALL")
    if name is None:
        return ""
    before = locale.setlocale(locale.LC_ALL)
    try:
        locale.setlocale(locale.LC_ALL, name)
    except locale.Error:
        return f"this system has no locale {name}: on Debian, install `locales-all`"
    finally:
        locale.setlocale(locale.LC_ALL, before)
    return ""


def _unwritable(folder: Path) -> str:
    """A home folder that is not writable. Root may write anywhere, except below a path that is not a folder."""
    if os.geteuid() == 0:
        return "/dev/null/home"
    folder.chmod(0o500)
    return str(folder)


def _bind(cores: int | None) -> None:
    if cores is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(variation.name for variation in ALL))
    parser.add_argument("--together", action="store_true", help="as few runs as the settings allow")
    own, rest = sys.argv[1:], []
    if "--" in own:
        cut = own.index("--")
        own, rest = own[:cut], own[cut + 1 :]
    chosen = parser.parse_args(own)
    if unknown := set(chosen.names) - {variation.name for variation in ALL}:
        parser.error(f"no variation {', '.join(sorted(unknown))}")
    variations = (
        TOGETHER if chosen.together else [each for each in ALL if not chosen.names or each.name in chosen.names]
    )
    failed = 0
    for variation in variations:
        passed, line, seconds = run(variation, rest)
        failed += not passed
        print(f"{variation.name:<60}{'passed' if passed else 'FAILED':<8}{seconds:>7.0f} s  {line}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
