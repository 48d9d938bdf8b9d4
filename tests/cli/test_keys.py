"""`dragoman keys`: reads a key without echo, and never shows one."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
from dragoman.cli.app import app
from dragoman.credentials import stored_keys

SECRET = "canary-key-of-a-user"


@pytest.fixture(autouse=True)
def keys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / name)
    monkeypatch.setattr(stored_keys, "find_spec", lambda name: None)
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "dragoman" / "keys.json"


def run(*words: str, line: str = "") -> Result:
    return CliRunner().invoke(app, ["keys", *words], input=line)


def test_a_key_is_read_from_a_pipe_listed_and_removed(keys_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No output holds it."""
    done = run("set", "anthropic", line=f"{SECRET}\n")
    assert done.exit_code == 0
    assert SECRET in keys_file.read_text()
    listed = run("list")
    assert "anthropic" in listed.output
    monkeypatch.setenv("ANTHROPIC_API_KEY", f"{SECRET}-2")
    also_set = run("list")
    assert "ANTHROPIC_API_KEY; not used" in also_set.output
    replaced = run("set", "anthropic", line=SECRET)
    assert "ANTHROPIC_API_KEY is set, and goes first" in replaced.output
    removed = run("remove", "anthropic")
    assert removed.exit_code == 0
    assert SECRET not in keys_file.read_text()
    assert all(SECRET not in each.output for each in (done, listed, also_set, replaced, removed))


def test_a_user_without_keys_reads_how_to_store_one() -> None:
    assert "dragoman keys set PROVIDER" in run("list").output


@pytest.mark.parametrize(
    ("words", "line", "error", "message"),
    [
        (("set", "antropic"), SECRET, UnknownProviderError, "did you mean 'anthropic'"),
        (("set", "../../etc/passwd"), SECRET, UnknownProviderError, "no provider"),
        (("set", "local"), SECRET, ConfigurationError, "needs no API key"),
        (("set", "openai"), "", ConfigurationError, "is empty"),
        (("set", "openai"), f"{SECRET} {SECRET}", ConfigurationError, "characters that no key can have"),
        (("remove", "openai"), "", ConfigurationError, "no key is stored for 'openai'"),
    ],
)
def test_wrong_keys_and_providers_are_refused(
    words: tuple[str, ...], line: str, error: type[Exception], message: str, keys_file: Path
) -> None:
    """Nothing is written, and the key is not repeated."""
    done = run(*words, line=line)
    assert isinstance(done.exception, error)
    assert message in str(done.exception)
    assert SECRET not in f"{done.exception}{done.output}"
    assert not keys_file.exists()


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_a_terminal_does_not_show_the_key(tmp_path: Path) -> None:
    program = (
        "import platformdirs, pathlib; from dragoman.credentials import stored_keys;"
        f"platformdirs.user_config_path = lambda name: pathlib.Path({str(tmp_path)!r}) / name;"
        "stored_keys.find_spec = lambda name: None;"
        "from dragoman.cli import main; main()"
    )
    terminal, end = pytest.importorskip("pty").openpty()
    command = [sys.executable, "-c", program, "keys", "set", "openai"]
    with subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True) as process:
        os.close(end)
        shown = _read_until(terminal, b"API key for openai: ")
        os.write(terminal, f"{SECRET}\n".encode())
        shown += _read_until(terminal, None)
        assert process.wait(timeout=60) == 0
    os.close(terminal)
    assert b"the key for openai is stored" in shown
    assert SECRET.encode() not in shown
    assert SECRET in (tmp_path / "dragoman" / "keys.json").read_text()


def _read_until(terminal: int, expected: bytes | None) -> bytes:
    """What a program shows up to a text, or to its end."""
    shown = b""
    while expected is None or expected not in shown:
        assert select.select([terminal], [], [], 60)[0], shown
        try:
            data = os.read(terminal, 4096)
        except OSError:  # the program has ended
            break
        if not data:
            break
        shown += data
    return shown
