"""`dragoman config`: what it shows, what it finds, and what a project may do before it is trusted."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from tests.cli.test_commands import command

run = CliRunner().invoke


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a configuration, and a user's folder of its own."""
    folder, user = tmp_path / "project", tmp_path / "user"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("DRAGOMAN_CONFIG", raising=False)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.setenv(name, str(user))
    (folder / "dragoman.toml").write_text(
        '[providers.anthropic]\nbase_url = "http://127.0.0.1:9"\nproxy = "http://me:hunter2@127.0.0.1:9"\n',
        encoding="utf-8",
    )
    return folder


def test_show_names_each_setting_and_masks_secrets(project: Path) -> None:
    """With the file, its origin, whether it is trusted, and the lines."""
    shown = run(app, ["config", "show"], catch_exceptions=False).output
    assert "of this project, not trusted: dragoman config trust" in shown
    assert "providers.anthropic.base_url = 'http://127.0.0.1:9' line 2" in shown
    assert "hunter2" not in shown


@pytest.mark.exhaustive
def test_a_project_is_trusted_until_it_changes(project: Path) -> None:
    """Before that, and after a change, no command uses its addresses."""
    home = str(project.parent / "user")
    environ = {"HOME": home, "XDG_CONFIG_HOME": home, "ANTHROPIC_API_KEY": "sk-canary"}

    def ask() -> str:
        arguments = ("ask", "anthropic:claude-haiku-4-5", "Hi")
        return command(*arguments, **environ).stderr

    assert "dragoman config trust" in ask()
    assert command("config", "trust", "dragoman.toml", **environ).returncode == 0
    assert "127.0.0.1:9" in ask()
    with (project / "dragoman.toml").open("a", encoding="utf-8") as file:
        file.write("timeout = 5\n")
    assert "dragoman config trust" in ask()


def test_check_lists_every_mistake(project: Path) -> None:
    """The exit code is 2, and nothing is changed."""
    (project / "dragoman.toml").write_text("[options]\nmax_tokens = 1\nnothing = 2\n", encoding="utf-8")
    done = command("config", "check", COLUMNS="400")
    assert done.returncode == 2
    assert "dragoman.toml:2: options.max_tokens: an unknown option" in done.stderr
    assert "dragoman.toml:3: options.nothing: an unknown option" in done.stderr
    (project / "dragoman.toml").unlink()
    assert "there is no configuration" in command("config", "check").stderr
    assert not list((project.parent).glob("**/trusted.json"))
