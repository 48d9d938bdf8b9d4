"""The generated files are what the script makes of the installed source, and name their origin."""

import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "pricing"
INDEX = tomllib.loads((FOLDER / "index.toml").read_text(encoding="utf-8"))


@pytest.mark.skipif(
    metadata.version("genai-prices") != INDEX["origin"]["release"],
    reason="another release of genai-prices is installed than the one that the files were made from",
)
def test_the_files_are_as_generated() -> None:
    """Nobody edited one by hand: the overlay is for that."""
    script = [sys.executable, str(FOLDER / "refresh.py"), "--check"]
    completed = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (completed.returncode, completed.stdout.strip(), completed.stderr) == (0, "", "")


def test_every_file_names_its_origin() -> None:
    """Generated files name release, hash and licence of their source; the others are written by hand."""
    by_hand = set()
    for path in FOLDER.glob("*.toml"):
        origin = tomllib.loads(path.read_text(encoding="utf-8")).get("origin")
        if origin is None:
            by_hand.add(path.stem)
        else:
            assert origin == INDEX["origin"]
            assert len(origin["sha256"]) == 64
    assert by_hand == {"local", "ollama", "overlay"}
    assert "MIT" in (FOLDER / "LICENSE.genai-prices").read_text(encoding="utf-8")
