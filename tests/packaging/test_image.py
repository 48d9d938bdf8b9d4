"""The gateway's image installs every package by its hash."""

import subprocess
import sys

import pytest

from tests.packaging.image import DEPLOY, SOURCES, required
from tests.packaging.wheel import ROOT

pytest.importorskip("hatchling", reason="the lint group is not installed")
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SOURCES)
def test_the_list_has_every_package_of_the_image(name: str) -> None:
    """`python -m tests.packaging.image` writes it again. pip refuses what is missing, because it would have no hash."""
    listed = (DEPLOY / name).read_text(encoding="utf-8").split()
    assert listed == sorted(required(SOURCES[name]))


@pytest.mark.skipif(sys.platform == "win32", reason="the image is built on Linux")
@pytest.mark.parametrize("name", SOURCES)
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    """The script that the image runs prints the pin of each."""
    listed = (DEPLOY / name).read_text(encoding="utf-8").split()
    printed = subprocess.run([ROOT / ".ci" / "pins", *listed], capture_output=True, text=True, check=True).stdout
    blocks = printed.replace("\\\n", " ").splitlines()
    assert [block.partition("==")[0] for block in blocks] == listed
    assert all("--hash=sha256:" in block for block in blocks)


def test_nothing_is_downloaded_without_a_hash() -> None:
    """Each installation needs hashes, or takes our own wheels without an index; the base image has a digest."""
    installs = [line for line in DOCKERFILE.replace("\\\n", " ").split("&&") if "pip install" in line]
    assert len(installs) == 3
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)
    assert "@sha256:" in DOCKERFILE
