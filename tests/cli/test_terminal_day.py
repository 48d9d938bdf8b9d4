"""A day in a terminal: real processes under a pseudo-terminal, with a provider on loopback."""

import json
import os
import re
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.cli.app import app
from dragoman.store import Store
from dragoman.transport import fetch
from tests.cli.conftest import USER_FOLDERS, ScriptedProvider
from tests.unit.session.handwritten_replies import handwritten_anthropic

pty = pytest.importorskip("pty", reason="the system has no pseudo-terminals")
MODEL = "anthropic:claude-haiku-4-5"
PASTE_START, PASTE_END, LEFT, UP = "\x1b[200~", "\x1b[201~", "\x1b[D", "\x1b[A"
_PROMPT = "> "
_SECONDS = 30
"""That a command may take for what is waited for."""


class Terminal:
    """A command that believes that a person sits in front of it."""

    def __init__(self, descriptor: int, process: int) -> None:
        self._descriptor = descriptor
        self._process = process
        self._unseen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait_for(self, text: str) -> None:
        """Read until the text is shown. What is shown up to there does not count the next time."""
        deadline = time.monotonic() + _SECONDS
        while text not in self._unseen:
            assert time.monotonic() < deadline, f"{text!r} was not shown, but {self._unseen!r}"
            assert self._read(), f"the command ended: {self._unseen!r}"
        self._unseen = self._unseen.partition(text)[2]

    def leave(self) -> int:
        """End the input at the next prompt, and return the exit code."""
        self.wait_for(_PROMPT)
        self.type("\x04")
        deadline = time.monotonic() + _SECONDS
        while self._read():
            assert time.monotonic() < deadline, f"the command did not end: {self._unseen!r}"
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])

    def _read(self) -> bool:
        """Read what is there within a moment. Return whether the command still runs."""
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return True
        try:
            read = os.read(self._descriptor, 65536)
        except OSError:  # the other end is closed
            return False
        self._unseen += read.decode(errors="replace")
        return bool(read)


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    names = ("PATH", "PYTHONPATH", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", *USER_FOLDERS)
    environment = {name: os.environ[name] for name in names if name in os.environ}
    environment |= {"TERM": "xterm", "COLUMNS": "200", "LINES": "60"}
    command = [sys.executable, "-c", "from dragoman.cli import main; main()", *words]
    process, descriptor = pty.fork()
    if process == 0:
        os.execve(sys.executable, command, environment)
    found = Terminal(descriptor, process)
    try:
        yield found
    finally:
        os.close(descriptor)


def asked(provider: ScriptedProvider) -> list[str]:
    """The last message of the user in each request."""
    texts = []
    for body in provider.bodies:
        content = body["messages"][-1]["content"]
        texts.append(content if isinstance(content, str) else "".join(each["text"] for each in content))
    return texts


def test_a_day(provider: ScriptedProvider, user_folder: Path) -> None:
    """A line is edited, fifty pasted lines are one question, what was typed comes back in a later chat, and a chat of
    before is resumed by its number."""
    provider.replies = [handwritten_anthropic(f"Answer {number}.") for number in range(8)]
    pasted = "\n".join(f"line {number}" for number in range(50))
    with terminal("chat", "-m", MODEL) as first:
        first.wait_for(_PROMPT)
        first.type("Helo!" + LEFT * 2 + "l" + "\r")
        first.wait_for("Answer 0.")
        first.wait_for(_PROMPT)
        first.type(PASTE_START + pasted + PASTE_END + "\r")
        first.wait_for("Answer 1.")
        first.wait_for(_PROMPT)
        first.type("!multi\r")
        first.wait_for("!end ends the message")
        first.type("one\rtwo\r!end\r")
        first.wait_for("Answer 2.")
        assert first.leave() == 0
    assert asked(provider) == ["Hello!", pasted, "one\ntwo"]
    with terminal("chat", MODEL) as second:
        second.wait_for(_PROMPT)
        second.type(UP * 2 + "\r")  # behind "one\ntwo": what was pasted
        second.wait_for("Answer 3.")
        assert second.leave() == 0
    assert asked(provider)[3] == pasted
    listed = CliRunner().invoke(app, ["history"])
    assert re.search(r"^ *1 .* line 0 *$", listed.output, re.MULTILINE)
    assert re.search(r"^ *2 .* Hello! *$", listed.output, re.MULTILINE)
    with terminal("chat", "-r", "2") as third:
        third.wait_for("continues a conversation of 6 messages")
        third.wait_for(_PROMPT)
        third.type("And now?\r")
        third.wait_for("Answer 4.")
        assert third.leave() == 0
    assert len(provider.bodies[4]["messages"]) == 7
    spent = CliRunner().invoke(app, ["cost"])
    assert re.search(r"^20\d\d-\d\d-\d\d +5 ", spent.output, re.MULTILINE), spent.output
    history = next(user_folder.rglob("chat_history.jsonl"))
    assert [json.loads(line) for line in history.read_text().splitlines()][:2] == ["Hello!", pasted]
    assert history.stat().st_mode & 0o077 == 0


def test_lines_of_a_terminal_that_does_not_mark_pastes_are_one_question(provider: ScriptedProvider) -> None:
    """They are there at once: nobody types so fast."""
    provider.replies = [handwritten_anthropic("Fine.")]
    with terminal("chat", MODEL) as chat:
        chat.wait_for(_PROMPT)
        chat.type("one\rtwo\rthree\r")
        chat.wait_for("Fine.")
        assert chat.leave() == 0
    assert asked(provider) == ["one\ntwo\nthree"]


def test_an_editor_writes_a_question(
    provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may have several lines; one that writes nothing asks nothing."""
    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[1], 'w').write('from\\nan editor\\n')\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    provider.replies = [handwritten_anthropic("Fine.")]
    done = CliRunner().invoke(app, ["chat", MODEL], input="!edit\n")
    assert done.exit_code == 0, done.output
    monkeypatch.setenv("VISUAL", "true")
    assert "nothing was written" in CliRunner().invoke(app, ["chat", MODEL], input="!edit\n").output
    assert asked(provider) == ["from\nan editor"]


def test_several_lines_of_a_pipe_are_one_question(provider: ScriptedProvider) -> None:
    """Several lines of a pipe are one question between !multi and !end, or the end of the input."""
    provider.replies = [handwritten_anthropic("Fine.")] * 2
    done = CliRunner().invoke(app, ["chat", "-m", MODEL], input="!multi\none\n\ntwo\n!end\n!multi\nthree\n")
    assert done.exit_code == 0, done.output
    assert asked(provider) == ["one\n\ntwo", "three"]


def test_conversations_are_listed_searched_and_resumed(provider: ScriptedProvider) -> None:
    """By number or by id, also with ask; the model may be an option."""
    run = CliRunner()
    assert "no conversation is kept" in run.invoke(app, ["history"]).output
    provider.replies = [handwritten_anthropic(text) for text in ("Bern.", "Paris.", "Still Bern.", "And Bern.")]
    for prompt in ("The capital of Switzerland?", "The capital of France?"):
        assert run.invoke(app, ["ask", "-m", MODEL, prompt]).exit_code == 0
    found = run.invoke(app, ["history", "bern"]).output
    assert "Switzerland" in found
    assert "France" not in found
    assert re.search(r"^ *2 ", found, re.MULTILINE)
    assert "no kept conversation" in run.invoke(app, ["history", "Oslo"]).output
    assert len(run.invoke(app, ["history", "-n", "1"]).output.splitlines()) == 2
    assert run.invoke(app, ["ask", "-r", "2", "Sure?"]).exit_code == 0
    assert len(provider.bodies[2]["messages"]) == 3
    with Store() as store:
        swiss = next(each.id for each in store.list().sessions if "Switzerland" in (each.title or ""))
    assert run.invoke(app, ["ask", "-r", swiss[-8:], "Really?"]).exit_code == 0
    assert len(provider.bodies[3]["messages"]) == 5
    assert "dragoman history lists them" in str(run.invoke(app, ["ask", "-r", "77", "Hm?"]).exception)
    twice = run.invoke(app, ["ask", "-m", MODEL, MODEL, "Hm?"])
    assert (twice.exit_code, "name the model once" in twice.output) == (2, True)


def test_an_address_is_attached(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is fetched once, and sent as a file would be, to any model."""
    fetched: list[str] = []

    def give(self: fetch.Fetcher, url: str) -> fetch.FetchedMedia:
        fetched.append(url)
        return fetch.FetchedMedia(b"\x89PNG\r\n\x1a\n" + bytes(24), "image/png")

    monkeypatch.setattr(fetch.Fetcher, "__call__", give)
    provider.replies = [handwritten_anthropic("A square.")]
    done = CliRunner().invoke(app, ["ask", MODEL, "What is it?", "-a", "https://example.com/square.png"])
    assert done.exit_code == 0, done.output
    (image, _) = provider.bodies[0]["messages"][0]["content"]
    assert (image["source"]["type"], image["source"]["media_type"]) == ("base64", "image/png")
    assert fetched == ["https://example.com/square.png"]


def test_an_address_of_this_network_is_refused() -> None:
    """The fetcher reads public addresses only: what it reads goes to a provider."""
    done = CliRunner().invoke(app, ["ask", MODEL, "What is it?", "-a", "https://127.0.0.1/square.png"])
    assert done.exit_code != 0
    assert "127.0.0.1" in str(done.exception)


def test_the_cost_without_a_conversation_says_so() -> None:
    assert "no conversation is kept yet" in str(CliRunner().invoke(app, ["cost"]).exception)
