"""`dragoman doctor`: what it finds, what it advises, and that it neither writes nor connects unasked."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dragoman.adapter.registry import adapter_class, providers
from dragoman.cli.app import app
from dragoman.cli.doctor import local_checks
from dragoman.credentials import stored_keys
from dragoman.store import Store
from dragoman.testing.faults.server import FaultyServer, HttpReply
from tests.cli.conftest import ScriptedProvider

SECRET = "canary-key-of-a-user"
VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """No keys, no addresses, no proxies, and an empty project."""
    for name in (*VARIABLES, *PROXIES, *(each.upper() for each in PROXIES)):
        monkeypatch.delenv(name, raising=False)
    for provider in providers():
        endpoint = adapter_class(provider).endpoint
        for name in (*endpoint.key_variables, endpoint.base_url_variable):
            if name:
                monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stored_keys, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def doctor(*words: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *words])


@contextmanager
def silent_port() -> Iterator[int]:
    """A port at which nothing listens. It is taken, so that no other program gets it meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_a_fresh_computer_has_no_problem(user_folder: Path, bare_environment: Path) -> None:
    """It says what is missing, and how to get it; nothing is written."""
    done = doctor()
    assert done.exit_code == 0, done.output
    for line in (
        "ok       python",
        "ok       dragoman",
        "ok       extras         installed: ",
        "ok       proxies        none",
    ):
        assert line in done.output
    assert "to do: dragoman keys set PROVIDER" in done.output
    assert "none is kept yet" in done.output
    assert list(user_folder.rglob("*")) == []
    assert list(bare_environment.iterdir()) == []


def test_what_is_wrong_is_named_with_what_to_do(
    user_folder: Path, bare_environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 1. Neither keys nor passwords are shown."""
    (bare_environment / "dragoman.toml").write_text("[options]\nmax_tokens = 5\n")
    (bare_environment / "no.pem").write_text("no certificate")
    with Store():
        pass
    (database,) = user_folder.rglob("sessions.db")
    database.write_bytes(b"not a database" * 100)
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET} {SECRET}")
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@127.0.0.1:9")
    monkeypatch.setenv("SSL_CERT_FILE", str(bare_environment / "no.pem"))
    done = doctor("--no-connect")
    assert done.exit_code == 1
    assert SECRET not in done.output
    assert "ok       keys           anthropic: environment, ANTHROPIC_API_KEY" in done.output
    assert "problem  keys           openai: OPENAI_API_KEY holds characters that no key can have" in done.output
    assert "options.max_tokens" in done.output
    assert "to do: dragoman config check" in done.output
    assert "problem  certificates   SSL_CERT_FILE names" in done.output
    assert "problem  conversations" in done.output
    assert "http://127.0.0.1:9" in done.output
    assert "not checked: https://api.anthropic.com" in done.output


def test_certificates_that_can_be_read_are_named(bare_environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_DIR", str(bare_environment))
    assert f"ok       certificates   SSL_CERT_DIR: {bare_environment}" in doctor("--no-connect").output


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_keys_that_others_can_read_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that corrects it is in the message."""
    CliRunner().invoke(app, ["keys", "set", "anthropic"], input=SECRET)
    stored_keys.StoredKeys().path.chmod(0o644)
    done = doctor("--no-connect")
    assert done.exit_code == 1
    assert "run chmod 600" in done.output


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_databases_that_others_can_read_are_named(user_folder: Path, bare_environment: Path) -> None:
    """With the command that corrects it; they keep their rights, and a folder may protect them."""
    with Store():
        pass
    (kept,) = user_folder.rglob("sessions.db")
    folder, shared = kept.parent, bare_environment / "a gateway.db"
    shared.touch(0o640)
    (bare_environment / "dragoman.toml").write_text(f"[gateway]\ndatabase = 'sqlite:///{shared}'\n")
    bare_environment.chmod(0o755)
    kept.chmod(0o644)
    done = doctor("--no-connect")
    assert f"note     databases      others can read {shared}" in done.output
    assert f"to do: chmod 600 '{shared}'" in done.output
    assert f"others can read {kept}" not in done.output
    folder.chmod(0o755)
    assert f"to do: chmod 600 {kept}" in doctor("--no-connect").output
    assert kept.stat().st_mode & 0o777 == 0o644


def test_it_connects_only_if_it_is_let(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal it does not ask, and connects to nothing. No key is sent."""
    seen: list[str] = []

    def answer(request: object) -> HttpReply:
        seen.append(str(request))
        return HttpReply(status=404, headers={"date": "Mon, 01 Jan 2001 00:00:00 GMT"})

    with FaultyServer(answer) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        assert f"not checked: {server.url}" in doctor().output
        monkeypatch.setattr("dragoman.cli.doctor._is_interactive", lambda: True)
        asked = CliRunner().invoke(app, ["doctor"], input="n\n")
        assert f"connects to: {server.url}" in asked.output
        assert seen == []
        done = CliRunner().invoke(app, ["doctor"], input="y\n")
    assert f"ok       address        anthropic: {server.url} replies (404)" in done.output
    assert len(seen) == 1
    assert "a-key-for-tests" not in seen[0]
    assert "problem  clock" in done.output
    assert done.exit_code == 1
    with silent_port() as port:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{port}")
        gone = doctor("--connect")
    assert f"problem  address        anthropic: http://127.0.0.1:{port} cannot be reached" in gone.output


def test_redis_is_checked_if_it_is_named() -> None:
    """Its password is not shown."""
    with silent_port() as port:
        done = doctor("--connect", "--redis", f"redis://:{SECRET}@127.0.0.1:{port}/0")
    assert f"problem  redis          redis://127.0.0.1:{port}" in done.output
    assert SECRET not in done.output


def test_a_check_that_fails_is_a_problem_of_its_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: None) -> object:
        raise PermissionError("no access")

    monkeypatch.setattr(local_checks, "find_proxies", fail)
    done = doctor()
    assert done.exit_code == 1
    assert "problem  proxies        no access" in done.output
