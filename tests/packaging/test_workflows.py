"""The workflows run only commands that a person can run too, on all versions of Python that pyproject.toml promises.
actionlint and zizmor check the rest.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging.wheel import PROJECT, ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = tuple(sorted(FOLDER.glob("*.yml")))
TOOLS = {"pytest", "zensical", "griffe"}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), yaml.BaseLoader)
    return found


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in read(path)["jobs"].values():
        yield from job.get("steps", ())


def test_all_workflows_are_there() -> None:
    """A renamed workflow would lose its permission to publish, and could not be called by another one."""
    assert [path.stem for path in WORKFLOWS] == [
        "api",
        "cassettes",
        "ci",
        "coverage",
        "docs",
        "prices",
        "propose",
        "release",
    ]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_step_is_a_command_of_this_repository(path: Path) -> None:
    """One line that calls a local script, module or tool: no logic that cannot be run by hand."""
    for command in (step["run"].strip() for step in steps(path) if "run" in step):
        assert "\n" not in command
        assert "${{" not in command
        for script in re.findall(r"(?:^|\s)((?:\.ci|cassettes)/[\w/.]+)", command):
            assert (ROOT / script).is_file(), script
        modules = re.findall(r"uv run python -m ([\w.]+)", command)
        assert all(_runs(name) for name in modules), modules
        assert set(re.findall(r"uv run (\w+)", command)) <= {*TOOLS, "python"}
        assert command.split()[0] in ("uv", "gh") or command.startswith((".ci/", "cassettes/")), command


def _runs(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return (place / "__main__.py").is_file() or place.with_suffix(".py").is_file()


def test_an_action_has_one_version() -> None:
    """Each is pinned to a whole hash, followed by its version, and to the same one everywhere."""
    pinned: dict[str, set[str]] = {}
    for line in (line for path in WORKFLOWS for line in path.read_text(encoding="utf-8").splitlines()):
        if found := re.search(r"uses: (?!\$/)(.*)", line):
            action = re.fullmatch(r"([\w-]+/[\w-]+)@([0-9a-f]{40} # v\d+\.\d+\.\d+)", found[1])
            assert action is not None, line
            pinned.setdefault(action[1], set()).add(action[2])
    assert "actions/checkout" in pinned
    assert {action: versions for action, versions in pinned.items() if len(versions) > 1} == {}


def test_every_promised_python_is_tried() -> None:
    """The matrix and the classifiers name the same versions, and the oldest is the required one."""
    matrix = read(FOLDER / "ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    classified = [line.rpartition(" ")[2] for line in PROJECT["project"]["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == classified
    assert PROJECT["project"]["requires-python"] == f">={classified[0]}"
    assert [system.partition("-")[0] for system in matrix["system"]] == ["ubuntu", "macos", "windows"]
