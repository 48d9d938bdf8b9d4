"""Earlier commits of this repository."""

import io
import subprocess
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def unpack_commit(commit: str, folder: Path, *paths: str) -> None:
    """Write files and folders of a commit into a folder. Raises OSError without git, and CalledProcessError without the
    commit."""
    command = ["git", "archive", "--format=zip", commit, *paths]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        archive.extractall(folder)
