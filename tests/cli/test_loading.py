"""What the terminal shows while a model of this process is loaded."""

import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.terminal import load_local
from tests.unit.local.scripted_runtime import ScriptedRuntime

MODEL = "local:smollm2-135m"
LOADED = re.compile(r"loaded smollm2-135m in \d+\.\d s\n")

Screen = Callable[[], str]


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ScriptedRuntime:
    """A runtime that loads at once."""
    made = ScriptedRuntime()
    made.install(monkeypatch, tmp_path)
    return made


def screen(*, terminal: bool) -> tuple[Console, Screen]:
    """A console, and its output so far."""
    written = io.StringIO()
    out = Console(file=written, force_terminal=terminal, width=80, color_system=None, _environ={"TERM": "xterm"})
    return out, written.getvalue


@pytest.mark.usefixtures("runtime")
def test_a_file_gets_a_line_before_and_one_after() -> None:
    """And nothing more once the model is loaded."""
    out, shown = screen(terminal=False)
    load_local(out, MODEL)
    begun, rest = shown().split("\n", 1)
    assert begun == "loading smollm2-135m, which takes a few seconds"
    assert LOADED.fullmatch(rest)
    load_local(out, MODEL)
    assert shown() == f"{begun}\n{rest}"


@pytest.mark.usefixtures("runtime")
def test_a_terminal_gets_a_spinner_and_a_line_after() -> None:
    """The spinner is erased before the next line is written."""
    out, shown = screen(terminal=True)
    load_local(out, MODEL)
    spinner, erased, after = shown().rpartition("\x1b[2K")
    assert "loading smollm2-135m" in spinner
    assert erased
    assert LOADED.fullmatch(after)


def test_a_spinner_ends_if_the_model_cannot_be_loaded(
    runtime: ScriptedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is raised, and the cursor is shown again."""

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(runtime, "LLMPipeline", refuse)
    out, shown = screen(terminal=True)
    with pytest.raises(ConfigurationError, match="no memory"):
        load_local(out, MODEL)
    assert shown().endswith("\x1b[2K")
    assert shown().count("\x1b[?25l") == shown().count("\x1b[?25h") == 1
    assert "loaded" not in shown()


def test_a_remote_model_has_nothing_to_load(runtime: ScriptedRuntime) -> None:
    """It is reached over the network."""
    out, shown = screen(terminal=True)
    load_local(out, "anthropic:claude-opus-5-5")
    assert shown() == ""
    assert runtime.properties == []
