"""Takes the newest release of the price data: `python -m tests.upkeep.newest_prices`. Needs uv and the network.

The release is pinned in `.ci/requirements.txt` and installed, and `pricing/refresh.py` writes the price files with the
day on which the release was published. If a tag of this repository has the previous price files, that table is first
kept under `pricing/versions`, so that costs of that version can still be explained. Nothing changes if the newest
release is the pinned one.
"""

import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from datetime import date

from dragoman.pricing import price_table, save_table
from tests.upkeep.repository import ROOT

DISTRIBUTION = "genai-prices"
PINS = ROOT / ".ci" / "requirements.txt"
RECORDED = ROOT / "pricing" / "index.toml"

_PIN = re.compile(rf"^{DISTRIBUTION}==.*\n(?:    --hash=.*\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Release:
    version: str
    published: date
    hashes: tuple[str, ...]


def main() -> None:
    newest = read_lock(
        _run("uv", "pip", "compile", "-", "--quiet", "--no-deps", "--format", "pylock.toml", stdin=DISTRIBUTION)
    )
    if newest.version == tomllib.loads(RECORDED.read_text(encoding="utf-8"))["origin"]["release"]:
        print(f"{DISTRIBUTION} {newest.version} is the recorded release already")
        return
    if _was_released():
        print(f"kept {save_table(price_table(), ROOT / 'pricing' / 'versions')}")
    PINS.write_text(pin(PINS.read_text(encoding="utf-8"), newest), encoding="utf-8", newline="\n")
    _run("uv", "pip", "install", "--quiet", "--no-deps", f"{DISTRIBUTION}=={newest.version}")
    print(_run(sys.executable, "pricing/refresh.py", "--released", f"{newest.published}"), end="")


def read_lock(text: str) -> Release:
    """The only package of a `pylock.toml`: its version, the day on which it was first published, and its hashes."""
    (package,) = tomllib.loads(text)["packages"]
    files = [package["sdist"], *package["wheels"]]
    return Release(
        version=package["version"],
        published=min(file["upload-time"] for file in files).date(),
        hashes=tuple(sorted(file["hashes"]["sha256"] for file in files)),
    )


def pin(requirements: str, release: Release) -> str:
    """The requirements with that release. Raises ValueError if the distribution is not pinned there exactly once."""
    lines = [f"{DISTRIBUTION}=={release.version}", *(f"    --hash=sha256:{digest}" for digest in release.hashes)]
    changed, count = _PIN.subn(" \\\n".join(lines).replace("\\", r"\\") + "\n", requirements)
    if count != 1:
        raise ValueError(f"{DISTRIBUTION} is pinned {count} times in {PINS.relative_to(ROOT)}")
    return changed


def _was_released() -> bool:
    """Whether the newest tag has the current price files."""
    tag = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    if tag.returncode:  # no version was released yet
        return False
    same = ["git", "diff", "--quiet", tag.stdout.strip(), "--", ":(glob)pricing/*.toml"]
    return subprocess.run(same, cwd=ROOT, check=False).returncode == 0


def _run(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
