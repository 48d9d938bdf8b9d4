"""The transcripts of docs/cli.md are what a first day shows, whatever the embedded model answers."""

import os
from pathlib import Path

import pytest

from tests.cli.conftest import USER_FOLDERS
from tests.docs.snippets import ROOT
from tests.docs.transcripts import Command, Shell, matches, transcripts
from tests.unit.local.live.wording import reword_within, table

PAGE = ROOT / "docs" / "cli.md"


@pytest.mark.exhaustive
@pytest.mark.live_local
@pytest.mark.skipif(os.name != "posix", reason="the page is for a shell of POSIX")
def test_the_first_day_goes_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first day goes as the page shows: one command after the other, by a user without files and keys."""
    for name in USER_FOLDERS:
        monkeypatch.setenv(name, str(tmp_path / "user"))
    monkeypatch.setattr("platformdirs.user_config_path", lambda name, *_, **__: tmp_path / "config" / name)
    for name in ("ANTHROPIC_API_KEY", "DRAGOMAN_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    shell = Shell(monkeypatch)
    commands = list(transcripts(PAGE))
    assert len(commands) > 10
    for command in commands:
        is_prompt = any(f'"{prompt}"' in command.line for prompt in table())
        output = shell.run(reword_within(command.line) if is_prompt else command.line)
        assert matches(command, output), f"$ {command.line}\n{output}"


def test_dots_stand_for_any_text() -> None:
    command = Command("x", "a ... c\n...\nend\n")
    assert matches(command, "a b c\nend\n")
    assert matches(command, "a b c\n1\n2\nend\n")
    assert not matches(command, "a b c\nend\nmore\n")
    assert not matches(command, "a b\nend\n")
