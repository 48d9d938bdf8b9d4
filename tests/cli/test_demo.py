"""`dragoman demo`, `ask` and `chat` with a model in this process: live, and with anything that such a model may
write.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import MissingExtraError
from dragoman.cli import demo
from dragoman.cli.app import app
from dragoman.local import model
from tests.unit.local.live.wording import reword
from tests.unit.local.scripted_runtime import ScriptedRuntime, Written

MODEL = "local:smollm2-135m"
LOADING = "loading smollm2-135m, which takes a few seconds\n"
LOADED = re.compile(r"loaded smollm2-135m in \d+\.\d s\n")
CALL = '<tool_call>{"name": "add", "arguments": {"a": 8080, "b": 1}}</tool_call>'

Script = Callable[..., ScriptedRuntime]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """Makes a runtime that writes these texts, one after the other."""

    def install(*written: str | Written) -> ScriptedRuntime:
        runtime = ScriptedRuntime(*written)
        runtime.install(monkeypatch, tmp_path)
        return runtime

    return install


def run(*words: str, typed: str | None = None) -> Result:
    done = CliRunner().invoke(app, [*words], input=typed)
    assert done.exit_code == 0, done.output
    return done


def check_replayed(shown: str) -> None:
    """Check what is the same in every run: three recorded replies, each swap with its preview, and the bill."""
    assert shown.count("swap to ") == 3
    assert "← read_file port = 8080" in shown
    assert "← add 42" in shown
    assert "Monday" in shown  # the file says so, and the recorded model repeats it
    assert "cost there" in shown
    assert "anthropic:claude-opus-5-5" in shown


@pytest.mark.live_local
@pytest.mark.exhaustive  # by default a scripted model speaks: the next tests
def test_the_demo_runs_to_its_end_without_key_or_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the live model answers: it gets both tools, so a call or words may come."""
    monkeypatch.setattr(demo, "LOCAL_PROMPT", reword(demo.LOCAL_PROMPT))
    shown = run("demo").stdout
    check_replayed(shown)
    assert "the embedded model, live" in shown
    assert "left out" not in shown


def test_the_demo_reports_how_long_the_model_took_to_load(scripted: Script) -> None:
    """Before the first request, so that the wait is explained."""
    runtime = scripted(CALL, "It is 8081.")
    shown = run("demo").stdout
    check_replayed(shown)
    before, loading, after = shown.partition(LOADING)
    assert loading
    assert LOADED.match(after)
    assert "the embedded model, live" not in before
    assert "→ add" in after
    assert "← add 8081" in after
    assert "It is 8081." in after
    assert "8080" in runtime.prompts[0]


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(("", ""), id="nothing"),
        pytest.param((CALL, ""), id="a call and then nothing"),
        pytest.param((('<tool_call>{"name": "add", "arguments": {"a": 80', True), "No."), id="a call that was cut"),
        pytest.param((CALL, (" ".join(["word"] * 128), True)), id="words without end"),
    ],
)
def test_the_demo_accepts_whatever_the_model_writes(scripted: Script, written: tuple[str | Written, ...]) -> None:
    """It ends with the bill."""
    scripted(*written)
    check_replayed(run("demo").stdout)


def test_the_demo_leaves_the_model_out_if_it_is_not_installed(
    scripted: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end it says how to install it."""

    def missing(name: str) -> Path:
        raise MissingExtraError(f"the file of {name} is not installed")

    scripted()
    monkeypatch.setattr(model, "model_file", missing)
    shown = run("demo").stdout
    check_replayed(shown)
    assert "The live part was left out: the file of smollm2-135m is not installed" in shown
    assert "loaded" not in shown


def test_ask_keeps_the_loading_out_of_the_answer(scripted: Script) -> None:
    """It goes to stderr, like tokens and cost; with --quiet, nowhere."""
    scripted("Hello.")
    done = run("ask", MODEL, "Hi")
    assert done.stdout == "Hello.\n"
    assert done.stderr.startswith(LOADING)
    assert LOADED.match(done.stderr.removeprefix(LOADING))
    scripted("Hello.")
    quiet = run("ask", MODEL, "Hi", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("Hello.\n", "")


def test_a_chat_loads_the_model_once_and_when_it_is_needed(scripted: Script) -> None:
    """A chat loads the model once and when it is needed at the first prompt for it, not before."""
    scripted("Hello.", "Goodbye.")
    shown = run("chat", MODEL, typed="/cost\nHi\nBye\n/quit\n").stdout
    assert shown.index("nothing asked yet") < shown.index(LOADING) < shown.index("Hello.") < shown.index("Goodbye.")
    assert shown.count(LOADING) == len(LOADED.findall(shown)) == 1
