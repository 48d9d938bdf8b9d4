"""`dragoman ask`: what it reads, what it sends, and what it writes to stdout and to stderr."""

import base64
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.app import app
from dragoman.cli.io import inputs
from dragoman.store import Store
from tests.cli.conftest import ScriptedProvider
from tests.cli.test_commands import command
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

MODEL = "anthropic:claude-opus-5-5"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


def ask(*words: object, piped: str | bytes = "") -> Result:
    return CliRunner().invoke(app, ["ask", *map(str, words)], input=piped)


def fail(*words: object, piped: str | bytes = "") -> str:
    """Return the error of a question that is refused before anything is sent."""
    done = ask(*words, piped=piped)
    assert isinstance(done.exception, ConfigurationError), done.exception
    assert done.stdout == ""
    return str(done.exception)


def sent_texts(provider: ScriptedProvider) -> list[str]:
    """Return the texts of the last request, from oldest to newest."""
    content = [message["content"] for message in provider.bodies[-1]["messages"]]
    blocks = [block for each in content for block in ([{"text": each}] if isinstance(each, str) else each)]
    return [block["text"] for block in blocks if "text" in block]


class TestPrompt:
    def test_piped_text_goes_in_front_of_the_words(self, provider: ScriptedProvider) -> None:
        """Either of them is enough, and `-` is the pipe."""
        for words, piped, expected in (
            (["Sum it up."], "one\ntwo\n", "one\ntwo\n\nSum it up."),
            ([], "\ufeffone\n", "one"),
            (["-"], "one\n", "one"),
            (["Sum it up."], "", "Sum it up."),
            (["Sum it up."], " \n", "Sum it up."),
        ):
            provider.replies = [handwritten_anthropic("Good day.")]
            done = ask(MODEL, *words, piped=piped)
            assert (done.exit_code, done.stdout) == (0, "Good day.\n")
            assert sent_texts(provider) == [expected]

    def test_files_are_attached_by_their_content(self, provider: ScriptedProvider, tmp_path: Path) -> None:
        """A text, an image and a PDF file, whatever their names are; `-` is the pipe."""
        (tmp_path / "notes").write_text("Rain in März.", encoding="utf-8")
        (tmp_path / "scan.txt").write_bytes(PNG)
        (tmp_path / "paper").write_bytes(b"%PDF-1.7 ...")
        provider.replies = [handwritten_anthropic("Good day.")]
        done = ask(MODEL, "Look.", "-a", tmp_path / "notes", "-a", tmp_path / "scan.txt", "-a", tmp_path / "paper")
        assert done.exit_code == 0, done.exception
        text, image, paper, words = provider.bodies[-1]["messages"][0]["content"]
        assert (text["source"]["data"], text["title"]) == ("Rain in März.", "notes")
        assert image["source"] == {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG).decode()}
        assert paper["source"]["media_type"] == "application/pdf"
        assert words["text"] == "Look."
        provider.replies = [handwritten_anthropic("Good day.")]
        assert ask(MODEL, "Look.", "-a", "-", piped=PNG).exit_code == 0
        image, words = provider.bodies[-1]["messages"][0]["content"]
        assert (image["type"], words["text"]) == ("image", "Look.")

    def test_input_that_cannot_be_sent_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider: ScriptedProvider
    ) -> None:
        """Nothing is sent, and nothing is kept."""
        monkeypatch.setattr(inputs, "MAX_BYTES", 1000)
        (tmp_path / "empty").write_bytes(b"")
        (tmp_path / "latin").write_bytes("März".encode("latin-1"))
        (tmp_path / "large").write_bytes(b"x" * 1001)
        for words, piped, message in (
            ((), "", "the prompt is empty"),
            (("  ",), " \n", "the prompt is empty"),
            ((), b"\xff\xfe", "not text in UTF-8"),
            (("Hi",), "x" * 1001, "standard input is larger than 1,000 bytes"),
            (("Hi", "-a", tmp_path), "", "is a folder"),
            (("Hi", "-a", tmp_path / "none"), "", "there is no file"),
            (("Hi", "-a", tmp_path / "empty"), "", "is empty"),
            (("Hi", "-a", tmp_path / "latin"), "", "neither text in UTF-8 nor an image"),
            (("Hi", "-a", tmp_path / "large"), "", "larger than 1,000 bytes"),
            (("Hi", "-a", "-"), "", "is empty"),
        ):
            assert message in fail(MODEL, *words, piped=piped)
        assert provider.bodies == []

    @pytest.mark.exhaustive
    @pytest.mark.skipif(not Path("/dev/zero").exists(), reason="this system has no such device")
    def test_endless_input_ends(self) -> None:
        """Endless input ends, whether it is an attachment, a schema or the standard input."""
        for words in (("-a", "/dev/zero"), ("--schema", "/dev/zero")):
            assert "is a device" in fail(MODEL, "Hi", *words)
        with open("/dev/zero", "rb") as endless:  # noqa: PTH123 - a device
            done = subprocess.run(
                [sys.executable, "-c", "from dragoman.cli import main; main()", "ask", MODEL],
                stdin=endless, capture_output=True, encoding="utf-8", timeout=120, check=False,
            )  # fmt: skip
        assert done.returncode == 2
        assert "standard input is larger than" in done.stderr

    def test_a_program_without_a_standard_input_asks(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        assert inputs.read_prompt("Hi", ())[0].model_dump()["text"] == "Hi"


class TestOptions:
    def test_options_reach_the_request(self, provider: ScriptedProvider) -> None:
        """Options reach the request by their names in AdapterOptions, with values as JSON or as plain text."""
        provider.replies = [handwritten_anthropic("Good day.")]
        words = ["temperature=0.5", "max_output_tokens=7", "stop_sequences=END", "tool_choice=none", "top_p=null"]
        words.append('extra={"anthropic": {"service_tier": "auto"}}')
        done = ask("anthropic:claude-haiku-4-5", "Hi", *(part for word in words for part in ("-o", word)))
        assert done.exit_code == 0, done.exception
        body = provider.bodies[-1]
        assert (body["temperature"], body["max_tokens"], body["stop_sequences"]) == (0.5, 7, ["END"])
        assert body["service_tier"] == "auto"
        assert "top_p" not in body

    def test_wrong_options_are_refused(self) -> None:
        """With the nearest name, or what is wrong with the value."""
        assert "not of the form NAME=VALUE" in fail(MODEL, "Hi", "-o", "temperature")
        assert "did you mean 'temperature'" in fail(MODEL, "Hi", "-o", "temprature=1")
        assert "temperature='hot'" in fail(MODEL, "Hi", "-o", "temperature=hot")
        assert "prompt_cache='2m'" in fail(MODEL, "Hi", "-o", "prompt_cache=2m")
        assert "top_p='[[" in fail(MODEL, "Hi", "-o", "top_p=" + "[" * 100_000)
        assert "temperature='NaN'" in fail(MODEL, "Hi", "-o", "temperature=NaN")
        assert "unknown option 'stream'" in fail(MODEL, "Hi", "-o", "stream=true")

    def test_a_schema_is_sent_and_the_answer_written_whole(self, provider: ScriptedProvider, tmp_path: Path) -> None:
        """The answer of a schema is for a program."""
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
        provider.replies = [handwritten_anthropic('{"city": "Paris"}')]
        done = ask(MODEL, "Where?", "--schema", tmp_path / "schema.json")
        assert json.loads(done.stdout) == {"city": "Paris"}
        assert '"city"' in json.dumps(provider.bodies[-1])

    def test_an_answer_that_breaks_the_schema_is_asked_again(self, provider: ScriptedProvider, tmp_path: Path) -> None:
        """As often as --output-retries says, which needs a schema."""
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        (tmp_path / "schema.json").write_text(json.dumps(schema), encoding="utf-8")
        words = (MODEL, "Where?", "--schema", tmp_path / "schema.json")
        provider.replies = [handwritten_anthropic("Paris"), handwritten_anthropic('{"city": "Paris"}')]
        assert json.loads(ask(*words).stdout) == {"city": "Paris"}
        provider.replies = [handwritten_anthropic("Paris")]
        assert "the answer does not have the requested type" in str(ask(*words, "--output-retries", 0).exception)
        assert "--output-retries needs --schema" in fail(MODEL, "Where?", "--output-retries", 0)

    def test_a_wrong_schema_is_refused(self, tmp_path: Path) -> None:
        """A folder, no file, no JSON, no object, no schema, and one that needs other documents, which stay unread."""
        assert "is a folder" in fail(MODEL, "Hi", "--schema", tmp_path)
        assert "there is no file" in fail(MODEL, "Hi", "--schema", tmp_path / "none")
        elsewhere = ('{"$schema": "http://127.0.0.1:9/x"}', '{"$schema": "urn:x"}', '{"$ref": "http://127.0.0.1:9/x"}')
        for content in ("", "{", "[]", "[" * 100_000, '{"type": "nonsense"}', "\x00", *elsewhere):
            (tmp_path / "schema.json").write_text(content, encoding="utf-8")
            assert "is not a JSON Schema" in fail(MODEL, "Hi", "--schema", tmp_path / "schema.json")

    def test_a_function_of_the_working_folder_is_a_tool(
        self, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """stdout has the answer alone; the call and its result are notes."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        (tmp_path / "adding_tools.py").write_text(
            'def add(a: int, b: int) -> int:\n    """Adds."""\n    print("adding")\n    return a + b\n',
            encoding="utf-8",
        )
        provider.replies = [
            handwritten_anthropic(Call("toolu_1", "add", {"a": 1, "b": 2})),
            handwritten_anthropic("It is 3."),
        ]
        done = ask(MODEL, "1 + 2?", "--tool", "adding_tools:add")
        assert (done.exit_code, done.stdout) == (0, "It is 3.\n"), done.exception
        assert "add" in done.stderr
        assert "← add 3" in done.stderr
        assert "adding" in done.stderr
        assert "did you mean 'add'" in fail(MODEL, "Hi", "--tool", "adding_tools:addd")

    def test_a_tool_that_cannot_be_imported_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """In one line, whatever the module raises."""
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "path", list(sys.path))
        (tmp_path / "leaving_tools.py").write_text("raise SystemExit(7)", encoding="utf-8")
        assert "not of the form MODULE:function" in fail(MODEL, "Hi", "--tool", "json")
        assert "ModuleNotFoundError" in fail(MODEL, "Hi", "--tool", "no_such_module:add")
        assert "SystemExit" in fail(MODEL, "Hi", "--tool", "leaving_tools:add")


class TestOutput:
    def test_the_whole_answer_at_once(self, provider: ScriptedProvider) -> None:
        """Without a stream the request asks for none, and stdout is the same."""
        provider.replies = [handwritten_anthropic("Good day.")]
        done = ask(MODEL, "Hi", "--no-stream")
        assert done.stdout == "Good day.\n"
        assert not provider.bodies[-1].get("stream")
        assert "12 in, 5 out" in done.stderr
        provider.replies = [handwritten_anthropic("Good day.")]
        assert ask(MODEL, "Hi", "-q").stderr == ""

    def test_json_has_the_answer_with_its_cost_and_losses(self, provider: ScriptedProvider) -> None:
        provider.replies = [handwritten_anthropic("Gr\u00fc\u00df dich \u202e\x1b[2J.")]
        done = ask(MODEL, "Hi", "--json", "-o", "seed=1")
        found = json.loads(done.stdout)
        assert found["text"] == "Gr\u00fc\u00df dich \u202e\x1b[2J."
        assert done.stdout.isascii()
        assert (found["model"], found["stop_reason"]) == ("anthropic:claude-opus-5-5", "end_turn")
        assert (found["input_tokens"], found["output_tokens"], found["cost_status"]) == (12, 5, "priced")
        assert [loss["kind"] for loss in found["losses"]] == ["option"]
        assert found["session_id"].startswith("sess_")

    def test_losses_and_cut_answers_are_noted(self, provider: ScriptedProvider) -> None:
        """They are warnings, which --quiet does not hide."""
        provider.replies = [handwritten_anthropic("Good", stop="max_tokens")]
        done = ask(MODEL, "Hi", "-q", "-o", "seed=1")
        assert done.stdout == "Good\n"
        assert "lost: " in done.stderr
        assert "the answer is cut off: it reached the limit of tokens" in done.stderr


class TestContinue:
    def test_the_last_conversation_is_continued(self, provider: ScriptedProvider) -> None:
        """With its history, on its model or on another one; sessions of programs are not touched."""
        provider.replies = [handwritten_anthropic(text) for text in ("One.", "Two.", "Three.")]
        assert "there is no conversation to continue" in fail("-c", "Hi")
        assert ask(MODEL, "First?\nmore", "-s", "Be brief.").stdout == "One.\n"
        with Store() as store:
            store.create("openai:o3")
        done = ask("-c", "Second?")
        assert done.stdout == "Two.\n"
        assert "continues a conversation of 3 messages with anthropic:claude-opus-5-5" in done.stderr
        assert ask("-c", "anthropic:claude-haiku-4-5", "Third?").stdout == "Three.\n"
        assert sent_texts(provider) == ["First?\nmore", "One.", "Second?", "Two.", "Third?"]
        assert provider.bodies[-1]["model"] == "claude-haiku-4-5"
        assert "a system prompt starts a conversation" in fail("-c", "Hi", "-s", "Be brief.")
        with Store(read_only=True) as store:
            titles = {record.title: record.metadata for record in store.list().sessions}
        assert titles == {"First?": {"command": "ask"}, None: {}}

    def test_a_question_that_failed_is_no_conversation(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The one before it is continued."""
        provider.replies = [handwritten_anthropic("One."), handwritten_anthropic("Two.")]
        assert ask(MODEL, "First?").exit_code == 0
        monkeypatch.delenv("OPENAI_API_KEY", raising=False)
        assert "no API key" in fail("openai:gpt-6.1-sol", "Second?")
        assert ask("-c", "Third?").exit_code == 0
        assert len(provider.bodies[-1]["messages"]) == 3

    def test_the_configuration_turns_the_log_off(
        self, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_folder: Path
    ) -> None:
        """Nothing is written, and there is nothing to continue."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dragoman.toml").write_text(f'log = false\ndefault_model = "{MODEL}"\nstore = "sqlite:///x.db"\n')
        provider.replies = [handwritten_anthropic("One.")]
        assert ask("First?").stdout == "One.\n"
        assert "log = false" in fail("-c", "Hi")
        assert list(user_folder.rglob("*.db")) == []
        assert [path.name for path in tmp_path.iterdir()] == ["dragoman.toml"]

    def test_a_project_keeps_its_own_conversations(
        self, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user_folder: Path
    ) -> None:
        """A project keeps its own conversations in the store of its configuration, with its default model."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dragoman.toml").write_text(f'default_model = "{MODEL}"\nstore = "sqlite:///chats.db"\n')
        provider.replies = [handwritten_anthropic(text) for text in ("One.", "Two.")]
        assert ask("First: what?").stdout == "One.\n"
        assert ask("-c", "Second?").stdout == "Two.\n"
        assert sent_texts(provider) == ["First: what?", "One.", "Second?"]
        assert (tmp_path / "chats.db").exists()
        assert list(user_folder.rglob("*.db")) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="the data folder of Linux")
    def test_an_answer_is_not_lost_if_it_cannot_be_kept(self, provider: ScriptedProvider, user_folder: Path) -> None:
        """It is written, and a warning says why it is not kept."""
        (user_folder / "dragoman").write_text("a file in place of the folder")
        provider.replies = [handwritten_anthropic("One.")]
        done = ask(MODEL, "First?")
        assert (done.exit_code, done.stdout) == (0, "One.\n")
        assert "the conversation is not kept: the data folder" in done.stderr
        assert "log = false" in done.stderr

    def test_a_model_has_to_be_named(self) -> None:
        assert "name a model, such as" in fail()


