"""`.ci/proposal` and `.ci/propose`: one job makes a change, the other one pushes it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.upkeep.repository import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the jobs that call these scripts run on Linux")

GH = """#!/bin/sh
echo "$@" >>"$GH_LOG"
if [ "$2" = list ]; then echo "$GH_OPEN"; fi
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with the scripts, a file, and a remote to push to."""
    place = tmp_path / "checkout"
    (place / ".ci").mkdir(parents=True)
    for script in ("proposal", "propose"):
        (place / ".ci" / script).write_bytes((ROOT / ".ci" / script).read_bytes())
        (place / ".ci" / script).chmod(0o755)
    (place / "file").write_text("before\n", encoding="utf-8")
    (place / ".gitignore").write_text("/proposal/\n", encoding="utf-8")
    (tmp_path / "gh").write_text(GH, encoding="utf-8")
    (tmp_path / "gh").chmod(0o755)
    git(tmp_path, "init", "--quiet", "--bare", "origin")
    git(place, "init", "--quiet", "--initial-branch", "main")
    git(place, "remote", "add", "origin", str(tmp_path / "origin"))
    git(place, "add", "--all")
    git(place, "-c", "user.name=n", "-c", "user.email=e", "commit", "--quiet", "--message", "first")
    return place


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def run(place: Path, *command: str, open_ones: int = 0) -> str:
    """The script's log of calls to gh, or its outputs for the workflow."""
    log, outputs = place.parent / "log", place.parent / "outputs"
    environment = {
        **os.environ, "PATH": f"{place.parent}{os.pathsep}{os.environ['PATH']}", "GH_LOG": str(log),
        "GH_OPEN": str(open_ones), "GITHUB_OUTPUT": str(outputs), "GIT_CONFIG_GLOBAL": os.devnull,
    }  # fmt: skip
    log.write_text("", encoding="utf-8")
    outputs.write_text("", encoding="utf-8")
    subprocess.run([str(place / ".ci" / command[0]), *command[1:]], check=True, capture_output=True, env=environment)
    return outputs.read_text(encoding="utf-8") + log.read_text(encoding="utf-8")


def test_nothing_to_propose(checkout: Path) -> None:
    """The workflow reads that there is no change, and ends."""
    assert run(checkout, "proposal", "echo", "nothing") == "changed=false\n"


def test_a_change_goes_from_one_job_to_the_other(checkout: Path) -> None:
    """Changed, new and removed files arrive on the branch, under the title; the text is the command's output."""
    (checkout / "file").write_text("after\n", encoding="utf-8")
    (checkout / "new").write_bytes(b"\0\1")
    assert run(checkout, "proposal", "echo", "what changed") == "changed=true\n"
    assert (checkout / "proposal" / "body.md").read_text(encoding="utf-8") == "what changed\n"
    git(checkout, "reset", "--quiet", "--hard")  # the other job checks out again

    calls = run(checkout, "propose", "renew/file", "A title")
    origin = checkout.parent / "origin"
    assert git(origin, "log", "--format=%s", "renew/file").splitlines() == ["A title", "first"]
    assert git(origin, "show", "renew/file:file") == "after\n"
    assert git(origin, "ls-tree", "--name-only", "renew/file").split() == [".ci", ".gitignore", "file", "new"]
    assert "pr create --head renew/file --title A title --body-file proposal/body.md" in calls


def test_an_open_pull_request_is_updated(checkout: Path) -> None:
    """The branch is replaced, and no second request is opened."""
    for text in ("one\n", "two\n"):
        (checkout / "file").write_text(text, encoding="utf-8")
        run(checkout, "proposal", "echo", text)
        git(checkout, "reset", "--quiet", "--hard", "main")
        calls = run(checkout, "propose", "renew/file", "A title", open_ones=1)
        git(checkout, "switch", "--quiet", "main")
    assert "pr edit renew/file" in calls
    assert "pr create" not in calls
    origin = checkout.parent / "origin"
    assert git(origin, "show", "renew/file:file") == "two\n"
    assert len(git(origin, "log", "--format=%s", "renew/file").splitlines()) == 2


def test_a_long_text_is_cut_with_a_remark(checkout: Path) -> None:
    """A pull request takes 65,536 characters."""
    run(checkout, "proposal", sys.executable, "-c", "print('x' * 70_000)")
    text = (checkout / "proposal" / "body.md").read_text(encoding="utf-8")
    assert len(text) < 65_536
    assert "The rest is cut off here" in text
