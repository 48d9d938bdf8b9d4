"""Commands show names as they are, say what they do not know, and show foreign text without its effects."""

import io
import json
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from rich.table import Table
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.message import Message
from dragoman.cli.app import COMMANDS, app, load_command
from dragoman.cli.io.console import console, show_controls, write_foreign
from dragoman.formats import to_messages
from dragoman.formats.registry import FORMATS, get_format
from dragoman.session import Session
from dragoman.store import Store
from tests.cli.test_commands import command

CASSETTE = Path(__file__).resolve().parents[2] / "cassettes" / "llama-server" / "swap" / "three_wires.yaml"
HOSTILE = "\x1b]0;title\x07\x1b[2J\x9b31m\u202eright\x7f"
"""Sets a terminal's title, clears it, colours it and turns the order of its text."""

_LOADED = """
import json, sys
from dragoman.cli import main
try:
    main()
except SystemExit:
    print(json.dumps(sorted(sys.modules)))
"""


def run(*words: object) -> Result:
    return CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": "200", "NO_COLOR": "1"})


class TestHelp:
    def test_the_list_of_commands_imports_no_command(self) -> None:
        """The list of commands imports no command, neither the library's models nor an HTTP client or a database."""
        done = subprocess.run(
            [sys.executable, "-c", _LOADED, "--help"], capture_output=True, encoding="utf-8", timeout=120, check=True
        )
        modules = set(json.loads(done.stdout.splitlines()[-1]))
        assert not modules & {"pydantic", "httpx", "sqlalchemy", "yaml", "dragoman.session", "dragoman.pricing"}
        assert {name for name in modules if name.startswith("dragoman.cli.")} == {"dragoman.cli.app"}
        assert len([name for name in modules if name.startswith("dragoman")]) < 10

    def test_the_list_of_commands_says_what_each_command_says(self) -> None:
        """The summaries are copies."""
        listed = run("--help").output
        for name, summary in COMMANDS.items():
            assert name in listed
            own = " ".join((load_command(name).help or "").split())
            assert own.startswith(summary), name

    def test_an_unknown_command_is_refused_with_the_nearest_one(self) -> None:
        done = command("prcies")
        assert done.returncode == 2
        assert "prices" in done.stderr

    def test_the_version_is_printed(self) -> None:
        done = command("--version")
        assert (done.returncode, done.stdout) == (0, f"dragoman {version('dragoman')}\n")

    def test_convert_lists_what_can_be_written(self) -> None:
        """And what can be read, with the option to read."""
        output = " ".join(run("convert", "--help").output.replace("│", " ").split())
        written = output.partition("The format to write: ")[2].partition(", or a provider")[0].split(", ")
        assert set(written) == {name for name in FORMATS if get_format(name).write} | {"session", "umf-events"}
        with pytest.raises(ConfigurationError, match="but not written: there are messages"):
            raise run("convert", ".", "x", "--to", "codex").exception or AssertionError


