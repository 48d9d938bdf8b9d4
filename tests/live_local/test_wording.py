"""The table of wordings, which the other tests take their prompts from."""

import re
from pathlib import Path

import pytest

from dragoman.transport.local.tool_selection import find_pieces
from tests.live_local.wording import VARIABLE, reword, reword_within, table

ROOT = Path(__file__).resolve().parents[2]


def test_each_prompt_has_as_many_wordings_and_is_in_use() -> None:
    """A prompt that nobody asks any more is taken out of the table."""
    assert {len(others) for others in table().values()} == {2}
    script = ROOT / "src" / "dragoman" / "cli" / "demo_script.py"
    users = [*(ROOT / "tests").rglob("test_*.py"), *(ROOT / "docs").glob("*.md"), script]
    asked = "\n".join(path.read_text(encoding="utf-8") for path in users)
    assert [prompt for prompt in table() if f'"{prompt}"' not in asked] == []


@pytest.mark.parametrize("prompt", [prompt for prompt in table() if find_pieces("path", prompt)])
def test_what_a_tool_is_called_with_stays(prompt: str) -> None:
    """The paths of a prompt are those of its other wordings."""
    assert [sorted(find_pieces("path", other)) for other in table()[prompt]] == [
        sorted(find_pieces("path", prompt))
    ] * 2


def test_the_environment_picks_the_wording(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a prompt, and of the prompts within a snippet; what is not in the table is a mistake of the test."""
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
