"""Shell completion: commands, options and models, as a shell asks for them."""

import sys

import pytest

from dragoman.cli import main
from dragoman.cli.app import COMMANDS, GATEWAY_COMMANDS
from dragoman.cli.io.options import complete_model


def complete(line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return what bash gets for a line whose words are separated as bash separates them."""
    words = line.split(" ")
    monkeypatch.setattr(sys, "argv", ["dragoman"])
    monkeypatch.setenv("_DRAGOMAN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return capsys.readouterr().out.split()


def test_commands_options_and_models_are_completed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bash splits a model name at its colon, and gets what follows."""
    assert complete("dragoman ", monkeypatch, capsys) == [*COMMANDS, *GATEWAY_COMMANDS]
    assert complete("dragoman doc", monkeypatch, capsys) == ["doctor"]
    assert complete("dragoman ask --sche", monkeypatch, capsys) == ["--schema"]
    assert complete("dragoman keys re", monkeypatch, capsys) == ["remove"]
    assert complete("dragoman ask anthropic : claude-opus-5-", monkeypatch, capsys) == ["claude-opus-5-5"]
    assert "claude-opus-5-5" in complete("dragoman ask anthropic :", monkeypatch, capsys)
    assert complete("dragoman chat anthropic : no-such", monkeypatch, capsys) == []


def test_models_are_completed_after_their_provider() -> None:
    """Of one provider all models are completed, of several the providers."""
    assert complete_model("local") == ["local:smollm2-135m"]
    assert {"google:", "groq:"} <= set(complete_model("g"))
    assert complete_model("anthropic:claude-opus-5-5") == ["anthropic:claude-opus-5-5"]
    assert complete_model("nowhere:x") == complete_model("nowhere") == []