class TestNames:
    def test_square_brackets_are_shown(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """They are part of a parametrized test's name, and no markup."""
        shutil.copy(CASSETTE, tmp_path / "w[one].yaml")
        monkeypatch.chdir(tmp_path)
        assert "w[one].yaml" in run("cassette", "list", ".").output
        assert "[bold]x" in run("models", "ollama:[bold]x").output

    def test_an_unknown_model_is_named_as_unknown(self) -> None:
        """Its capabilities are a guess."""
        assert "does not know the model 'claude-opus-9'" in run("models", "anthropic:claude-opus-9").output
        assert "does not know" not in run("models", "anthropic:claude-opus-5-5").output

    def test_a_price_needs_a_provider(self) -> None:
        """The error names those that have the model."""
        error = str(run("prices", "gpt-4o").exception)
        assert "provider:model" in error
        assert "openai:gpt-4o" in error
        assert "local:" not in error
        assert "no provider in the table" in str(run("prices", "nobody-knows-it").exception)

    @pytest.mark.parametrize("name", ["../../escaped", "/etc/escaped", "..\\escaped", ".."])
    def test_a_name_cannot_leave_the_folder(self, tmp_path: Path, name: str) -> None:
        """Names of sessions, conversations and price tables become file names."""
        work = tmp_path / "a" / "b"
        work.mkdir(parents=True)
        with Store(f"sqlite:///{tmp_path}/chats.db") as store:
            store.create("openai:o3", [Message.user("Hi")], title=name)
        before = set(tmp_path.rglob("*"))
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(work)
            assert run("view", tmp_path / "chats.db").exit_code == 0
        (page,) = set(tmp_path.rglob("*")) - before
        assert page.parent == work
        with pytest.raises(ConfigurationError, match="is not found"):
            raise run("prices", "check", "--version", name, "--kept", work).exception or AssertionError


class TestForeignText:
    def test_control_characters_are_shown(self) -> None:
        """Line ends and tabs stay."""
        assert show_controls("a\tb\nc\r\nd é 🎉") == "a\tb\nc\nd é 🎉"
        assert show_controls(HOSTILE) == "␛]0;title␇␛[2J\\u009b31m\\u202eright␡"
        assert show_controls("over\rwritten") == "over␍written"

    def test_the_console_shows_them_in_every_text(self) -> None:
        for renderable in (HOSTILE, _table(HOSTILE), f"[bold]{HOSTILE}[/]"):
            out = type(console())(file=io.StringIO(), force_terminal=True, width=100, color_system="truecolor")
            out.print(renderable)
            shown = out.file.getvalue()  # type: ignore[attr-defined]
            assert "right" in shown
            for sequence in ("\x1b]", "\x1b[2J", "\x9b", "\u202e", "\x07"):
                assert sequence not in shown

    def test_an_answer_is_exact_in_a_pipe_and_harmless_on_a_terminal(self) -> None:
        """A terminal obeys the text; a file does not."""
        pipe, terminal = io.StringIO(), _Terminal()
        for file in (pipe, terminal):
            write_foreign(file, HOSTILE)
        assert pipe.getvalue() == HOSTILE
        assert terminal.getvalue() == show_controls(HOSTILE)

    @pytest.mark.exhaustive
    def test_a_file_cannot_control_the_terminal(self, tmp_path: Path) -> None:
        """A file cannot control the terminal, neither by its name nor by its content, in a result or in an error."""
        title = HOSTILE.encode(sys.getfilesystemencoding(), "ignore").decode(sys.getfilesystemencoding())
        session = tmp_path / "session\x1b[2J.json"
        session.write_bytes(Session("openai:o3", messages=[Message.user("Hi")]).dump())
        done = command("view", str(session), "--title", title, "-o", str(tmp_path / "page\x1b[2J.html"))
        assert done.returncode == 0
        broken = command("view", str(tmp_path / "none\x1b[2J.json"))
        assert broken.returncode == 2
        for text in (done.stdout, broken.stderr):
            assert "\x1b" not in text


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _table(text: str) -> Table:
    table = Table("name")
    table.add_row(text)
    return table


class TestFiles:
    @pytest.mark.exhaustive
    @pytest.mark.parametrize(
        "words",
        [
            ("convert", "{}", "out", "--to", "cmf"),
            ("cassette", "list", "{}"),
            ("cassette", "show", "{}"),
            ("view", "{}"),
            ("cost", "{}"),
            ("cost", "{}", "--overlay", "{}"),
            ("chat", "local:smollm2-135m", "--load", "{}"),
        ],
    )
    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
    def test_an_endless_device_is_refused(self, words: tuple[str, ...], tmp_path: Path) -> None:
        """Before it is read; nothing is written."""
        done = subprocess.run(
            [sys.executable, "-c", "from dragoman.cli import main; main()", *(w.format("/dev/zero") for w in words)],
            capture_output=True, encoding="utf-8", timeout=120, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 2
        assert "error:" in done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_without_a_conversation_is_named(self, tmp_path: Path) -> None:
        """It is not a success without a loss."""
        with pytest.raises(ConfigurationError, match="no file that can be converted"):
            raise run("convert", tmp_path, tmp_path / "out", "--to", "cmf").exception or AssertionError

    @pytest.mark.exhaustive
    def test_a_file_that_cannot_be_written_is_one_line(self, tmp_path: Path) -> None:
        source = tmp_path / "messages.json"
        source.write_text(json.dumps(to_messages([Message.user("Hi")]).data))
        (tmp_path / "taken").write_text("a file")
        done = command("convert", str(source), str(tmp_path / "taken" / "out.json"), "--to", "cmf")
        assert done.returncode == 2
        assert "Traceback" not in done.stderr
        assert "error:" in done.stderr

    @pytest.mark.exhaustive
    def test_a_pipe_that_closes_early_ends_the_command_quietly(self) -> None:
        program = [sys.executable, "-c", "from dragoman.cli import main; main()", "models"]
        with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert "Traceback" not in process.stderr.read()

    @pytest.mark.exhaustive
    @pytest.mark.skipif(sys.getfilesystemencoding() != "utf-8", reason="no argument of this locale has the character")
    def test_a_terminal_without_utf8_shows_codes(self) -> None:
        done = command("models", "ollama:\N{SNOWMAN}", PYTHONIOENCODING="ascii")
        assert done.returncode == 0
        assert "ollama:\\u2603" in done.stdout
