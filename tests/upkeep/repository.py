"""Files of an earlier commit, as the repository's history has them."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def at(ref: str, folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The path and the text of each file in a folder of a commit or tag, in order.

    Raises subprocess.CalledProcessError if there is no such commit.
    """
    for path in _git("ls-tree", "-r", "-z", "--name-only", ref, "--", folder).split("\0"):
        if path.endswith(suffix):
            yield path, _git("show", f"{ref}:{path}")


def now(folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The same of the checkout as it is, committed or not."""
    for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True)
    return done.stdout.decode("utf-8")
