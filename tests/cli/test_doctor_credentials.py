"""`dragoman doctor`: which credentials would be used, until when, and that none is shown."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dragoman.adapter.registry import adapter_class, providers
from dragoman.cli.app import app
from dragoman.credentials import stored_keys
from tests.unit.credentials.servers import Answer, Server
from tests.unit.credentials.test_google import TokenServer, service_account, write

KEY = "canary-key-of-the-command"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user_folder: Path) -> None:
    for provider in providers():
        endpoint = adapter_class(provider).endpoint
        for name in (*endpoint.key_variables, *endpoint.token_variables, endpoint.base_url_variable):
            if name:
                monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(stored_keys, "find_spec", lambda name: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def doctor(*words: str) -> str:
    return CliRunner().invoke(app, ["doctor", *words]).output


def lines(output: str) -> list[str]:
    return [line for line in output.splitlines() if "credentials  " in line]


def test_nothing_is_said_of_credentials_that_nobody_has() -> None:
    assert lines(doctor()) == []


def test_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables, files and settings are named. Without --connect nothing is fetched and no program runs."""
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.setenv("AZURE_CLIENT_SECRET", "canary-secret")
    program = f"[{sys.executable!r}, '-c', 'open(\"ran\", \"w\")']"
    path = tmp_path / "mine.toml"
    path.write_text(
        f"[providers.openai]\napi_key_command = {program}\n"
        '[providers.google-vertex]\nproject = "p-1"\ncredentials_file = "key.json"\n'
    )
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
    output = doctor("--no-connect")
    found = "\n".join(lines(output))
    assert "bedrock: AWS, variable AWS_PROFILE" in found
    assert "azure-openai: Microsoft Entra, variable AZURE_CLIENT_SECRET" in found
    assert f"google-vertex: Google Cloud, credentials_file {tmp_path / 'key.json'}" in found
    assert f"openai: the command {sys.executable}" in found
    assert "dragoman doctor --connect" in output
    assert not (tmp_path / "ran").exists()
    assert "canary" not in output


def test_until_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --connect they are fetched; one that cannot be had is a problem, with what to do."""
    path = tmp_path / "mine.toml"
    with TokenServer() as tokens, Server(lambda _: Answer(404, "")) as elsewhere:
        file = write(tmp_path / "key.json", service_account(tokens))
        path.write_text(
            f'[providers.google-vertex]\nbase_url = "{elsewhere.url}"\ncredentials_file = "{file}"\n'
            f'[providers.openai]\nbase_url = "{elsewhere.url}"\n'
            f"api_key_command = [{sys.executable!r}, '-c', 'print(\"{KEY}\")']\n"
            f'[providers.bedrock]\nbase_url = "{elsewhere.url}"\nregion = "eu-central-1"\nprofile = "gone"\n'
        )
        monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
        done = CliRunner().invoke(app, ["doctor", "--connect"])
    output = done.output
    assert "google-vertex: Google Cloud" in output
    assert ": fetched, valid until 2" in output
    assert "for 60 minutes" in output
    assert f"openai: the command {sys.executable}: fetched, without an end" in output
    assert "check the profile gone in ~/.aws/config" in output
    assert done.exit_code == 1
    assert "canary" not in output
    assert all("authorization" not in each.headers for each in elsewhere.requests)
