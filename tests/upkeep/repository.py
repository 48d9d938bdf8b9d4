"""Files of an earlier commit, from the repository's history."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def files_at(ref: str, folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The path and the text of each file in a folder of a commit or tag, in order.

    Raises subprocess.CalledProcessError if there is no such commit.
    """
    for path in _git("ls-tree", "-r", "-z", "--name-only", ref, "--", folder).split("\0"):
        if path.endswith(suffix):
            yield path, _git("show", f"{ref}:{path}")


def current_files(folder: str, suffix: str) -> Iterator[tuple[str, str]]:
    """The same for the current checkout, committed or not."""
    for path in sorted((ROOT / folder).rglob(f"*{suffix}")):
        yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True)
    return done.stdout.decode("utf-8")
