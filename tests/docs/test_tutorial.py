"""The six pages of the tutorial build one program, which runs as each page shows it."""

import io
import re
import runpy
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.testing import ScriptedProvider, scripted_reply
from tests.docs.snippets import ROOT

FOLDER = ROOT / "docs" / "learn"
ORDER = ("first-answer", "tools", "store", "swap", "values", "tests")
LOCAL = "local:smollm2-135m"
READ = scripted_reply(calls={"read_note": {"name": "monday.txt"}})


def program(page: str) -> tuple[str, str]:
    """Return the name and the text of a page's program."""
    text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
    ((name, source),) = re.findall(r'^```python title="([\w.]+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL)
    return name, source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A reader's folder, with the note of the second page."""
    (tmp_path / "notes").mkdir()
    page = (FOLDER / "tools.md").read_text(encoding="utf-8")
    (found,) = re.findall(r'^echo "(.*)" > notes/monday\.txt$', page, re.MULTILINE)
    (tmp_path / "notes" / "monday.txt").write_text(f"{found}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(page: str, model: str, patch: pytest.MonkeyPatch, *lines: str) -> None:
    """Run a page's program in the working folder, with lines typed into it."""
    name, source = program(page)
    Path(name).write_text(source, encoding="utf-8")
    patch.setenv("MODEL", model)
    patch.setattr(sys, "argv", [name])
    patch.setattr(sys, "stdin", io.StringIO("\n".join([*lines, "", ""])))
    runpy.run_path(name, run_name="__main__")


def test_each_page_leads_to_the_next() -> None:
    for page, following in pairwise(ORDER):
        assert f"]({following}.md)" in (FOLDER / f"{page}.md").read_text(encoding="utf-8").split("\n\n")[-1]
    assert {path.stem for path in FOLDER.glob("*.md")} == set(ORDER)
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert re.findall(r"learn/([\w-]+)\.md", nav) == list(ORDER)


def test_the_program_grows_from_page_to_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An answer, tools, a store that the next page's program continues, a swap and typed answers."""
    with ScriptedProvider("They help you to remember.") as provider:
        run("first-answer", provider.model, monkeypatch)
    assert "They help you to remember." in capsys.readouterr().out
    with ScriptedProvider(READ, "A port goes live.") as provider:
        run("tools", provider.model, monkeypatch)
    assert "  read_note {'name': 'monday.txt'}\nA port goes live.\n" in capsys.readouterr().out
    with ScriptedProvider(READ, "A port goes live.") as provider:
        run("store", provider.model, monkeypatch, "What happens on Monday?")
    assert "messages so far: 1" in capsys.readouterr().out
    with ScriptedProvider() as first, ScriptedProvider("Ann has it.", name="other") as other:
        run("swap", first.model, monkeypatch, f"/swap {other.model}", "Who has the key?")
    printed = capsys.readouterr().out
    assert "messages so far: 5 with scripted:actor" in printed
    assert f"Ann has it.\n({other.model}, " in printed
    assert [message.text for message in other.requests[0].messages][-1] == "Who has the key?"
    with pytest.raises(SystemExit, match=r"stopped before monday\.txt"):
        run("values", "anthropic:claude-opus-5-5", _with_a_small_budget(monkeypatch))


def _with_a_small_budget(patch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A budget that no request fits into."""
    from dragoman import Budget

    patch.setattr("dragoman.Budget", lambda usd: Budget(usd="0.0000001"))
    patch.setenv("ANTHROPIC_API_KEY", "none")
    return patch


def test_the_tests_of_the_last_page_pass(folder: Path) -> None:
    """The tests of the last page pass in a process of their own, with the programs of the pages before."""
    for page in ("swap", "values", "tests"):
        name, source = program(page)
        (folder / name).write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "test_notes.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


@pytest.mark.exhaustive
@pytest.mark.live_local
@pytest.mark.parametrize("page", ["first-answer", "values"])
def test_a_page_runs_on_the_embedded_model(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page runs on the embedded model, as its reader runs it, without a key."""
    run(page, LOCAL, monkeypatch)
    assert "$0.000000" in capsys.readouterr().out
