"""The table of wordings, from which the other tests take their prompts."""

import re
from pathlib import Path

import pytest

from dragoman.local.prompt import find_pieces
from tests.unit.local.live.wording import VARIABLE, reword, reword_within, table

ROOT = Path(__file__).resolve().parents[4]


def test_each_prompt_has_equally_many_wordings_and_is_used() -> None:
    """An unused prompt is removed from the table."""
    assert {len(others) for others in table().values()} == {2}
    script = ROOT / "src" / "dragoman" / "cli" / "demo.py"
    users = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "docs").glob("*.md"), script]
    sources = "\n".join(path.read_text(encoding="utf-8") for path in users)
    assert [prompt for prompt in table() if f'"{prompt}"' not in sources] == []


@pytest.mark.parametrize("prompt", [prompt for prompt in table() if find_pieces("path", prompt)])
def test_paths_in_a_prompt_stay_in_its_wordings(prompt: str) -> None:
    assert [sorted(find_pieces("path", other)) for other in table()[prompt]] == [
        sorted(find_pieces("path", prompt))
    ] * 2


def test_the_environment_selects_the_wording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a prompt, and of the prompts within a snippet; a prompt outside the table is a mistake of the test."""
    first, second = table()["Say hello."]
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reword("Say hello.") == "Say hello."
    monkeypatch.setenv(VARIABLE, "2")
    assert reword("Say hello.") == second
    monkeypatch.setenv(VARIABLE, "1")
    assert reword_within('ask("Say hello.")\n') == f'ask("{first}")\n'
    with pytest.raises(KeyError):
        reword("Say nothing new.")
    with pytest.raises(ValueError, match=re.escape("wordings.toml")):
        reword_within('ask("Say nothing new.")')
