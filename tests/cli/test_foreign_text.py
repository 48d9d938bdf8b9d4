"""Names and messages of providers, users and files in the output of the commands: they are shown, and do nothing."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.canonical.message import Message
from dragoman.cli import main
from dragoman.cli.io.console import show_controls, show_line
from dragoman.messages import MessageMetadata, Usage
from dragoman.session import Session
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from tests.cli.conftest import ScriptedProvider
from tests.unit.session.handwritten_replies import Call, Reply, handwritten_anthropic

MODEL = "anthropic:claude-opus-5-5"
FORGED = "2026-11-24 00:00:00 ERROR the key is revoked"
NAME = f"m[bold red]x[/] [link=a.example]y[/link]\x1b]8;;a.example\x07\x1b[2J\x9b31m\u202er\u2066\r\n{FORGED}"
"""Markup, escape sequences of 7 and 8 bits, changes of the direction of text, and a line of its own."""
READABLE = (
    "Łódź, 10 €, \U0001f468\u200d\U0001f469\u200d\U0001f467, \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, a\tb"
)
"""Text that needs what is not printable by itself: an emoji of several parts, a joiner of Persian, a tab."""


Run = Callable[..., tuple[str, str]]


def refuse(_: ReceivedRequest) -> HttpReply:
    """A refusal whose every word is the provider's."""
    error = {"type": NAME, "message": NAME}
    return json_reply({"type": "error", "error": error, "request_id": NAME}, status=400)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run a command as the program does; return stdout and stderr."""

    def call(*words: object, typed: str | None = None) -> tuple[str, str]:
        monkeypatch.setattr(sys, "argv", ["dragoman", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", None if typed is None else io.TextIOWrapper(io.BytesIO(typed.encode())))
        monkeypatch.setenv("COLUMNS", "300")
        with pytest.raises(SystemExit):
            main()
        written = capfd.readouterr()
        return written.out, written.err

    return call


def check(text: str) -> None:
    """The text is harmless: each of its characters is printable, or a tab, and no line is forged."""
    assert "m[bold red]x[/] [link" in text, text
    for line in text.split("\n"):
        assert not line.startswith(FORGED), text
        assert line.replace("\t", "").isprintable(), ascii(line)


def write_session(path: Path) -> None:
    """A reply of a model with that name, which has no price."""
    metadata = MessageMetadata(model=f"openai:{NAME}", usage=Usage(input_tokens=1, output_tokens=1))
    session = Session(MODEL, messages=[Message.user("Hi."), Message.assistant("Hi.", metadata=metadata)])
    path.write_bytes(session.dump())


COMMANDS: dict[str, tuple[str, ...]] = {
    "ask refused": ("ask", MODEL, "Hi"),
    "ask refused, whole": ("ask", MODEL, "Hi", "--no-stream"),
    "bulk": ("bulk", "{folder}/rows.jsonl", "-m", f"anthropic:{NAME}", "-o", "{folder}/out.jsonl"),
    "an unknown option": ("ask", MODEL, "Hi", "-o", f"{NAME}=1"),
    "an unknown model": ("ask", f"nowhere:{NAME}", "Hi"),
    "models": ("models", f"openai:{NAME}"),
    "a provider": ("models", NAME),
    "prices": ("prices", f"openai:{NAME}"),
    "view": ("view", f"{{folder}}/{NAME}"),
    "convert": ("convert", f"{{folder}}/{NAME}", "{folder}/out", "--to", "cmf"),
    "cost": ("cost", f"{{folder}}/{NAME}"),
    "cost by model": ("cost", "{folder}/session.json"),
    "chat": ("chat", f"nowhere:{NAME}"),
    "cassette": ("cassette", "show", f"{{folder}}/{NAME}"),
    "doctor": ("doctor", "--no-connect"),
    "keys": ("keys", "remove", NAME),
    "config": ("config", "check", f"{{folder}}/{NAME}"),
    "store": ("store", "export", "--store", f"sqlite:///{NAME}", "{folder}/export"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_shows_foreign_words_on_their_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The rest of the text stays as it is."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key-for-tests")
    monkeypatch.setenv("SSL_CERT_FILE" if name == "doctor" else "UNUSED", NAME)
    (tmp_path / "rows.jsonl").write_text('"Hi"\n')
    write_session(tmp_path / "session.json")
    with FaultyServer(refuse) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        out, err = run(*(each.replace("{folder}", str(tmp_path)) for each in COMMANDS[name]))
    check(out + err)


@pytest.mark.parametrize("command", ["ask", "chat"])
def test_a_turn_shows_the_names_of_a_provider_on_their_line(
    command: str, provider: ScriptedProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """The model that answered, calls, their results, and what was lost. The answer in a pipe is what was sent."""
    (tmp_path / "mine.py").write_text(f"def look() -> str:\n    'Look.'\n    return {NAME!r}\n")
    monkeypatch.chdir(tmp_path)
    answer = f"{READABLE}{NAME}" if command == "ask" else READABLE
    calling = handwritten_anthropic(Call("toolu_1", "look"), Call("toolu_2", NAME, {NAME: NAME}))
    provider.replies = [rename(calling), rename(handwritten_anthropic(answer))]
    if command == "ask":
        out, err = run("ask", MODEL, "Hi", "--tool", "mine:look")
        assert out == f"{answer}\n"
        check(err)
    else:
        out, err = run("chat", MODEL, "--tool", "mine:look", typed="Hi\n")
        assert READABLE.partition("\t")[0] in out
        check("".join(line for line in (out + err).splitlines(keepends=True) if READABLE[:8] not in line))


def rename(reply: Reply) -> Reply:
    """The reply of a model that calls itself by a hostile name."""
    model, hostile = b'"model":"claude-opus-5-5"', json.dumps({"model": NAME})[1:-1].encode()
    assert model.replace(b":", b": ") in reply.body or model in reply.body

    def change(data: bytes) -> bytes:
        return data.replace(model, hostile).replace(model.replace(b":", b": "), hostile)

    return Reply(change(reply.body), tuple(map(change, reply.frames)), reply.content_type)


def test_text_of_people_stays_readable() -> None:
    """Emoji of several parts, joiners and tabs are not touched; markup is shown."""
    assert show_controls(READABLE) == show_line(READABLE) == READABLE
    assert show_line("a[b]\n[/]") == r"a\[b]␊\[/]"
