"""`dragoman chat`: its commands, and what it shares with `ask`."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.cli.app import app
from dragoman.cli.io import inputs
from dragoman.open_turns import FailedAttempt, OpenTurn, TurnStep
from dragoman.store import Store
from dragoman.testing.faults.server import FaultyServer, json_reply, sse_reply
from tests.cli.conftest import ScriptedProvider
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic

MODEL = "anthropic:claude-opus-5-5"


def chat(*words: object, typed: str) -> Result:
    return CliRunner().invoke(app, ["chat", *map(str, words)], input=typed)


def test_a_chat_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The summary is shown with its cost; a preview shows sizes; with nothing to compact it says so."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    replies = [
        sse_reply(*handwritten_anthropic("Good day.").frames),
        json_reply(json.loads(handwritten_anthropic("They greeted.").body)),
    ]
    typed = "/compact\nHi\n/compact keep the names\n/preview ollama:qwen3\n/help\n/quit\n"
    with FaultyServer(replies) as server:
        done = chat("anthropic:claude-sonnet-4-6", "--base-url", server.url, typed=typed)
    assert done.exit_code == 0, done.output
    assert "nothing to compact" in done.output
    assert "They greeted." in done.output
    assert "12 in, 5 out" in done.output
    assert "next turn: free" in done.output
    assert "/compact" in done.output


def test_the_model_is_swapped_by_either_name(provider: ScriptedProvider) -> None:
    """`/swap` and `/model` are one command."""
    provider.replies = [handwritten_anthropic("Good day.")] * 2
    typed = "/swap anthropic:claude-haiku-4-5\nHi\n/model anthropic:claude-opus-5-5\nHi\n/swap nowhere:x\n/swop\n"
    done = chat(MODEL, typed=typed)
    assert done.exit_code == 0, done.output
    assert [body["model"] for body in provider.bodies] == ["claude-haiku-4-5", "claude-opus-5-5"]
    assert "no provider 'nowhere'" in done.output
    assert "unknown command /swop" in done.output


def test_calls_that_wait_are_answered(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They are shown with their reason, one command answers the first, another declines it."""
    (tmp_path / "payments.py").write_text(
        "from dragoman.tools import CallDeferred\n\n\ndef pay(amount: int) -> str:\n"
        '    """Pay a bill."""\n    raise CallDeferred("the owner decides")\n',
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(tmp_path)
    calls = [Call(f"toolu_{number}", "pay", {"amount": number}) for number in (1, 2)]
    provider.replies = [handwritten_anthropic(*calls), handwritten_anthropic("One of two.")]
    done = chat(MODEL, "--tool", "payments:pay", typed="/answer\nPay.\n/answer receipt 7\n/decline too much\n")
    assert done.exit_code == 0, done.output
    assert "no tool call waits" in done.output
    assert 'pay({"amount": 1}) waits: the owner decides' in done.output
    assert "One of two." in done.output
    sent = {block["tool_use_id"]: block for block in provider.bodies[-1]["messages"][-1]["content"]}
    assert sent["toolu_1"]["content"] == "receipt 7"
    assert (sent["toolu_2"]["content"], sent["toolu_2"]["is_error"]) == ("too much", True)


def interrupt_a_turn() -> None:
    """What a chat leaves that was killed while it ran a tool."""
    asked, called = Message.user("Where am I?"), Message.assistant([ToolUseBlock(id="tu_1", name="getcwd")])
    with Store() as store:
        turn = OpenTurn(
            prompt=(asked,), attempts=(FailedAttempt(model=MODEL, error="OverloadedError", cost_usd=Decimal("0.5")),)
        )
        store.create(MODEL, session_id="sess_1", metadata={"command": "chat"}, step=TurnStep(begins=True, turn=turn))
        version = store.append("sess_1", [asked, called], expected_version=1)
        store.append("sess_1", expected_version=version, step=TurnStep(number=1, started={"tu_1": "execute"}))


def test_an_interrupted_turn_goes_on(provider: ScriptedProvider) -> None:
    """It is shown, and /continue does what ask(None) does; a question shows it, too, and gives it up."""
    interrupt_a_turn()
    provider.replies = [handwritten_anthropic("I do not know.")]
    done = chat("-c", "--tool", "os:getcwd", typed="/continue\n/continue\n")
    assert done.exit_code == 0, done.output
    for line in (
        "the last turn was interrupted: Where am I?", "getcwd({}) may have run", "at least $0.500000",
        "/continue goes on with it", "I do not know.", "no turn was interrupted",
    ):  # fmt: skip
        assert line in done.output
    assert "it was not run again" in str(provider.bodies[-1])


def test_a_question_gives_an_interrupted_turn_up(provider: ScriptedProvider) -> None:
    """The chat says what is known of the turn."""
    interrupt_a_turn()
    provider.replies = [handwritten_anthropic("Fine.")]
    done = CliRunner().invoke(app, ["ask", "-c", "How are you?"])
    assert done.exit_code == 0, done.output
    assert "getcwd({}) may have run" in done.stderr
    with Store() as store:
        assert store.unfinished() == ()


def test_a_file_goes_with_the_next_message_alone(provider: ScriptedProvider, tmp_path: Path) -> None:
    """What cannot be attached is an error, and the chat goes on."""
    (tmp_path / "notes.txt").write_text("Rain.", encoding="utf-8")
    provider.replies = [handwritten_anthropic("Good day.")] * 2
    done = chat(MODEL, typed=f"/attach\n/attach {tmp_path}\n/attach {tmp_path / 'notes.txt'}\nHi\nAgain\n")
    assert done.exit_code == 0, done.output
    assert "/attach needs a file name" in done.output
    assert "is a folder" in done.output
    kinds = [[block["type"] for block in message["content"]] for message in provider.bodies[-1]["messages"][::2]]
    assert kinds == [["document", "text"], ["text"]]


def test_a_chat_and_a_question_continue_each_other(provider: ScriptedProvider) -> None:
    """Options and tools hold for the whole chat."""
    provider.replies = [
        handwritten_anthropic("One."),
        handwritten_anthropic(Call("toolu_1", "getcwd")),
        handwritten_anthropic("Two."),
    ]
    assert CliRunner().invoke(app, ["ask", MODEL, "First?"]).exit_code == 0
    assert "'typo'" in str(chat("-c", "typo", typed="").exception)
    done = chat("-c", "-o", "max_output_tokens=9", "--tool", "os:getcwd", typed="Second?\n")
    assert done.exit_code == 0, done.output
    assert "continues a conversation of 2 messages" in done.output
    assert "→ getcwd" in done.output
    assert [body["max_tokens"] for body in provider.bodies[1:]] == [9, 9]
    assert len(provider.bodies[-1]["messages"]) == 5


def test_what_excludes_each_other_is_refused(tmp_path: Path) -> None:
    (tmp_path / "session.json").write_bytes(b"{")
    done = chat("-c", "--load", tmp_path / "session.json", typed="")
    assert done.exit_code == 2
    done = chat(MODEL, "--load", tmp_path / "session.json", typed="")
    assert isinstance(done.exception, ConfigurationError)


def test_piped_lines_are_typed_lines(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not text in UTF-8, or endless, ends the chat."""
    monkeypatch.setattr(inputs, "MAX_BYTES", 50)
    provider.replies = [handwritten_anthropic("Good day.")]
    done = CliRunner().invoke(app, ["chat", MODEL], input=b"Gr\xc3\xbc\xc3\x9fe\n\xff\xfe\n")
    assert "Good day." in done.output
    assert "not text in UTF-8" in str(done.exception)
    assert "longer than 50 bytes" in str(chat(MODEL, typed="x" * 51).exception)


def test_answers_obey_a_schema(provider: ScriptedProvider, tmp_path: Path) -> None:
    """One that does not is asked again, and the chat says so."""
    (tmp_path / "schema.json").write_text('{"type": "object", "required": ["city"]}', encoding="utf-8")
    provider.replies = [handwritten_anthropic("Paris"), handwritten_anthropic('{"city": "Paris"}')]
    done = chat(MODEL, "--schema", tmp_path / "schema.json", "--output-retries", 1, typed="Where?\n/quit\n")
    assert done.exit_code == 0, done.output
    assert "not valid, and asked again: $: the answer is not one JSON value" in done.output
    assert len(provider.bodies) == 2


class TestMentions:
    """Who types into a chat may choose the model of a message. The prompt of a command may come from elsewhere."""

    CONFIGURATION = f'default_model = "{MODEL}"\nlog = false\n[aliases]\nsmall = "anthropic:claude-haiku-4-5"\n'

    @pytest.fixture(autouse=True)
    def _configured(self, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "dragoman.toml").write_text(self.CONFIGURATION, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        provider.replies = [handwritten_anthropic("Good day.")] * 2

    def test_a_mention_chooses_the_model_of_one_message(self, provider: ScriptedProvider) -> None:
        done = chat(typed="@small Hi\n@anna Hi\nHi\n/quit\n")
        assert done.exit_code == 0, done.output
        assert "begin with a backslash" in done.output
        assert [body["model"] for body in provider.bodies] == ["claude-haiku-4-5", "claude-opus-5-5"]

    def test_the_prompt_of_a_command_is_text(self, provider: ScriptedProvider) -> None:
        done = CliRunner().invoke(app, ["ask", "@small Hi"])
        assert done.exit_code == 0, done.output
        assert provider.bodies[0]["model"] == "claude-opus-5-5"
        assert "@small Hi" in json.dumps(provider.bodies[0]["messages"])