class TestProcess:
    @pytest.mark.exhaustive
    def test_a_reader_that_leaves_early_ends_the_command_quietly(self, provider: ScriptedProvider) -> None:
        """A reader that leaves early ends the command quietly, as in `dragoman ask ... | head -1`: exit code 1, and no
        traceback.
        """
        provider.replies = [handwritten_anthropic("word " * 100_000)]
        program = [sys.executable, "-c", "from dragoman.cli import main; main()", "ask", MODEL, "Hi"]
        with subprocess.Popen(
            program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            shown = process.stderr.read()
        assert process.returncode == 1
        assert "Traceback" not in shown
        assert "Exception ignored" not in shown

    @pytest.mark.exhaustive
    def test_a_terminal_without_utf8_gets_codes(self, provider: ScriptedProvider) -> None:
        provider.replies = [handwritten_anthropic("\N{SNOWMAN}")]
        key = {"ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "a-key-for-tests"}
        done = command("ask", MODEL, "Hi", PYTHONIOENCODING="ascii", **key)
        assert (done.returncode, done.stdout) == (0, "\\u2603\n")

    @pytest.mark.exhaustive
    @pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
    def test_ctrl_c_is_130(self, provider: ScriptedProvider) -> None:
        """While it waits for the text of a pipe."""
        import signal

        program = [sys.executable, "-u", "-c", _INTERRUPTED, "ask", MODEL]
        # A program in the background of a shell ignores the signal, and its children inherit that.
        accept = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        with subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=accept
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"reading\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 130
            assert process.stderr is not None
            assert b"Traceback" not in process.stderr.read()


_INTERRUPTED = """
import sys
from dragoman.cli import main
from dragoman.cli.io import inputs
read = inputs.read_standard_input
inputs.read_standard_input = lambda: print("reading") or read()
main()
"""
