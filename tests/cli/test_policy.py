"""`dragoman policy`: the sections that it writes are valid, and their tests pass."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dragoman import Client
from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.app import app
from dragoman.policy.plugins.presets import PRESETS

FREE = ("tool-confirmation", "url-allow-list", "untrusted-data")
"""The policies that need no extra."""


def run(*words: str) -> str:
    done = CliRunner().invoke(app, ["policy", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def failures(path: Path) -> dict[str, bool]:
    """Call the test functions of a file as pytest does; return whether each failed."""
    scope: dict[str, Any] = {"__file__": str(path), "__name__": "test_policy"}
    exec(compile(path.read_text(encoding="utf-8"), path, "exec"), scope)
    failed: dict[str, bool] = {}
    for name in scope:
        if name.startswith("test_"):
            with Client.from_config(path.parent / "dragoman.toml", store="sqlite://") as client:
                try:
                    scope[name](client.config.policy)
                except (Exception, pytest.fail.Exception):
                    failed[name] = True
                else:
                    failed[name] = False
    return failed


_LONG = {"secrets": pytest.mark.exhaustive}


@pytest.mark.parametrize("preset", [pytest.param(name, marks=_LONG.get(name, ())) for name in PRESETS])
def test_each_policy_passes_its_own_tests(folder: Path, preset: str) -> None:
    """In a file of its own, which the configuration accepts."""
    if preset not in FREE:
        pytest.importorskip("datafog", reason="the extra `redaction` is not installed")
        pytest.importorskip("kingfisher_sdk", reason="the extra `redaction` is not installed")
    assert preset in run("init", preset)
    assert [table["name"] for table in tomllib.loads((folder / "dragoman.toml").read_text())["plugins"]] == [preset]
    assert [*failures(folder / "test_policy.py").values()] == [False]


def test_all_policies_work_together_beside_other_settings(folder: Path) -> None:
    """The section is added at the end; comments say what each setting is."""
    pytest.importorskip("datafog", reason="the extra `redaction` is not installed")
    pytest.importorskip("kingfisher_sdk", reason="the extra `redaction` is not installed")
    (folder / "dragoman.toml").write_text("[options]\nmax_output_tokens = 5\n# the end", encoding="utf-8")
    assert ", ".join(PRESETS) in run("init")
    written = (folder / "dragoman.toml").read_text(encoding="utf-8")
    assert written.startswith("[options]\nmax_output_tokens = 5\n# the end\n\n# Personal data")
    assert [*failures(folder / "test_policy.py").values()] == [False] * len(PRESETS)


def test_a_test_of_a_policy_can_fail(folder: Path) -> None:
    """Without its section, each of them does."""
    run("init", *FREE)
    (folder / "dragoman.toml").write_text(
        "[[plugins]]\nname = 'tool-confirmation'\n[plugins.settings.tools]\nsend='none'\n"
    )
    assert [*failures(folder / "test_policy.py").values()] == [True] * len(FREE)


def test_nothing_is_overwritten(folder: Path) -> None:
    """Neither a section nor a file of tests; a name that does not exist has a hint."""
    run("init", "url-allow-list")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for words, message in (
        (("init", "url-allow-list", "--tests", "other.py"), "has the plugin url-allow-list already"),
        (("init", "untrusted-data"), r"test_policy\.py exists"),
        (("init", "untrusted"), "did you mean 'untrusted-data'"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            run(*words)
    (folder / "broken.toml").write_text("[")
    with pytest.raises(ConfigurationError, match="is not valid TOML"):
        run("init", "--file", "broken.toml", "--tests", "other.py")
    assert {path: path.read_bytes() for path in before} == before


def test_the_list_has_every_policy() -> None:
    assert all(f"{name}" in run("list") for name in PRESETS)
